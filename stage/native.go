package stage

import (
	"regexp"
	"time"

	"github.com/itchyny/gojq"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// native answers one usual jq program on a typed object, without JSON and
// without garbage. A differential test holds it to what jq says.
type native struct {
	exists func(o metav1.Object) bool
	// any is nil where the results are no scalars; then jq answers.
	any func(o metav1.Object, test func(string) bool) bool
}

// nativeFor returns the closure for a program it knows in its canonical form,
// or nil.
func nativeFor(parsed *gojq.Query, kind Kind) *native {
	canonical := parsed.String()
	if n, ok := metaNatives[canonical]; ok {
		return n
	}
	if n := mapNative(parsed); n != nil {
		return n
	}
	switch kind {
	case KindPod:
		if n, ok := podNatives[canonical]; ok {
			return n
		}
		if m := conditionShape.FindStringSubmatch(canonical); m != nil {
			return podCondition(corev1.PodConditionType(m[1]), m[2])
		}
	case KindNode:
		if n, ok := nodeNatives[canonical]; ok {
			return n
		}
		if m := conditionShape.FindStringSubmatch(canonical); m != nil {
			return nodeCondition(corev1.NodeConditionType(m[1]), m[2])
		}
	}
	return nil
}

// conditionShape is ".status.conditions[] | select(.type == "X") | .status".
var conditionShape = regexp.MustCompile(`^\.status\.conditions\[\] \| select\(\.type == "([A-Za-z0-9./_-]+)"\) \| \.(status|reason|message)$`)

// optional is a field that JSON leaves out when it is empty.
func optional(get func(o metav1.Object) string) *native {
	return &native{
		exists: func(o metav1.Object) bool { return get(o) != "" },
		any: func(o metav1.Object, test func(string) bool) bool {
			text := get(o)
			return text != "" && test(text)
		},
	}
}

var metaNatives = map[string]*native{
	".metadata.name":      optional(func(o metav1.Object) string { return o.GetName() }),
	".metadata.namespace": optional(func(o metav1.Object) string { return o.GetNamespace() }),
	".metadata.uid":       optional(func(o metav1.Object) string { return string(o.GetUID()) }),
	".metadata.deletionTimestamp": {
		exists: func(o metav1.Object) bool { at := o.GetDeletionTimestamp(); return at != nil && !at.IsZero() },
		any: func(o metav1.Object, test func(string) bool) bool {
			at := o.GetDeletionTimestamp()
			return at != nil && !at.IsZero() && test(at.UTC().Format(time.RFC3339))
		},
	},
	".metadata.finalizers": {
		exists: func(o metav1.Object) bool { return len(o.GetFinalizers()) > 0 },
	},
	".metadata.finalizers[]": {
		exists: func(o metav1.Object) bool { return len(o.GetFinalizers()) > 0 },
		any: func(o metav1.Object, test func(string) bool) bool {
			for _, f := range o.GetFinalizers() {
				if test(f) {
					return true
				}
			}
			return false
		},
	},
	".metadata.ownerReferences[].kind": {
		exists: func(o metav1.Object) bool { return len(owners(o)) > 0 },
		any: func(o metav1.Object, test func(string) bool) bool {
			for i := range owners(o) {
				if test(owners(o)[i].Kind) {
					return true
				}
			}
			return false
		},
	},
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
	openGates: {
		exists: func(o metav1.Object) bool { return anyOpenGate(o, func(string) bool { return true }) },
		any:    anyOpenGate,
	},
}

var nodeNatives = map[string]*native{
	".status.phase":    node(func(n *corev1.Node) string { return string(n.Status.Phase) }),
	".spec.podCIDR":    node(func(n *corev1.Node) string { return n.Spec.PodCIDR }),
	".spec.providerID": node(func(n *corev1.Node) string { return n.Spec.ProviderID }),
}

func anyOpenGate(o metav1.Object, test func(string) bool) bool {
	p := o.(*corev1.Pod)
	for i := range p.Spec.ReadinessGates {
		gate := p.Spec.ReadinessGates[i].ConditionType
		if !conditionTrue(p.Status.Conditions, gate) && test(string(gate)) {
			return true
		}
	}
	return false
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
	get := func(c *corev1.PodCondition) string { return string(c.Status) }
	switch field {
	case "reason":
		get = func(c *corev1.PodCondition) string { return c.Reason }
	case "message":
		get = func(c *corev1.PodCondition) string { return c.Message }
	}
	any := func(o metav1.Object, test func(string) bool) bool {
		conditions := o.(*corev1.Pod).Status.Conditions
		for i := range conditions {
			if conditions[i].Type != t {
				continue
			}
			if text := get(&conditions[i]); (text != "" || field == "status") && test(text) {
				return true
			}
		}
		return false
	}
	return &native{any: any, exists: func(o metav1.Object) bool { return any(o, always) }}
}

// nodeCondition is podCondition for nodes.
func nodeCondition(t corev1.NodeConditionType, field string) *native {
	get := func(c *corev1.NodeCondition) string { return string(c.Status) }
	switch field {
	case "reason":
		get = func(c *corev1.NodeCondition) string { return c.Reason }
	case "message":
		get = func(c *corev1.NodeCondition) string { return c.Message }
	}
	any := func(o metav1.Object, test func(string) bool) bool {
		conditions := o.(*corev1.Node).Status.Conditions
		for i := range conditions {
			if conditions[i].Type != t {
				continue
			}
			if text := get(&conditions[i]); (text != "" || field == "status") && test(text) {
				return true
			}
		}
		return false
	}
	return &native{any: any, exists: func(o metav1.Object) bool { return any(o, always) }}
}

func always(string) bool { return true }

// mapNative knows ".metadata.labels" and ".metadata.annotations" with a key, in
// all three ways jq writes it: .k, ."k" and ["k"].
func mapNative(parsed *gojq.Query) *native {
	t := parsed.Term
	if t == nil || t.Type != gojq.TermTypeIndex || t.Index.Name != "metadata" || len(t.SuffixList) != 2 ||
		len(parsed.FuncDefs) > 0 || len(parsed.Imports) > 0 {
		return nil
	}
	which, key := t.SuffixList[0], t.SuffixList[1]
	if which.Index == nil || key.Index == nil || which.Optional || key.Optional || key.Index.IsSlice {
		return nil
	}
	var name string
	switch index := key.Index; {
	case index.Name != "":
		name = index.Name
	case index.Str != nil && len(index.Str.Queries) == 0:
		name = index.Str.Str
	case index.Start != nil && index.Start.Term != nil && index.Start.Term.Type == gojq.TermTypeString &&
		len(index.Start.Term.SuffixList) == 0 && len(index.Start.Term.Str.Queries) == 0:
		name = index.Start.Term.Str.Str
	default:
		return nil
	}
	switch which.Index.Name {
	case "labels":
		return mapKey(labelsOf, name)
	case "annotations":
		return mapKey(annotationsOf, name)
	}
	return nil
}

func mapKey(get func(o metav1.Object) map[string]string, key string) *native {
	return &native{
		exists: func(o metav1.Object) bool { _, ok := get(o)[key]; return ok },
		any: func(o metav1.Object, test func(string) bool) bool {
			value, ok := get(o)[key]
			return ok && test(value)
		},
	}
}

func labelsOf(o metav1.Object) map[string]string      { return o.GetLabels() }
func annotationsOf(o metav1.Object) map[string]string { return o.GetAnnotations() }
