package conformance

import (
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"
)

// By default the test runs few Jobs, and always the same; -rapid.checks and -rapid.seed change that.
func init() {
	for name, value := range map[string]string{"rapid.checks": "60", "rapid.seed": "1", "rapid.nofailfile": "true"} {
		if err := flag.Set(name, value); err != nil {
			panic(err)
		}
	}
}

// TestRandomJobs runs random Jobs with both controllers: random specs, and pods that finish in random ways.
// Before each step, the API must show the same: the status without times and UIDs, and the pods by index,
// phase and finalizer.
//
// There is one step per tick (or all pods succeed), and no wait of a Job ends near a tick. So the result does
// not depend on which controller is faster by a second or two. Excluded are only intended differences and
// behaviour that upstream leaves to chance:
//
//   - With backoffLimitPerIndex all indexes may run at once (see the differences).
//   - Parallelism of an Indexed Job only increases, except together with completions:
//     upstream chooses randomly which of equal pods it deletes.
//   - The controllers are not restarted after pods have failed, and no further pod fails
//     without a finish time, and none at all if failures may be ignored (see the differences).
//   - With a success policy pods do not succeed at the same moment: this controller may
//     evaluate it after it has observed the first, and then another rule matches.
//   - Names of pods, also in messages, are masked.
func TestRandomJobs(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		s := drawScript(r)
		var traces [2][]string
		for i, c := range controllers {
			f := runScenario(t, c.ours, 0, func(p *play) {
				traces[i] = nil
				s.play(p, func(line string) { traces[i] = append(traces[i], line) })
			})
			if f != nil {
				r.Fatalf("%s: %s: %s\n%s\n%s", c.name, f.Run.Failure.Oracle, f.Run.Failure.Message, s, strings.Join(traces[i], "\n"))
			}
		}
		for n := range max(len(traces[0]), len(traces[1])) {
			ours, upstream := line(traces[0], n), line(traces[1], n)
			if ours != upstream {
				r.Fatalf("%s\nup to here both are equal:\n%s\n\nours:\n%s\n\nupstream:\n%s", s, strings.Join(traces[0][:n], "\n"), ours, upstream)
			}
		}
	})
}

func line(trace []string, n int) string {
	if n < len(trace) {
		return trace[n]
	}
	return "(nothing more)"
}

// tick is the time between two steps. Waits after failures are 10, 20, 40, 80, 160, 320 and 600 seconds; none
// ends within seven seconds of a tick.
const tick = 47 * time.Second

// script is a Job and the steps of its scenario.
type script struct {
	spec  batchv1.JobSpec
	steps []step
}

// step is one action: its kind, which of the objects that it applies to, and a number that it needs.
type step struct {
	what  string
	which int
	code  int32
}

func (s *script) String() string {
	var b strings.Builder
	spec := s.spec
	fmt.Fprintf(&b, "parallelism %s, completions %s, %s, backoffLimit %s, per index %s, failed indexes %s, replacing %s, deadline %s, suspended %v, restarts %s, node %q",
		num(spec.Parallelism), num(spec.Completions), ptr.Deref(spec.CompletionMode, "NonIndexed"), num(spec.BackoffLimit), num(spec.BackoffLimitPerIndex),
		num(spec.MaxFailedIndexes), ptr.Deref(spec.PodReplacementPolicy, "default"), num(spec.ActiveDeadlineSeconds), ptr.Deref(spec.Suspend, false),
		spec.Template.Spec.RestartPolicy, spec.Template.Spec.NodeName)
	if spec.PodFailurePolicy != nil {
		for _, rule := range spec.PodFailurePolicy.Rules {
			codes := "disruption"
			if rule.OnExitCodes != nil {
				codes = fmt.Sprint(rule.OnExitCodes.Operator, rule.OnExitCodes.Values, ptr.Deref(rule.OnExitCodes.ContainerName, ""))
			}
			fmt.Fprintf(&b, "\n%s on %s", rule.Action, codes)
		}
	}
	if spec.SuccessPolicy != nil {
		for _, rule := range spec.SuccessPolicy.Rules {
			fmt.Fprintf(&b, "\nsuccess: indexes %q, count %s", ptr.Deref(rule.SucceededIndexes, ""), num(rule.SucceededCount))
		}
	}
	fmt.Fprintf(&b, "\nsteps %v", s.steps)
	return b.String()
}

func num[T int32 | int64](n *T) string {
	if n == nil {
		return "none"
	}
	return fmt.Sprint(*n)
}

// drawScript draws a Job that the API accepts.
func drawScript(r *rapid.T) *script {
	s := &script{spec: job().Spec}
	spec := &s.spec
	// Of a range rapid prefers small numbers, and would draw empty Jobs too often.
	draw := func(name string, from, to int) int32 {
		all := make([]int32, 0, to-from+1)
		for n := from; n <= to; n++ {
			all = append(all, int32(n))
		}
		return rapid.SampledFrom(all).Draw(r, name)
	}
	chance := func(name string, of int) bool { return draw(name, 1, of) == int32(of) }

	spec.Parallelism = ptr.To(draw("parallelism", 0, 4))
	isIndexed := rapid.Bool().Draw(r, "indexed")
	if isIndexed || !chance("no completions", 3) {
		spec.Completions = ptr.To(draw("completions", 0, 5))
	}
	if rapid.Bool().Draw(r, "limited") {
		spec.BackoffLimit = ptr.To(draw("backoffLimit", 0, 3))
	}
	if isIndexed {
		drawIndexed(spec, draw, chance)
	}
	if chance("failure policy", 2) {
		drawFailurePolicy(spec, draw)
	} else if chance("in place", 4) {
		onFailure(spec)
	}
	switch draw("replacing", 0, 3) {
	case 0:
		replacing(batchv1.Failed)(spec)
	case 1:
		if spec.PodFailurePolicy == nil {
			replacing(batchv1.TerminatingOrFailed)(spec)
		}
	}
	if chance("deadline", 5) {
		spec.ActiveDeadlineSeconds = ptr.To(deadline(draw("deadline", 1, 8)))
	}
	if chance("with an init container", 3) {
		spec.Template.Spec.InitContainers = []corev1.Container{{Name: "first", Image: "first"}}
	}
	if chance("begins suspended", 6) {
		suspended(spec)
	}
	if rapid.Bool().Draw(r, "on a node") {
		onNode(spec)
	}
	for range draw("steps", 1, 20) {
		s.steps = append(s.steps, step{
			what:  rapid.SampledFrom(stepKinds).Draw(r, "what"),
			which: int(draw("which", 0, 5)), code: draw("code", 1, 4),
		})
	}
	return s
}

// deadline is one that passes between two ticks.
func deadline(ticks int32) int64 { return int64(tick/time.Second)*int64(ticks) + 25 }

func drawIndexed(spec *batchv1.JobSpec, draw func(string, int, int) int32, chance func(string, int) bool) {
	completions := *spec.Completions
	spec.CompletionMode = ptr.To(batchv1.IndexedCompletion)
	if chance("per index", 3) {
		spec.Parallelism = ptr.To(max(completions, 1))
		perIndex(draw("per index limit", 0, 2))(spec)
		if chance("max failed indexes", 2) && completions > 0 {
			maxFailedIndexes(draw("max failed indexes", 0, int(completions)))(spec)
		}
	} else if chance("elastic", 3) {
		spec.Parallelism = ptr.To(completions)
	}
	if completions == 0 || !chance("success policy", 3) {
		return
	}
	spec.SuccessPolicy = &batchv1.SuccessPolicy{}
	for range draw("success rules", 1, 2) {
		rule := batchv1.SuccessPolicyRule{SucceededCount: ptr.To(draw("count", 1, int(completions)))}
		if chance("success indexes", 2) {
			from := draw("from", 0, int(completions)-1)
			to := draw("to", int(from), int(completions)-1)
			text, most := fmt.Sprint(from), to-from+1
			if to > from {
				text = fmt.Sprintf("%d-%d", from, to)
			}
			rule.SucceededIndexes, rule.SucceededCount = ptr.To(text), ptr.To(min(*rule.SucceededCount, most))
			if chance("all of them", 2) {
				rule.SucceededCount = nil
			}
		}
		spec.SuccessPolicy.Rules = append(spec.SuccessPolicy.Rules, rule)
	}
}

func drawFailurePolicy(spec *batchv1.JobSpec, draw func(string, int, int) int32) {
	actions := []batchv1.PodFailurePolicyAction{
		batchv1.PodFailurePolicyActionIgnore, batchv1.PodFailurePolicyActionCount, batchv1.PodFailurePolicyActionFailJob, batchv1.PodFailurePolicyActionFailIndex,
	}
	most := 2
	if spec.BackoffLimitPerIndex != nil {
		most = 3
	}
	var rules []batchv1.PodFailurePolicyRule
	for range draw("failure rules", 1, 3) {
		action := actions[draw("action", 0, most)]
		if code := draw("on", 1, 4); code == 4 {
			rules = append(rules, onCondition(action))
		} else {
			rule := onCodes(action, code)
			switch draw("container", 0, 3) {
			case 0:
				rule.OnExitCodes.ContainerName = ptr.To("main")
			case 1:
				rule.OnExitCodes.Operator = batchv1.PodFailurePolicyOnExitCodesOpNotIn
			}
			rules = append(rules, rule)
		}
	}
	policy(rules...)(spec)
}
