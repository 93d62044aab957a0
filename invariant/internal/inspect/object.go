package inspect

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Key returns "namespace/name", or the name alone if there is no namespace.
func Key(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return namespace + "/" + name
}

// KeyOf returns the Key of an object.
func KeyOf(o *unstructured.Unstructured) string { return Key(o.GetNamespace(), o.GetName()) }

// Revision returns an object's resourceVersion as a number, 0 if it is not a number.
func Revision(o *unstructured.Unstructured) int64 {
	n, _ := strconv.ParseInt(o.GetResourceVersion(), 10, 64)
	return n
}

// Conditions returns the statuses of an object's conditions by type.
func Conditions(o *unstructured.Unstructured) map[string]string {
	found := map[string]string{}
	conditions, _, _ := unstructured.NestedFieldNoCopy(o.Object, "status", "conditions")
	list, _ := conditions.([]any)
	for _, c := range list {
		if c, ok := c.(map[string]any); ok {
			typ, _ := c["type"].(string)
			found[typ], _ = c["status"].(string)
		}
	}
	return found
}

// ConditionText formats what Conditions returns: "Complete=True SuccessCriteriaMet=True".
func ConditionText(conditions map[string]string) string {
	var texts []string
	for _, typ := range slices.Sorted(maps.Keys(conditions)) {
		texts = append(texts, typ+"="+conditions[typ])
	}
	return strings.Join(texts, " ")
}
