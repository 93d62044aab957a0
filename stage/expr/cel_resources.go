package expr

import (
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// resourceList is a list of resources, as in node.status.allocatable: a resource that it does not contain has the quantity 0, and `in`
// reports whether the list contains it.
type resourceList struct {
	traits.Mapper
	quantities corev1.ResourceList
}

func newResourceList(quantities corev1.ResourceList) ref.Val {
	values := make(map[string]any, len(quantities))
	for name, q := range quantities {
		values[string(name)] = q
	}
	return resourceList{types.NewStringInterfaceMap(celAdapter{}, values), quantities}
}

// Get implements traits.Indexer.
func (l resourceList) Get(index ref.Val) ref.Val {
	name, ok := index.(types.String)
	if !ok {
		return l.Mapper.Get(index)
	}
	return quantityValue{l.quantities[corev1.ResourceName(name)]}
}

// Find implements traits.Mapper.
func (l resourceList) Find(index ref.Val) (ref.Val, bool) {
	if _, ok := index.(types.String); !ok {
		return l.Mapper.Find(index)
	}
	return l.Get(index), true
}

// CELValue returns a Go value as expressions read it: structs by their JSON names, where a field that is not set has its zero value.
func CELValue(value any) ref.Val { return celAdapter{}.NativeToValue(value) }

// CELQuantity returns the number that an expression returned: a quantity, or a number, 1 or 0 for a bool, and the nanoseconds of a
// duration. One of the results is set.
func CELQuantity(v ref.Val) (quantity *resource.Quantity, number float64, ok bool) {
	switch v := v.(type) {
	case quantityValue:
		return &v.Quantity, 0, true
	case types.Bool:
		return nil, truth(bool(v)), true
	case types.Duration:
		return nil, float64(v.Nanoseconds()), true
	}
	number, ok = asFloat(v)
	return nil, number, ok
}
