package expr

import (
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/rehearse-k8s/rehearse/internal/stage/stagetest"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"
)

// TestGoValuesInCEL checks the CEL value of each Go type that the API's structs have.
func TestGoValuesInCEL(t *testing.T) {
	type text string
	type numbers []int32
	for name, c := range map[string]struct {
		value any
		want  ref.Val
	}{
		"nil":                    {nil, types.NullValue},
		"nil pointer":            {(*int32)(nil), types.NullValue},
		"pointer":                {ptr.To[int32](7), types.Int(7)},
		"pointer to a pointer":   {ptr.To(ptr.To("a")), types.String("a")},
		"a CEL value":            {types.Int(3), types.Int(3)},
		"named string":           {text("a"), types.String("a")},
		"phase":                  {corev1.PodRunning, types.String("Running")},
		"bool":                   {true, types.True},
		"int8":                   {int8(-3), types.Int(-3)},
		"int64":                  {int64(math.MaxInt64), types.Int(math.MaxInt64)},
		"float":                  {2.5, types.Double(2.5)},
		"bytes":                  {[]byte("ab"), types.Bytes("ab")},
		"time":                   {metav1.NewTime(stagetest.Start), types.Timestamp{Time: stagetest.Start}},
		"zero time":              {metav1.Time{}, types.NullValue},
		"pointer to a time":      {ptr.To(metav1.NewTime(stagetest.Start)), types.Timestamp{Time: stagetest.Start}},
		"micro time":             {metav1.NewMicroTime(stagetest.Start), types.Timestamp{Time: stagetest.Start}},
		"zero micro time":        {metav1.MicroTime{}, types.NullValue},
		"duration":               {metav1.Duration{Duration: time.Minute}, types.Duration{Duration: time.Minute}},
		"number or text, number": {intstr.FromInt32(80), types.Int(80)},
		"number or text, text":   {intstr.FromString("http"), types.String("http")},
		"quantity":               {resource.MustParse("1500m"), quantityValue{resource.MustParse("1.5")}},
		"list of a named type":   {numbers{1, 2}, types.NewDynamicList(celAdapter{}, []any{int64(1), int64(2)})},
		"list of JSON":           {[]any{"a", int64(1)}, types.NewDynamicList(celAdapter{}, []any{"a", int64(1)})},
		"map with named keys":    {map[corev1.ResourceName]string{"cpu": "1"}, types.NewStringStringMap(celAdapter{}, map[string]string{"cpu": "1"})},
		"map of texts":           {map[string]string{"a": "b"}, types.NewStringStringMap(celAdapter{}, map[string]string{"a": "b"})},
		"map of JSON":            {map[string]any{"a": nil}, types.NewStringInterfaceMap(celAdapter{}, map[string]any{"a": nil})},
		"struct":                 {corev1.Toleration{Key: "k"}, structValue{reflect.ValueOf(corev1.Toleration{Key: "k"})}},
		"unsigned number":        {uint32(3), types.Uint(3)},
	} {
		got := celAdapter{}.NativeToValue(c.value)
		if got.Type() != c.want.Type() || got.Equal(c.want) != types.True {
			t.Errorf("%s: %v of type %s, want %v of type %s", name, got, got.Type().TypeName(), c.want, c.want.Type().TypeName())
		}
	}
	if got := (celAdapter{}).NativeToValue(make(chan int)); !types.IsError(got) {
		t.Errorf("a channel is %v", got)
	}
}

// TestFieldsOfStructsInCEL checks access by JSON names, embedded structs included, and the difference between a field
// that is not set and one that does not exist.
func TestFieldsOfStructsInCEL(t *testing.T) {
	deployed := celAdapter{}.NativeToValue(corev1.Container{
		Name: "app", VolumeMounts: []corev1.VolumeMount{}, LivenessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{}}},
	}).(structValue)
	for name, want := range map[string]ref.Val{"name": types.String("app"), "image": types.String(""), "stdin": types.False, "readinessProbe": types.NullValue} {
		if got := deployed.Get(types.String(name)); got.Equal(want) != types.True {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	for name, want := range map[string]ref.Val{"name": types.True, "image": types.False, "livenessProbe": types.True, "readinessProbe": types.False} {
		if got := deployed.IsSet(types.String(name)); got != want {
			t.Errorf("has %s: %v, want %v", name, got, want)
		}
	}
	probe := deployed.Get(types.String("livenessProbe")).(structValue)
	if got := probe.IsSet(types.String("exec")); got != types.True {
		t.Errorf("a field of an embedded struct: %v", got)
	}
	for _, index := range []ref.Val{types.String("Name"), types.String("ProbeHandler"), types.String(""), types.Int(0), types.NullValue} {
		if got := deployed.Get(index); !types.IsError(got) || !strings.HasPrefix(got.(*types.Err).Error(), "no such field: ") {
			t.Errorf("%v: %v", index, got)
		}
		if got := deployed.IsSet(index); !types.IsError(got) {
			t.Errorf("has %v: %v", index, got)
		}
	}
}

func TestStructsInCELConvertToThemselvesOnly(t *testing.T) {
	value := corev1.Toleration{Key: "k"}
	s := celAdapter{}.NativeToValue(value).(structValue)
	if got, err := s.ConvertToNative(reflect.TypeFor[corev1.Toleration]()); err != nil || got != any(value) {
		t.Errorf("got %v, %v", got, err)
	}
	if _, err := s.ConvertToNative(reflect.TypeFor[string]()); err == nil || err.Error() != "a struct is not a string" {
		t.Errorf("got %v", err)
	}
	if got := s.ConvertToType(types.StringType); !types.IsError(got) || got.(*types.Err).Error() != "a struct is not a string" {
		t.Errorf("got %v", got)
	}
	if s.Value() != any(value) || s.Type().TypeName() != "struct" {
		t.Errorf("value %v of type %s", s.Value(), s.Type().TypeName())
	}
	for other, want := range map[ref.Val]types.Bool{
		celAdapter{}.NativeToValue(corev1.Toleration{Key: "k"}): true, celAdapter{}.NativeToValue(corev1.Toleration{Key: "x"}): false,
		celAdapter{}.NativeToValue(corev1.Taint{Key: "k"}): false, types.String("k"): false,
	} {
		if got := s.Equal(other); got != want {
			t.Errorf("equal to %v: %v", other, got)
		}
	}
}

func quantity(text string) quantityValue { return quantityValue{resource.MustParse(text)} }

// TestQuantitiesInCEL checks arithmetic and comparisons of quantities with each other and with numbers. Sums stay
// exact; the largest quantity is that of Kubernetes.
func TestQuantitiesInCEL(t *testing.T) {
	for name, c := range map[string]struct {
		got  ref.Val
		want string // a quantity, or the text of an error
	}{
		"sum":                      {quantity("1Gi").Add(quantity("1")), "1073741825"},
		"sum of very small ones":   {quantity("1n").Add(quantity("1n")), "2n"},
		"sum with a number":        {quantity("1").Add(types.Double(0.5)), "1500m"},
		"difference":               {quantity("1").Subtract(quantity("1m")), "999m"},
		"difference with a number": {quantity("1").Subtract(types.Int(3)), "-2"},
		"product":                  {quantity("500m").Multiply(types.Uint(4)), "2"},
		"product of quantities":    {quantity("2").Multiply(quantity("3")), "6"},
		"large product":            {quantity("100Pi").Multiply(types.Int(20)), "2251799813685248000"},
		"product over the limit":   {quantity("9E").Multiply(types.Int(9)), "9223372036854775807"},
		"product under the limit":  {quantity("9E").Multiply(types.Int(-9)), "-9223372036854775807"},
		"infinite":                 {quantity("1").Multiply(types.Double(math.Inf(1))), "9223372036854775807"},
		"quotient":                 {quantity("1Gi").Divide(quantity("1Mi")), "1024"},
		"negation":                 {quantity("1500m").Negate(), "-1500m"},
		"of a text":                {parseQuantity(types.String("2Ki")), "2048"},
		"of a quantity":            {parseQuantity(quantity("3")), "3"},
		"of an unsigned number":    {parseQuantity(types.Uint(3)), "3"},
		"of a fraction":            {parseQuantity(types.Double(0.0015)), "1m"},
		"of a bool":                {parseQuantity(types.True), "error: a bool is not a quantity"},
		"of a bad text":            {parseQuantity(types.String("1x")), `error: "1x" is not a quantity`},
		"of NaN":                   {parseQuantity(types.Double(math.NaN())), "error: NaN is not a quantity"},
		"times NaN":                {quantity("1").Multiply(types.Double(math.NaN())), "error: NaN is not a quantity"},
		"by zero":                  {quantity("1").Divide(types.Int(0)), "error: divide by zero"},
		"by the quantity zero":     {quantity("1").Divide(quantity("0")), "error: divide by zero"},
		"sum with a text":          {quantity("1").Add(types.String("1")), "error: no such overload"},
		"difference with a text":   {quantity("1").Subtract(types.String("1")), "error: no such overload"},
		"product with a text":      {quantity("1").Multiply(types.String("1")), "error: no such overload"},
		"quotient by a text":       {quantity("1").Divide(types.String("1")), "error: no such overload"},
		"compared with a text":     {quantity("1").Compare(types.String("1")), "error: no such overload"},
	} {
		if want, isError := strings.CutPrefix(c.want, "error: "); isError {
			if err, ok := c.got.(*types.Err); !ok || err.Error() != want {
				t.Errorf("%s: %v, want the error %s", name, c.got, want)
			}
			continue
		}
		if got, ok := c.got.(quantityValue); !ok || got.Cmp(resource.MustParse(c.want)) != 0 {
			t.Errorf("%s: %v, want %s", name, c.got.Value(), c.want)
		}
	}
}

func TestQuantitiesInCELCompare(t *testing.T) {
	for name, c := range map[string]struct {
		other ref.Val
		order types.Int
		equal types.Bool
	}{
		"the same":         {quantity("1500m"), 0, true},
		"less":             {quantity("1499m"), 1, false},
		"more":             {quantity("1501m"), -1, false},
		"the same number":  {types.Double(1.5), 0, true},
		"a smaller number": {types.Int(1), 1, false},
		"a larger number":  {types.Uint(2), -1, false},
	} {
		q := quantity("1.5")
		if got := q.Compare(c.other); got != c.order {
			t.Errorf("%s: order %v, want %v", name, got, c.order)
		}
		if got := q.Equal(c.other); got != c.equal {
			t.Errorf("%s: equal %v", name, got)
		}
	}
	if quantity("1").Equal(types.String("1")) != types.False {
		t.Error("a quantity equals a text")
	}
}

func TestQuantitiesInCELConvert(t *testing.T) {
	q := quantity("1500m")
	for kind, want := range map[ref.Type]ref.Val{types.StringType: types.String("1500m"), types.DoubleType: types.Double(1.5), types.IntType: types.Int(2)} {
		if got := q.ConvertToType(kind); got.Equal(want) != types.True {
			t.Errorf("%s: %v, want %v", kind.TypeName(), got, want)
		}
	}
	if got := q.ConvertToType(types.BoolType); !types.IsError(got) || got.(*types.Err).Error() != "a quantity is not a bool" {
		t.Errorf("got %v", got)
	}
	if got, err := q.ConvertToNative(reflect.TypeFor[resource.Quantity]()); err != nil || got != any(q.Quantity) {
		t.Errorf("got %v, %v", got, err)
	}
	if _, err := q.ConvertToNative(reflect.TypeFor[int]()); err == nil || err.Error() != "a quantity is not a int" {
		t.Errorf("got %v", err)
	}
	if q.Type().TypeName() != "Quantity" || q.Value() != any(q.Quantity) {
		t.Errorf("%v of type %s", q.Value(), q.Type().TypeName())
	}
}

// TestQuantityArithmeticKeepsItsOperands checks random quantities: sums are commutative, a difference undoes a sum, and
// no operation changes an operand.
func TestQuantityArithmeticKeepsItsOperands(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(label string) quantityValue {
			return quantityValue{*resource.NewMilliQuantity(rapid.Int64Range(-1e12, 1e12).Draw(t, label), resource.DecimalSI)}
		}
		a, b := draw("a"), draw("b")
		before := a.AsDec().String() + " " + b.AsDec().String()
		sum := a.Add(b).(quantityValue)
		if sum.Equal(b.Add(a)) != types.True || sum.Subtract(b).Equal(a) != types.True {
			t.Fatalf("%s and %s have the sum %s", a.String(), b.String(), sum.String())
		}
		if a.Subtract(b).(quantityValue).Negate().Equal(b.Subtract(a)) != types.True {
			t.Fatal("a difference is not the negation of its opposite")
		}
		order, opposite := a.Compare(b).(types.Int), b.Compare(a).(types.Int)
		if order != -opposite || (order == 0) != bool(a.Equal(b).(types.Bool)) {
			t.Fatalf("%s and %s: order %d and %d", a.String(), b.String(), order, opposite)
		}
		if after := a.AsDec().String() + " " + b.AsDec().String(); after != before {
			t.Fatalf("the operands became %s, were %s", after, before)
		}
	})
}

func TestTimesInCEL(t *testing.T) {
	created := celAdapter{}.NativeToValue(stagetest.NewPod())
	for name, c := range map[string]struct {
		value ref.Val
		read  func(ref.Val) (time.Time, error)
		want  string
	}{
		"timestamp":         {types.Timestamp{Time: stagetest.Start}, celTime, "2026-03-01T12:00:00Z"},
		"text":              {types.String("2026-03-01T13:00:00+01:00"), celTime, "2026-03-01T12:00:00Z"},
		"text without zone": {types.String("2026-03-01T13:00:00"), celTime, `error: parsing time "2026-03-01T13:00:00" as "2006-01-02T15:04:05Z07:00": cannot parse "" as "Z07:00"`},
		"duration":          {types.Duration{Duration: time.Second}, celTime, "error: a google.protobuf.Duration is not a time"},
		"null":              {types.NullValue, celTime, "error: a null_type is not a time"},
		"object":            {created, createdAt, "2026-03-01T11:59:00Z"},
		"number":            {types.Int(1), createdAt, "error: SinceSecond needs an object with a creationTimestamp, or a time"},
		"metadata is text":  {celAdapter{}.NativeToValue(map[string]any{"metadata": "x"}), createdAt, "error: SinceSecond needs an object with a creationTimestamp, or a time"},
	} {
		at, err := c.read(c.value)
		got := at.UTC().Format(time.RFC3339)
		if err != nil {
			got = "error: " + err.Error()
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
