package lint

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/rehearse-k8s/rehearse/api/kwok/v1alpha1"
	"github.com/rehearse-k8s/rehearse/stage"
)

// mostRepairs bounds how many mistakes of one stage are found.
const mostRepairs = 100

// compile compiles a stage. If that fails, it reports why, replaces what was wrong by something harmless and tries
// again, so that the second mistake is found too.
func (l *linter) compile(s *linted) {
	for range mostRepairs {
		c, warnings, err := stage.CompileSource(s.Source, l.cel)
		if err == nil {
			for _, w := range warnings {
				l.say(s, Warning, w.Field, "%s", w.Problem)
			}
			s.compiled = c
			if c != nil {
				s.clauses = clausesOf(s, c)
			}
			return
		}
		l.say(s, Error, err.Field, "%s", err.Problem)
		s.bad = append(s.bad, err.Field)
		if !repair(s.Stage, err.Field) {
			return
		}
	}
}

var indices = regexp.MustCompile(`\[(\d+)\]`)

// repair puts something harmless in the place of a field, without moving any
// other. It reports whether it could.
func repair(s *stage.Stage, field string) bool {
	at := func(n int) int {
		m := indices.FindAllStringSubmatch(field, -1)
		if n >= len(m) {
			return 0
		}
		i, _ := strconv.Atoi(m[n][1])
		return i
	}
	spec := &s.Spec
	under := func(prefix string) bool { return strings.HasPrefix(field, prefix) }
	switch {
	case field == "metadata.name":
		s.Name = "unnamed"
	case field == "spec.resourceRef.kind":
		spec.ResourceRef.Kind = "Unknown"
	case field == "spec.resourceRef.apiGroup":
		spec.ResourceRef.APIGroup = ""
	case field == "spec.weight":
		spec.Weight = 0
	case under("spec.weightFrom"):
		spec.WeightFrom = nil
	case under("spec.selector.matchExpressions["):
		spec.Selector.MatchExpressions[at(0)] = v1alpha1.SelectorExpression{Key: ".metadata", Operator: v1alpha1.SelectorOpExists}
	case under("spec.delay.durationFrom"):
		spec.Delay.DurationFrom = nil
	case under("spec.delay.jitterDurationFrom"):
		spec.Delay.JitterDurationFrom = nil
	case field == "spec.steps":
		spec.Next = &v1alpha1.StageNext{Delete: true}
	case under("spec.steps["):
		return repairStep(&spec.Steps[at(0)], field, at(1))
	case under("spec.next."):
		return repairNext(spec.Next, field, at(0))
	default:
		return false
	}
	return true
}

func repairStep(s *v1alpha1.StageStep, field string, item int) bool {
	_, rest, inside := strings.Cut(field, "].")
	switch {
	case !inside:
		s.Event = &v1alpha1.StageEvent{}
	case rest == "event.type":
		s.Event.Type = ""
	case strings.HasPrefix(rest, "finalizers."):
		repairFinalizer(s.Finalizers, rest, item)
	case strings.HasPrefix(rest, "patch."):
		repairPatch(s.Patch, rest)
	case strings.HasPrefix(rest, "apply."):
		p := v1alpha1.StagePatch{Template: s.Apply.Template, Subresource: s.Apply.Subresource, Type: s.Apply.Type, Impersonation: s.Apply.Impersonation}
		repairPatch(&p, rest)
		*s.Apply = v1alpha1.StageApply{Template: p.Template, Subresource: p.Subresource, Type: p.Type, Impersonation: p.Impersonation}
	default:
		return false
	}
	return true
}

func repairNext(n *v1alpha1.StageNext, field string, item int) bool {
	rest := strings.TrimPrefix(field, "spec.next.")
	switch {
	case rest == "event.type":
		n.Event.Type = ""
	case strings.HasPrefix(rest, "finalizers."):
		repairFinalizer(n.Finalizers, rest, item)
	case strings.HasPrefix(rest, "statusPatchAs"):
		n.StatusPatchAs = nil
	case strings.HasPrefix(rest, "statusSubresource"):
		n.StatusSubresource = nil
	case strings.HasPrefix(rest, "statusTemplate.impersonation"):
		n.StatusPatchAs = nil
	case strings.HasPrefix(rest, "statusTemplate"):
		n.StatusTemplate = harmless
	case strings.HasPrefix(rest, "patches["):
		_, part, _ := strings.Cut(rest, "].")
		repairPatch(&n.Patches[item], "patch."+part)
	default:
		return false
	}
	return true
}

// harmless is a template that renders nothing.
const harmless = "# nothing"

func repairPatch(p *v1alpha1.StagePatch, field string) {
	switch part := strings.TrimPrefix(strings.TrimPrefix(field, "patch."), "apply."); {
	case strings.HasPrefix(part, "impersonation"):
		p.Impersonation = nil
	case part == "subresource":
		p.Subresource = ""
	case part == "root":
		p.Root = ""
	case part == "type":
		p.Type = nil
	default:
		p.Template = harmless
	}
}

func repairFinalizer(f *v1alpha1.StageFinalizers, field string, item int) {
	list := f.Add
	if strings.Contains(field, ".remove[") || strings.HasPrefix(field, "finalizers.remove[") {
		list = f.Remove
	}
	list[item].Value = "example.com/unnamed"
}
