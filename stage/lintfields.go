package stage

import (
	"fmt"
	"github.com/rehearse-k8s/rehearse/stage/expr"
	"github.com/rehearse-k8s/rehearse/stage/internal/limit"
	"reflect"
	"slices"
	"strings"
	"time"
)

// reflectType is the Go type of a kind; nil where it is not one of Kubernetes'.
func reflectType(k Kind) reflect.Type {
	if o := strategicSchema(k); o != nil {
		return reflect.TypeOf(o).Elem()
	}
	return nil
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
				return nil, fmt.Sprintf("%s is no list", name)
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
	all := []*expression{s.compiled.weightFrom}
	if d := s.compiled.delay; d != nil {
		all = append(all, d.baseFrom, d.jitterFrom)
	}
	on := &expr.View{Object: samples(s.compiled.kind)[0], Now: lintStart}
	for _, x := range all {
		if x == nil {
			continue
		}
		if wrong := endless(x.jq, on); wrong != "" {
			l.say(s, SeverityError, x.field, "%s", wrong)
			s.bad = append(s.bad, x.field) // and it is not played
		}
	}
}

// kindName looks for one of Kubernetes' own kinds that is misspelt.
func (l *linter) kindName(s *linted) {
	k := s.compiled.kind
	known := map[string]bool{}
	for _, example := range builtinKinds[k.APIVersion] {
		known[reflect.TypeOf(example).Elem().Name()] = true
	}
	// Kinds that are not in the list may be right; those that are nearly one of it are not.
	if near := meant(k.Kind, known); len(s.bad) == 0 && !known[k.Kind] && near != "" {
		l.say(s, SeverityWarning, "spec.resourceRef.kind", "Kubernetes has no kind %s in %s%s", k.Kind, k.APIVersion, near)
	}
}

// longDelay is where milliseconds were likely taken for something else.
const longDelay = 7 * 24 * time.Hour

func (l *linter) delays(s *linted) {
	d := s.stage.Spec.Delay
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
			l.say(s, SeverityError, f.field, "must not be negative: that is no delay at all")
		case milliseconds(*f.value) > longDelay:
			l.say(s, SeverityWarning, f.field, "is %s: these are milliseconds", milliseconds(*f.value).Round(time.Second))
		}
	}
	if d.DurationMilliseconds == nil && d.DurationFrom == nil && d.JitterDurationMilliseconds == nil && d.JitterDurationFrom == nil {
		l.say(s, SeverityWarning, "spec.delay", "is empty: there is no delay")
	}
	if d.DurationMilliseconds != nil && d.JitterDurationMilliseconds != nil && *d.DurationMilliseconds == *d.JitterDurationMilliseconds &&
		d.DurationFrom == nil && d.JitterDurationFrom == nil {
		l.say(s, SeverityWarning, "spec.delay.jitterDurationMilliseconds", "changes nothing: it is the upper bound of the whole delay, and equal to durationMilliseconds")
	}
}

// useless looks for fields that have no effect.
func (l *linter) useless(s *linted) {
	spec := &s.stage.Spec
	warn := func(field, format string, args ...any) { l.say(s, SeverityWarning, field, format, args...) }
	if n := spec.Next; n != nil && len(spec.Steps) == 0 {
		if n.StatusTemplate == "" || len(n.Patches) > 0 {
			if n.StatusSubresource != nil {
				warn("spec.next.statusSubresource", "is not used: there is no statusTemplate to send there")
			}
			if n.StatusPatchAs != nil {
				warn("spec.next.statusPatchAs", "is not used: there is no statusTemplate to send as somebody")
			}
		}
	}
	deleted := ""
	for i := range s.compiled.operations {
		op := &s.compiled.operations[i]
		switch {
		case op.event != nil:
			if op.event.Reason == "" {
				warn(op.field, "has no reason: that is how events are found")
			}
			continue
		case deleted != "":
			warn(op.field, "is not played: the object is deleted by %s before", deleted)
		case op.delete:
			deleted = op.field
		case op.finalizers != nil:
			if op.finalizers.Empty && len(op.finalizers.Remove) > 0 {
				warn(op.field+".remove", "changes nothing beside empty")
			}
			if !op.finalizers.Empty && len(op.finalizers.Add)+len(op.finalizers.Remove) == 0 {
				warn(op.field, "changes nothing: it needs add, remove or empty")
			}
		}
	}
	if value, ok := s.stage.Annotations[NodeReadyAnnotation]; ok {
		field := "metadata.annotations"
		switch {
		case s.compiled.kind != KindPod:
			warn(field, "%s is for stages of pods only", NodeReadyAnnotation)
		case value != "true":
			warn(field, "%s: %s has no effect, only \"true\" has", NodeReadyAnnotation, limit.Quote(value))
		}
	}
}

// deprecated names the older forms, each once.
func (l *linter) deprecated(s *linted) {
	spec := &s.stage.Spec
	info := func(field, format string, args ...any) { l.say(s, SeverityInfo, field, format, args...) }
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

// weights looks for weights that nobody ever compares.
func (l *linter) weights(stages []*linted) {
	for _, s := range stages {
		weighed := s.stage.Spec.Weight > 0 || s.stage.Spec.WeightFrom != nil
		field, severity := "spec.weight", SeverityWarning
		if s.stage.Spec.WeightFrom != nil {
			// It is there for users, who may have other stages beside.
			field, severity = "spec.weightFrom", SeverityInfo
		}
		var rivals []*linted
		for _, other := range stages {
			if other != s && !neverTogether(s, other) {
				rivals = append(rivals, other)
			}
		}
		switch {
		case weighed && len(stages) == 1:
			l.say(s, SeverityInfo, field, "is not used: there is no other stage for %s in this set", s.compiled.kind)
		case weighed && len(rivals) == 0:
			l.say(s, severity, field, "is not used: no other stage matches an object that this one matches")
		case !weighed:
			for _, other := range rivals {
				if other.stage.Spec.Weight > 0 && sameSelector(s, other) {
					l.say(s, SeverityWarning, "spec.weight", "the stage is never drawn: its weight is 0, and %s, which matches the same objects, has %d", other.stage.Name, other.stage.Spec.Weight)
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
