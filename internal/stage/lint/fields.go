package lint

import (
	"fmt"
	"github.com/rehearse-k8s/rehearse/internal/stage/limit"
	"github.com/rehearse-k8s/rehearse/stage"
	"github.com/rehearse-k8s/rehearse/stage/expr"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"
)

// reflectType is the Go type of a kind; nil where it is not one of Kubernetes'.
func reflectType(k stage.Kind) reflect.Type {
	return stage.GoType(k)
}

// typeAt follows a path through a type. wrong says which field is not there.
func typeAt(t reflect.Type, steps []expr.Step) (at reflect.Type, wrong string) {
	name := t.Name()
	for _, s := range steps {
		t = expr.Deref(t)
		switch {
		case t.Kind() == reflect.Interface:
			return t, ""
		case s.Op == expr.Select:
			if _, wrong := typeAt(t, s.Sub); wrong != "" {
				return nil, wrong
			}
			continue
		case s.Op == expr.Iterate:
			if t.Kind() != reflect.Slice && t.Kind() != reflect.Map {
				return nil, fmt.Sprintf("%s is not a list", name)
			}
			t = t.Elem()
			name = expr.Deref(t).Name()
			continue
		case expr.HasOwnJSON(t) || t.Kind() != reflect.Struct && t.Kind() != reflect.Map:
			return nil, fmt.Sprintf("%s has no field %s", name, s.Name)
		case t.Kind() == reflect.Map:
			t = t.Elem()
			name = s.Name
			continue
		}
		known := jsonFields(t)
		next, ok := known[s.Name]
		if !ok {
			return nil, fmt.Sprintf("%s has no field %s%s", t.Name(), s.Name, meant(s.Name, known))
		}
		t, name = next, s.Name
	}
	return t, ""
}

// static looks at what can be seen without playing.
func (l *linter) static(s *linted) {
	if s.compiled == nil {
		return
	}
	l.matching(s)
	l.expressions(s)
	l.kindName(s)
	l.delays(s)
	l.useless(s)
	l.deprecated(s)
}

// expressions looks for programs that read a weight or a delay and do not end.
func (l *linter) expressions(s *linted) {
	on := &expr.View{Object: samples(s.compiled.Kind)[0], Now: lintStart}
	for _, x := range s.compiled.Expressions() {
		if wrong := endless(x.JQ, on); wrong != "" {
			l.say(s, Error, x.Field, "%s", wrong)
			s.bad = append(s.bad, x.Field) // and it is not played
		}
	}
}

// kindName looks for one of Kubernetes' own kinds that is misspelt.
func (l *linter) kindName(s *linted) {
	k := s.compiled.Kind
	known := map[string]bool{}
	for _, name := range stage.KindNames(k.APIVersion) {
		known[name] = true
	}
	// Kinds that are not in the list may be right; those that are nearly one of it are not.
	if near := meant(k.Kind, known); len(s.bad) == 0 && !known[k.Kind] && near != "" {
		l.say(s, Warning, "spec.resourceRef.kind", "Kubernetes has no kind %s in %s%s", k.Kind, k.APIVersion, near)
	}
}

// longDelay is where milliseconds were likely taken for something else.
const longDelay = 7 * 24 * time.Hour

// duration returns milliseconds as a duration, or the longest one.
func duration(milliseconds int64) time.Duration {
	return time.Duration(min(milliseconds, math.MaxInt64/int64(time.Millisecond))) * time.Millisecond
}

func (l *linter) delays(s *linted) {
	d := s.Stage.Spec.Delay
	if d == nil {
		return
	}
	for _, f := range []struct {
		field string
		value *int64
	}{
		{"spec.delay.durationMilliseconds", d.DurationMilliseconds},
		{"spec.delay.jitterDurationMilliseconds", d.JitterDurationMilliseconds},
	} {
		switch {
		case f.value == nil:
		case *f.value < 0:
			l.say(s, Error, f.field, "must not be negative: that is no delay at all")
		case duration(*f.value) > longDelay:
			l.say(s, Warning, f.field, "is %s: these are milliseconds", duration(*f.value).Round(time.Second))
		}
	}
	if d.DurationMilliseconds == nil && d.DurationFrom == nil && d.JitterDurationMilliseconds == nil && d.JitterDurationFrom == nil {
		l.say(s, Warning, "spec.delay", "is empty: there is no delay")
	}
	if d.DurationMilliseconds != nil && d.JitterDurationMilliseconds != nil && *d.DurationMilliseconds == *d.JitterDurationMilliseconds &&
		d.DurationFrom == nil && d.JitterDurationFrom == nil {
		l.say(s, Warning, "spec.delay.jitterDurationMilliseconds", "changes nothing: it is the upper bound of the whole delay, and equal to durationMilliseconds")
	}
}

// useless looks for fields that have no effect.
func (l *linter) useless(s *linted) {
	spec := &s.Stage.Spec
	warn := func(field, format string, args ...any) { l.say(s, Warning, field, format, args...) }
	if n := spec.Next; n != nil && len(spec.Steps) == 0 {
		if n.StatusTemplate == "" || len(n.Patches) > 0 {
			if n.StatusSubresource != nil {
				warn("spec.next.statusSubresource", "is not used: there is no statusTemplate to send there")
			}
			if n.StatusPatchAs != nil {
				warn("spec.next.statusPatchAs", "is not used: there is no statusTemplate to send as another user")
			}
		}
	}
	deleted := ""
	for i := range s.compiled.Operations {
		op := &s.compiled.Operations[i]
		switch {
		case op.Event != nil:
			if op.Event.Reason == "" {
				warn(op.Field, "has no reason: that is how events are found")
			}
			continue
		case deleted != "":
			warn(op.Field, "is not played: the object is deleted by %s before", deleted)
		case op.Delete:
			deleted = op.Field
		case op.Finalizers != nil:
			if op.Finalizers.Empty && len(op.Finalizers.Remove) > 0 {
				warn(op.Field+".remove", "has no effect next to empty")
			}
			if !op.Finalizers.Empty && len(op.Finalizers.Add)+len(op.Finalizers.Remove) == 0 {
				warn(op.Field, "changes nothing: it needs add, remove or empty")
			}
		}
	}
	if value, ok := s.Stage.Annotations[stage.NodeReadyAnnotation]; ok {
		field := "metadata.annotations"
		switch {
		case s.compiled.Kind != stage.KindPod:
			warn(field, "%s is for stages of pods only", stage.NodeReadyAnnotation)
		case value != "true":
			warn(field, "%s: %s has no effect, only \"true\" has", stage.NodeReadyAnnotation, limit.Quote(value))
		}
	}
}

// deprecated names the older forms, each once.
func (l *linter) deprecated(s *linted) {
	spec := &s.Stage.Spec
	info := func(field, format string, args ...any) { l.say(s, Info, field, format, args...) }
	if s.written.Spec.Next != nil && len(spec.Steps) == 0 {
		info("spec.next", "is the older form of steps, deprecated since KWOK 0.8")
	}
	for i, e := range spec.Selector.MatchExpressions {
		if e.JQ == nil && e.Key != "" {
			info(fmt.Sprintf("spec.selector.matchExpressions[%d]", i), "key, operator and values are the older form of jq: {key, operator, values}")
			break
		}
	}
	if w := spec.WeightFrom; w != nil && w.ExpressionFrom != "" {
		info("spec.weightFrom.expressionFrom", "is the older form of jq: {expression}")
	}
	if d := spec.Delay; d != nil {
		if d.DurationFrom != nil && d.DurationFrom.ExpressionFrom != "" {
			info("spec.delay.durationFrom.expressionFrom", "is the older form of jq: {expression}")
		}
		if d.JitterDurationFrom != nil && d.JitterDurationFrom.ExpressionFrom != "" {
			info("spec.delay.jitterDurationFrom.expressionFrom", "is the older form of jq: {expression}")
		}
	}
	if spec.ImmediateNextStage {
		info("spec.immediateNextStage", "has no effect here, where the next stage is always chosen at once; KWOK needs it for that")
	}
}

// weights looks for weights that are never compared.
func (l *linter) weights(stages []*linted) {
	for _, s := range stages {
		weighed := s.Stage.Spec.Weight > 0 || s.Stage.Spec.WeightFrom != nil
		field, severity := "spec.weight", Warning
		if s.Stage.Spec.WeightFrom != nil {
			// Users may have other stages.
			field, severity = "spec.weightFrom", Info
		}
		var rivals []*linted
		for _, other := range stages {
			if other != s && !neverTogether(s, other) {
				rivals = append(rivals, other)
			}
		}
		switch {
		case weighed && len(stages) == 1:
			l.say(s, Info, field, "is not used: there is no other stage for %s in this set", s.compiled.Kind)
		case weighed && len(rivals) == 0:
			l.say(s, severity, field, "is not used: no other stage matches an object that this one matches")
		case !weighed:
			for _, other := range rivals {
				if other.Stage.Spec.Weight > 0 && sameSelector(s, other) {
					l.say(s, Warning, "spec.weight", "the stage is never drawn: its weight is 0, and %s, which matches the same objects, has %d", other.Stage.Name, other.Stage.Spec.Weight)
					break
				}
			}
		}
	}
}

func sameSelector(a, b *linted) bool {
	texts := func(s *linted) []string {
		var out []string
		for i := range s.clauses {
			out = append(out, s.clauses[i].text)
		}
		slices.Sort(out)
		return slices.Compact(out)
	}
	return strings.Join(texts(a), "\n") == strings.Join(texts(b), "\n")
}
