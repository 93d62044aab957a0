package expr

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"time"

	"github.com/itchyny/gojq"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// native answers a usual jq program without JSON and without garbage, by one of
// two ways: at, written by hand for the programs that come most often, or a
// path. A differential test holds both to what jq says.
type native struct {
	// at is the i-th result, until it says end.
	at func(o metav1.Object, i int) (string, result)
	// when is set if the only result is a time; its text is then not needed.
	when func(o metav1.Object) (time.Time, bool)

	steps []Step      // of a path on unstructured objects
	typed []typedStep // of a path on Go structs
}

// result says what the i-th result is.
type result uint8

const (
	end       result = iota // there are no more
	resultNil               // null: counts for nothing
	resultText
	resultOther // neither null nor a scalar
)

// nativeFor returns the fast form of a program, or nil.
func nativeFor(parsed *gojq.Query, of Form) *native {
	steps, isPath := ParsePath(parsed)
	if of == Unstructured {
		if !isPath {
			return nil
		}
		return &native{steps: steps}
	}
	canonical := parsed.String()
	if n, ok := metaNatives[canonical]; ok {
		return n
	}
	if isPath && len(steps) == 3 && steps[0].Name == "metadata" && steps[2].Op == Field {
		switch steps[1].Name {
		case "labels":
			return mapKey(labelsOf, steps[2].Name)
		case "annotations":
			return mapKey(annotationsOf, steps[2].Name)
		}
	}
	if parsed.Op == gojq.OpAlt {
		return eitherKey(parsed)
	}
	natives, example := podNatives, reflect.TypeFor[corev1.Pod]()
	if of == Node {
		natives, example = nodeNatives, reflect.TypeFor[corev1.Node]()
	}
	if n, ok := natives[canonical]; ok {
		return n
	}
	if m := conditionShape.FindStringSubmatch(canonical); m != nil {
		if of == Pod {
			return podCondition(corev1.PodConditionType(m[1]), m[2])
		}
		return nodeCondition(corev1.NodeConditionType(m[1]), m[2])
	}
	if !isPath {
		return nil
	}
	if typed, ok := planTyped(example, steps); ok {
		return &native{typed: typed}
	}
	return nil
}

// walk runs a native that is a path.
func (n *native) walk(o metav1.Object, t *tally) {
	switch o := o.(type) {
	case *unstructured.Unstructured:
		walk(o.Object, n.steps, t)
	case *corev1.Pod:
		walkTyped(reflect.ValueOf(o), n.typed, t)
	case *corev1.Node:
		walkTyped(reflect.ValueOf(o), n.typed, t)
	}
	if t.failed {
		*t = tally{want: t.want, failed: true}
	}
}

func (n *native) exists(o metav1.Object) bool {
	if n.when != nil {
		_, ok := n.when(o)
		return ok
	}
	if n.at == nil {
		var t tally
		n.walk(o, &t)
		return t.exists
	}
	for i := 0; ; i++ {
		switch _, r := n.at(o, i); r {
		case end:
			return false
		case resultText, resultOther:
			return true
		}
	}
}

// in reports whether any result is one of values.
func (n *native) in(o metav1.Object, values []string) bool {
	if n.when != nil {
		at, ok := n.when(o)
		return ok && slices.Contains(values, at.UTC().Format(time.RFC3339))
	}
	if n.at == nil {
		t := tally{want: values}
		n.walk(o, &t)
		return t.found
	}
	for i := 0; ; i++ {
		switch text, r := n.at(o, i); r {
		case end:
			return false
		case resultText:
			if slices.Contains(values, text) {
				return true
			}
		}
	}
}

// first is the first result but null.
func (n *native) first(o metav1.Object) Value {
	if n.when != nil {
		if at, ok := n.when(o); ok {
			return Value{Kind: Time, Time: at}
		}
		return Value{}
	}
	if n.at == nil {
		var t tally
		n.walk(o, &t)
		return t.first
	}
	for i := 0; ; i++ {
		switch text, r := n.at(o, i); r {
		case end:
			return Value{}
		case resultText:
			return Value{Kind: Text, Text: text}
		case resultOther:
			return Value{Kind: Other}
		}
	}
}

// RegisterTime has when answer exactly this program, whose only result is a time, in place of jq.
func RegisterTime(of Form, program string, when func(o metav1.Object) (time.Time, bool)) {
	register(of, program, &native{when: when})
}

// RegisterTexts has get answer exactly this program, whose results are texts, in place of jq. get returns the
// i-th result, "" for null, and false after the last one.
func RegisterTexts(of Form, program string, get func(o metav1.Object, i int) (string, bool)) {
	register(of, program, &native{at: func(o metav1.Object, i int) (string, result) {
		s, ok := get(o, i)
		switch {
		case !ok:
			return "", end
		case of == Pod:
			return text(s)
		}
		return s, resultText // a label may be empty
	}})
}

func register(of Form, program string, n *native) {
	parsed, err := gojq.Parse(program)
	if err != nil {
		panic(fmt.Sprintf("register jq program %q: %v", program, err)) // a mistake in a constant
	}
	to := podNatives
	if of == Node {
		to = nodeNatives
	}
	to[parsed.String()] = n
}

// MetadataKey returns the query for one label or annotation; which is "labels" or "annotations".
func MetadataKey(of Form, which, key string) *Query {
	n := &native{steps: []Step{{Name: "metadata"}, {Name: which}, {Name: key}}}
	if of != Unstructured {
		n = mapKey(labelsOf, key)
		if which == "annotations" {
			n = mapKey(annotationsOf, key)
		}
	}
	return &Query{Native: n}
}

// conditionShape is ".status.conditions[] | select(.type == "X") | .status".
var conditionShape = regexp.MustCompile(`^\.status\.conditions\[\] \| select\(\.type == "([A-Za-z0-9./_-]+)"\) \| \.(status|reason|message)$`)

// text is a result that JSON leaves out when it is empty.
func text(s string) (string, result) {
	if s == "" {
		return "", resultNil
	}
	return s, resultText
}

// optional is a field that JSON leaves out when it is empty.
func optional(get func(o metav1.Object) string) *native {
	return &native{at: func(o metav1.Object, i int) (string, result) {
		if i > 0 {
			return "", end
		}
		return text(get(o))
	}}
}

var metaNatives = map[string]*native{
	".metadata.name":      optional(func(o metav1.Object) string { return o.GetName() }),
	".metadata.namespace": optional(func(o metav1.Object) string { return o.GetNamespace() }),
	".metadata.uid":       optional(func(o metav1.Object) string { return string(o.GetUID()) }),
	".metadata.deletionTimestamp": {when: func(o metav1.Object) (time.Time, bool) {
		at := o.GetDeletionTimestamp()
		if at == nil || at.IsZero() {
			return time.Time{}, false
		}
		return at.Time, true
	}},
	".metadata.finalizers": {at: func(o metav1.Object, i int) (string, result) {
		if i > 0 || len(o.GetFinalizers()) == 0 {
			return "", end
		}
		return "", resultOther
	}},
	".metadata.finalizers[]": {at: func(o metav1.Object, i int) (string, result) {
		if f := o.GetFinalizers(); i < len(f) {
			return f[i], resultText
		}
		return "", end
	}},
	".metadata.ownerReferences[].kind": {at: func(o metav1.Object, i int) (string, result) {
		if all := owners(o); i < len(all) {
			return all[i].Kind, resultText
		}
		return "", end
	}},
}

// owners reads the references in place; GetOwnerReferences copies them.
func owners(o metav1.Object) []metav1.OwnerReference {
	switch o := o.(type) {
	case *corev1.Pod:
		return o.OwnerReferences
	case *corev1.Node:
		return o.OwnerReferences
	}
	return o.GetOwnerReferences()
}

func pod(get func(p *corev1.Pod) string) *native {
	return optional(func(o metav1.Object) string { return get(o.(*corev1.Pod)) })
}

func node(get func(n *corev1.Node) string) *native {
	return optional(func(o metav1.Object) string { return get(o.(*corev1.Node)) })
}

var podNatives = map[string]*native{
	".spec.nodeName":  pod(func(p *corev1.Pod) string { return p.Spec.NodeName }),
	".status.phase":   pod(func(p *corev1.Pod) string { return string(p.Status.Phase) }),
	".status.podIP":   pod(func(p *corev1.Pod) string { return p.Status.PodIP }),
	".status.hostIP":  pod(func(p *corev1.Pod) string { return p.Status.HostIP }),
	".status.reason":  pod(func(p *corev1.Pod) string { return p.Status.Reason }),
	".status.message": pod(func(p *corev1.Pod) string { return p.Status.Message }),
}

var nodeNatives = map[string]*native{
	".status.phase":    node(func(n *corev1.Node) string { return string(n.Status.Phase) }),
	".spec.podCIDR":    node(func(n *corev1.Node) string { return n.Spec.PodCIDR }),
	".spec.providerID": node(func(n *corev1.Node) string { return n.Spec.ProviderID }),
}

// podCondition reads one field of the conditions of a type. status is always in
// the JSON, reason and message only when they are not empty.
func podCondition(t corev1.PodConditionType, field string) *native {
	return &native{at: func(o metav1.Object, i int) (string, result) {
		conditions := o.(*corev1.Pod).Status.Conditions
		if i >= len(conditions) {
			return "", end
		}
		c := &conditions[i]
		if c.Type != t {
			return "", resultNil
		}
		return conditionField(field, string(c.Status), c.Reason, c.Message)
	}}
}

// nodeCondition is podCondition for nodes.
func nodeCondition(t corev1.NodeConditionType, field string) *native {
	return &native{at: func(o metav1.Object, i int) (string, result) {
		conditions := o.(*corev1.Node).Status.Conditions
		if i >= len(conditions) {
			return "", end
		}
		c := &conditions[i]
		if c.Type != t {
			return "", resultNil
		}
		return conditionField(field, string(c.Status), c.Reason, c.Message)
	}}
}

func conditionField(field, status, reason, message string) (string, result) {
	switch field {
	case "reason":
		return text(reason)
	case "message":
		return text(message)
	}
	return status, resultText
}

// mapKey is a label or an annotation.
func mapKey(get func(o metav1.Object) map[string]string, key string) *native {
	return &native{at: func(o metav1.Object, i int) (string, result) {
		value, ok := get(o)[key]
		if i > 0 || !ok {
			return "", end
		}
		return value, resultText
	}}
}

// eitherKey is A // B of two labels or annotations: B where there is no A.
func eitherKey(parsed *gojq.Query) *native {
	if len(parsed.FuncDefs) > 0 {
		return nil
	}
	var sides [2]struct {
		get func(o metav1.Object) map[string]string
		key string
	}
	for i, q := range []*gojq.Query{parsed.Left, parsed.Right} {
		steps, ok := ParsePath(q)
		if !ok || len(steps) != 3 || steps[0].Name != "metadata" || steps[1].Op != Field || steps[2].Op != Field {
			return nil
		}
		switch steps[1].Name {
		case "labels":
			sides[i].get = labelsOf
		case "annotations":
			sides[i].get = annotationsOf
		default:
			return nil
		}
		sides[i].key = steps[2].Name
	}
	return &native{at: func(o metav1.Object, i int) (string, result) {
		for _, side := range sides {
			if value, ok := side.get(o)[side.key]; ok && i == 0 {
				return value, resultText
			}
		}
		return "", end
	}}
}

func labelsOf(o metav1.Object) map[string]string      { return o.GetLabels() }
func annotationsOf(o metav1.Object) map[string]string { return o.GetAnnotations() }
