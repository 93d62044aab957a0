package rules

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/rehearse-k8s/rehearse/api/kwok/v1alpha1"
	"github.com/rehearse-k8s/rehearse/internal/usage"
)

func validateUsage(path *field.Path, e v1alpha1.ResourceUsageContainer) *field.Error {
	if len(e.Usage) == 0 {
		return field.Required(path.Child("usage"), "name a resource")
	}
	for _, name := range slices.Sorted(maps.Keys(e.Usage)) {
		at := path.Child("usage").Key(name)
		if errs := validation.IsQualifiedName(name); len(errs) > 0 {
			return field.Invalid(at, name, errs[0])
		}
		switch v := e.Usage[name]; {
		case v.Value != nil:
			if v.Value.Sign() < 0 {
				return field.Invalid(at.Child("value"), v.Value.String(), "must not be negative")
			}
		case v.Expression == nil || *v.Expression == "":
			return field.Required(at.Child("value"), "set value or expression")
		default:
			if err := usage.CheckExpression(*v.Expression); err != nil {
				return field.Invalid(at.Child("expression"), *v.Expression, err.Error())
			}
		}
	}
	return nil
}
