package invariant

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/rehearse-k8s/rehearse/invariant/internal/inspect"
)

// Exists returns an invariant that holds while an object exists.
func Exists(resource, namespace, name string) Invariant {
	return Invariant{Name: fmt.Sprintf("%s %s exists", resource, inspect.Key(namespace, name)), Check: func(v View) error {
		if v.Get(resource, namespace, name) == nil {
			return errMissing
		}
		return nil
	}}
}

// Gone returns an invariant that holds while an object does not exist.
func Gone(resource, namespace, name string) Invariant {
	return Invariant{Name: fmt.Sprintf("%s %s is gone", resource, inspect.Key(namespace, name)), Check: func(v View) error {
		o := v.Get(resource, namespace, name)
		switch {
		case o == nil:
			return nil
		case o.GetDeletionTimestamp() == nil:
			return errors.New("it exists, and its deletion was not requested")
		case len(o.GetFinalizers()) > 0:
			return fmt.Errorf("it is being deleted and waits for %v", o.GetFinalizers())
		}
		return errors.New("it is being deleted")
	}}
}

// Condition returns an invariant that holds while an object has a condition of this type with this
// status ("True", "False" or "Unknown").
func Condition(resource, namespace, name, typ, status string) Invariant {
	return Invariant{
		Name: fmt.Sprintf("%s %s has condition %s=%s", resource, inspect.Key(namespace, name), typ, status),
		Check: func(v View) error {
			o := v.Get(resource, namespace, name)
			if o == nil {
				return errMissing
			}
			switch got := conditionStatus(o, typ); got {
			case status:
				return nil
			case "":
				return fmt.Errorf("it has no condition %s", typ)
			default:
				return fmt.Errorf("%s is %s", typ, got)
			}
		},
	}
}

var errMissing = errors.New("it does not exist")

// conditionStatus returns the status of a condition, "" if the object has none of that type.
func conditionStatus(o *unstructured.Unstructured, typ string) string {
	conditions, _, _ := unstructured.NestedFieldNoCopy(o.Object, "status", "conditions")
	list, _ := conditions.([]any)
	for _, c := range list {
		if c, ok := c.(map[string]any); ok && c["type"] == typ {
			status, _ := c["status"].(string)
			return status
		}
	}
	return ""
}
