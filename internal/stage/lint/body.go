package lint

import (
	"reflect"
	"slices"
	"strings"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rehearse-k8s/rehearse/internal/stage/fieldpath"
	"github.com/rehearse-k8s/rehearse/stage"
	"github.com/rehearse-k8s/rehearse/stage/expr"
	"go.yaml.in/yaml/v3"
)

// shapes holds what a stage writes against the API's types, where these are
// known. It reports whether anything did not fit.
func (l *linter) shapes(s *linted, requests []stage.Request) bool {
	misfit := false
	for i := range requests {
		r := &requests[i]
		op := &s.compiled.Operations[r.Step]
		field := op.TemplateField()
		if field == "" {
			continue // finalizers
		}
		if t := writtenType(r); t != nil {
			misfit = l.body(s, field, r, t) || misfit
		}
	}
	return misfit
}

// writtenType is the type that a request's body has to fit; nil where unknown.
func writtenType(r *stage.Request) reflect.Type {
	switch r.Subresource {
	case "", "status":
		return reflectType(r.Kind)
	case "scale":
		return reflect.TypeFor[autoscalingv1.Scale]()
	}
	return nil
}

func (l *linter) body(s *linted, field string, r *stage.Request, t reflect.Type) (misfit bool) {
	n := &yaml.Node{}
	if r.Type == types.JSONPatchType {
		return l.jsonPatch(s, field, r, t)
	}
	if n.Encode(r.Body) != nil {
		return false
	}
	check := shapeCheck{directives: r.Type == types.StrategicMergePatchType, left: mostShapes}
	check.report = func(path string, _ *yaml.Node, text string) {
		misfit = true
		l.say(s, Error, field, "writes %s, which %s", path, does(text))
	}
	check.check("", n, t)
	values, _ := r.Body.(map[string]any)
	l.unwritten(s, field, r, t, values)
	l.odd(s, field, r.Kind, values)
	return misfit
}

// does makes the end of a sentence of what a shape check says.
func does(text string) string {
	switch {
	case strings.HasPrefix(text, "unknown field"):
		return "the API does not know" + strings.TrimPrefix(text, "unknown field")
	}
	return text
}

// unwritten looks for fields that the API leaves as they are: a subresource takes
// only its own part.
func (l *linter) unwritten(s *linted, field string, r *stage.Request, t reflect.Type, values map[string]any) {
	fields := jsonFields(t)
	if _, ok := fields["status"]; !ok || fields["spec"] == nil {
		return
	}
	for key := range values {
		switch {
		case key == "status" && r.Subresource == "":
			l.say(s, Warning, field, "writes status, which the API ignores without subresource: status")
		case key == "spec" && r.Subresource == "status":
			l.say(s, Warning, field, "writes spec, which the API ignores in the subresource status")
		}
	}
}

// odd looks for values that the API or its clients do not know.
func (l *linter) odd(s *linted, field string, kind stage.Kind, values map[string]any) {
	status, _ := values["status"].(map[string]any)
	if known := enumerated[kind][`."status"."phase"`]; known != nil {
		if phase, ok := status["phase"].(string); ok && !slices.Contains(known, phase) {
			l.say(s, Warning, field, "writes status.phase %q, which is not one of %s", phase, strings.Join(known, ", "))
		}
	}
	if reflectType(kind) == nil {
		return
	}
	conditions, _ := status["conditions"].([]any)
	for i, item := range conditions {
		c, _ := item.(map[string]any)
		if text, ok := c["status"].(string); ok && !slices.Contains(conditionStatus, text) {
			l.say(s, Warning, field, "writes status.conditions[%s].status %q, which is not one of %s", fieldpath.Item(item, i), text, strings.Join(conditionStatus, ", "))
		}
	}
}

// jsonPatch checks the paths of operations and the values they set.
func (l *linter) jsonPatch(s *linted, field string, r *stage.Request, t reflect.Type) (misfit bool) {
	ops, _ := r.Body.([]any)
	for _, raw := range ops {
		op, _ := raw.(map[string]any)
		pointer, _ := op["path"].(string)
		var steps []expr.Step
		at := t
		wrong := ""
		for _, part := range strings.Split(strings.TrimPrefix(pointer, "/"), "/") {
			part = strings.NewReplacer("~1", "/", "~0", "~").Replace(part)
			next := expr.Step{Name: part}
			if expr.Deref(at).Kind() == reflect.Slice {
				next = expr.Step{Op: expr.Iterate}
			}
			if at, wrong = typeAt(at, []expr.Step{next}); wrong != "" {
				misfit = true
				l.say(s, Error, field, "writes %s: %s", pointer, wrong)
				break
			}
			steps = append(steps, next)
		}
		value, has := op["value"]
		if wrong != "" || !has || len(steps) == 0 {
			continue
		}
		n := &yaml.Node{}
		if n.Encode(value) != nil {
			continue
		}
		check := shapeCheck{left: mostShapes, report: func(path string, _ *yaml.Node, text string) {
			misfit = true
			l.say(s, Error, field, "writes %s, which %s", strings.TrimSuffix(pointer+"."+path, "."), does(text))
		}}
		check.check("", n, at)
	}
	return misfit
}
