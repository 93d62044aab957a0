package expr

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"time"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/rehearse-k8s/rehearse/internal/stage/limit"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// celAdapter gives Go values to CEL: structs by their JSON names, Kubernetes'
// times as timestamps, quantities with arithmetic.
type celAdapter struct{}

// NativeToValue implements types.Adapter.
func (a celAdapter) NativeToValue(value any) ref.Val {
	switch v := value.(type) {
	case ref.Val:
		return v
	case nil:
		return types.NullValue
	case metav1.Time:
		return celMoment(v.Time)
	case metav1.MicroTime:
		return celMoment(v.Time)
	case metav1.Duration:
		return types.Duration{Duration: v.Duration}
	case resource.Quantity:
		return quantityValue{v}
	case corev1.ResourceList:
		return newResourceList(v)
	case intstr.IntOrString:
		if v.Type == intstr.String {
			return types.String(v.StrVal)
		}
		return types.Int(v.IntVal)
	case map[string]string:
		return types.NewStringStringMap(a, v)
	case map[string]any:
		return types.NewStringInterfaceMap(a, v)
	case []any:
		return types.NewDynamicList(a, v)
	}
	switch v := reflect.ValueOf(value); v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return types.NullValue
		}
		return a.NativeToValue(v.Elem().Interface())
	case reflect.String:
		return types.String(v.String())
	case reflect.Bool:
		return types.Bool(v.Bool())
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return types.Int(v.Int())
	case reflect.Struct:
		return structValue{v}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return types.Bytes(v.Bytes())
		}
		return types.NewDynamicList(a, value)
	case reflect.Map:
		out := make(map[string]any, v.Len())
		for _, k := range v.MapKeys() {
			out[k.String()] = v.MapIndex(k).Interface()
		}
		return types.NewStringInterfaceMap(a, out)
	}
	return types.DefaultTypeAdapter.NativeToValue(value)
}

func celMoment(t time.Time) ref.Val {
	if t.IsZero() {
		return types.NullValue
	}
	return types.Timestamp{Time: t}
}

var structType = types.NewOpaqueType("struct")

// structValue is a Go struct: a field that is not set has its zero value, and
// has() says that it is not there.
type structValue struct{ v reflect.Value }

// Get implements traits.Indexer.
func (s structValue) Get(index ref.Val) ref.Val {
	f, ok := s.field(index)
	if !ok {
		return types.NewErr("no such field: %v", index.Value())
	}
	return celAdapter{}.NativeToValue(f.Interface())
}

// IsSet implements traits.FieldTester.
func (s structValue) IsSet(index ref.Val) ref.Val {
	f, ok := s.field(index)
	if !ok {
		return types.NewErr("no such field: %v", index.Value())
	}
	return types.Bool(!f.IsZero())
}

func (s structValue) field(index ref.Val) (reflect.Value, bool) {
	name, ok := index.(types.String)
	if !ok {
		return reflect.Value{}, false
	}
	return jsonField(s.v, string(name))
}

func jsonField(v reflect.Value, name string) (reflect.Value, bool) {
	t := v.Type()
	for i := range t.NumField() {
		f := t.Field(i)
		tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && tag == "" && f.Type.Kind() == reflect.Struct:
			if inner, ok := jsonField(v.Field(i), name); ok {
				return inner, true
			}
		case tag == name && f.IsExported():
			return v.Field(i), true
		}
	}
	return reflect.Value{}, false
}

// ConvertToNative implements ref.Val.
func (s structValue) ConvertToNative(t reflect.Type) (any, error) {
	if s.v.Type().AssignableTo(t) {
		return s.v.Interface(), nil
	}
	return nil, fmt.Errorf("a struct is not a %s", t)
}

// ConvertToType implements ref.Val.
func (s structValue) ConvertToType(t ref.Type) ref.Val {
	return types.NewErr("a struct is not a %s", t.TypeName())
}

// Equal implements ref.Val.
func (s structValue) Equal(other ref.Val) ref.Val {
	o, ok := other.(structValue)
	return types.Bool(ok && reflect.DeepEqual(s.v.Interface(), o.v.Interface()))
}

// Type implements ref.Val.
func (s structValue) Type() ref.Type { return structType }

// Value implements ref.Val.
func (s structValue) Value() any { return s.v.Interface() }

// celTime reads a timestamp, or a text that is one.
func celTime(v ref.Val) (time.Time, error) {
	switch v := v.(type) {
	case types.Timestamp:
		return v.Time, nil
	case types.String:
		return time.Parse(time.RFC3339, string(v))
	}
	return time.Time{}, fmt.Errorf("a %s is not a time", v.Type().TypeName())
}

// createdAt reads when an object was created.
func createdAt(v ref.Val) (time.Time, error) {
	for _, name := range []types.String{"metadata", "creationTimestamp"} {
		object, ok := v.(traits.Indexer)
		if !ok {
			return time.Time{}, errors.New("SinceSecond needs an object with a creationTimestamp, or a time")
		}
		v = object.Get(name)
	}
	return celTime(v)
}

var quantityType = types.NewOpaqueType("Quantity", types.NewTypeParamType("T")).WithTraits(
	traits.AdderType | traits.SubtractorType | traits.ComparerType | traits.MultiplierType | traits.DividerType | traits.NegatorType)

// quantityValue is a Kubernetes quantity.
type quantityValue struct{ resource.Quantity }

func parseQuantity(v ref.Val) ref.Val {
	switch v := v.(type) {
	case quantityValue:
		return v
	case types.String:
		q, err := resource.ParseQuantity(string(v))
		if err != nil {
			return types.NewErr("%s is not a quantity", limit.Quote(string(v)))
		}
		return quantityValue{q}
	}
	if n, ok := asFloat(v); ok {
		return quantityOf(n)
	}
	return types.NewErr("a %s is not a quantity", v.Type().TypeName())
}

// quantityOf returns the quantity of a number, in thousandths where they fit. As in Kubernetes, the largest quantity is
// 2^63-1.
func quantityOf(n float64) ref.Val {
	const most = float64(math.MaxInt64)
	switch {
	case math.IsNaN(n):
		return types.NewErr("NaN is not a quantity")
	case n >= most:
		return quantityValue{*resource.NewQuantity(math.MaxInt64, resource.DecimalSI)}
	case n <= -most:
		return quantityValue{*resource.NewQuantity(-math.MaxInt64, resource.DecimalSI)}
	case math.Abs(n) >= most/1000:
		return quantityValue{*resource.NewQuantity(int64(n), resource.DecimalSI)}
	}
	return quantityValue{*resource.NewMilliQuantity(int64(n*1000), resource.DecimalSI)}
}

// asFloat reads numbers and quantities.
func asFloat(v ref.Val) (float64, bool) {
	switch v := v.(type) {
	case quantityValue:
		return v.AsApproximateFloat64(), true
	case types.Int:
		return float64(v), true
	case types.Uint:
		return float64(v), true
	case types.Double:
		return float64(v), true
	}
	return 0, false
}

func (q quantityValue) with(other ref.Val, f func(a, b float64) float64) ref.Val {
	n, ok := asFloat(other)
	if !ok {
		return types.MaybeNoSuchOverloadErr(other)
	}
	return quantityOf(f(q.AsApproximateFloat64(), n))
}

// Add implements traits.Adder; quantities stay exact.
func (q quantityValue) Add(other ref.Val) ref.Val {
	if o, ok := other.(quantityValue); ok {
		sum := q.DeepCopy()
		sum.Add(o.Quantity)
		return quantityValue{sum}
	}
	return q.with(other, func(a, b float64) float64 { return a + b })
}

// Subtract implements traits.Subtractor.
func (q quantityValue) Subtract(other ref.Val) ref.Val {
	if o, ok := other.(quantityValue); ok {
		rest := q.DeepCopy()
		rest.Sub(o.Quantity)
		return quantityValue{rest}
	}
	return q.with(other, func(a, b float64) float64 { return a - b })
}

// Multiply implements traits.Multiplier.
func (q quantityValue) Multiply(other ref.Val) ref.Val {
	return q.with(other, func(a, b float64) float64 { return a * b })
}

// Divide implements traits.Divider.
func (q quantityValue) Divide(other ref.Val) ref.Val {
	if n, ok := asFloat(other); ok && n == 0 {
		return types.NewErr("divide by zero")
	}
	return q.with(other, func(a, b float64) float64 { return a / b })
}

// Negate implements traits.Negater.
func (q quantityValue) Negate() ref.Val {
	negative := q.DeepCopy()
	negative.Neg()
	return quantityValue{negative}
}

// Compare implements traits.Comparer.
func (q quantityValue) Compare(other ref.Val) ref.Val {
	if o, ok := other.(quantityValue); ok {
		return types.Int(q.Cmp(o.Quantity))
	}
	n, ok := asFloat(other)
	if !ok {
		return types.MaybeNoSuchOverloadErr(other)
	}
	return types.Double(q.AsApproximateFloat64()).Compare(types.Double(n))
}

// Equal implements ref.Val.
func (q quantityValue) Equal(other ref.Val) ref.Val {
	if o, ok := other.(quantityValue); ok {
		return types.Bool(q.Cmp(o.Quantity) == 0)
	}
	n, ok := asFloat(other)
	return types.Bool(ok && q.AsApproximateFloat64() == n)
}

// ConvertToNative implements ref.Val.
func (q quantityValue) ConvertToNative(t reflect.Type) (any, error) {
	if t == reflect.TypeFor[resource.Quantity]() {
		return q.Quantity, nil
	}
	return nil, fmt.Errorf("a quantity is not a %s", t)
}

// ConvertToType implements ref.Val.
func (q quantityValue) ConvertToType(t ref.Type) ref.Val {
	switch t {
	case types.StringType:
		return types.String(q.String())
	case types.DoubleType:
		return types.Double(q.AsApproximateFloat64())
	case types.IntType:
		return types.Int(q.Quantity.Value())
	}
	return types.NewErr("a quantity is not a %s", t.TypeName())
}

// Type implements ref.Val.
func (q quantityValue) Type() ref.Type { return quantityType }

// Value implements ref.Val.
func (q quantityValue) Value() any { return q.Quantity }
