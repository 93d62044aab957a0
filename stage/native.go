package stage

import (
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
	// when is set where the only result is a time, so that nobody needs its text.
	when func(o metav1.Object) (time.Time, bool)

	steps []step      // of a path on unstructured objects
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
func nativeFor(parsed *gojq.Query, kind Kind) *native {
	steps, isPath := parsePath(parsed)
	if !kind.typed() {
		if !isPath {
			return nil
		}
		return &native{steps: steps}
	}
	canonical := parsed.String()
	if n, ok := metaNatives[canonical]; ok {
		return n
	}
	if isPath && len(steps) == 3 && steps[0].name == "metadata" && steps[2].op == stepField {
		switch steps[1].name {
		case "labels":
			return mapKey(labelsOf, steps[2].name)
		case "annotations":
			return mapKey(annotationsOf, steps[2].name)
		}
	}
	if parsed.Op == gojq.OpAlt {
		return eitherKey(parsed)
	}
	natives, example := podNatives, reflect.TypeFor[corev1.Pod]()
	if kind == KindNode {
		natives, example = nodeNatives, reflect.TypeFor[corev1.Node]()
	}
	if n, ok := natives[canonical]; ok {
		return n
	}
	if m := conditionShape.FindStringSubmatch(canonical); m != nil {
		if kind == KindPod {
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
func (n *native) first(o metav1.Object) value {
	if n.when != nil {
		if at, ok := n.when(o); ok {
			return value{kind: valueTime, at: at}
		}
		return value{}
	}
	if n.at == nil {
		var t tally
		n.walk(o, &t)
		return t.first
	}
	for i := 0; ; i++ {
		switch text, r := n.at(o, i); r {
		case end:
			return value{}
		case resultText:
			return value{kind: valueText, text: text}
		case resultOther:
			return value{kind: valueOther}
		}
	}
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

// openGates is the program of the built-in stages that lists the readiness
// gates of a pod that are not True.
const openGates = `(.status.conditions // []) as $c | .spec.readinessGates[] | .conditionType as $t | select(any($c[]; .type == $t and .status == "True") | not) | $t`

var podNatives = map[string]*native{
	".spec.nodeName":  pod(func(p *corev1.Pod) string { return p.Spec.NodeName }),
	".status.phase":   pod(func(p *corev1.Pod) string { return string(p.Status.Phase) }),
	".status.podIP":   pod(func(p *corev1.Pod) string { return p.Status.PodIP }),
	".status.hostIP":  pod(func(p *corev1.Pod) string { return p.Status.HostIP }),
	".status.reason":  pod(func(p *corev1.Pod) string { return p.Status.Reason }),
	".status.message": pod(func(p *corev1.Pod) string { return p.Status.Message }),
	openGates: {at: func(o metav1.Object, i int) (string, result) {
		p := o.(*corev1.Pod)
		if i >= len(p.Spec.ReadinessGates) {
			return "", end
		}
		gate := p.Spec.ReadinessGates[i].ConditionType
		if conditionTrue(p.Status.Conditions, gate) {
			return "", resultNil
		}
		return string(gate), resultText
	}},
}

// keptNotReady is the program of node-initialize that finds the nodes that
// node-chaos keeps NotReady.
const keptNotReady = `select(.status.phase == "Running") | .metadata.labels["node-not-ready.stage.kwok.x-k8s.io"]`

var nodeNatives = map[string]*native{
	keptNotReady: {at: func(o metav1.Object, i int) (string, result) {
		n := o.(*corev1.Node)
		value, labelled := n.Labels["node-not-ready.stage.kwok.x-k8s.io"]
		if i > 0 || !labelled || n.Status.Phase != corev1.NodeRunning {
			return "", end
		}
		return value, resultText
	}},
	".status.phase":    node(func(n *corev1.Node) string { return string(n.Status.Phase) }),
	".spec.podCIDR":    node(func(n *corev1.Node) string { return n.Spec.PodCIDR }),
	".spec.providerID": node(func(n *corev1.Node) string { return n.Spec.ProviderID }),
}

func conditionTrue(conditions []corev1.PodCondition, t corev1.PodConditionType) bool {
	for i := range conditions {
		if conditions[i].Type == t && conditions[i].Status == corev1.ConditionTrue {
			return true
		}
	}
	return false
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
		steps, ok := parsePath(q)
		if !ok || len(steps) != 3 || steps[0].name != "metadata" || steps[1].op != stepField || steps[2].op != stepField {
			return nil
		}
		switch steps[1].name {
		case "labels":
			sides[i].get = labelsOf
		case "annotations":
			sides[i].get = annotationsOf
		default:
			return nil
		}
		sides[i].key = steps[2].name
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
