package expr

import (
	"encoding"
	"encoding/json"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A path on a Go struct: the fields are looked up once, when the stage is
// compiled, and what encoding/json would leave out is absent here too. A path
// that meets a type with a JSON form of its own, times apart, is left to jq.

// typedStep is one move on Go values.
type typedStep struct {
	op    StepOp
	index []int  // of a struct's field
	key   string // of a map's
	// absent: no such field, so always null. omitEmpty and omitZero are what
	// the field's tag says.
	absent, omitEmpty, omitZero bool

	sub    []typedStep
	text   string
	truth  truthValue
	negate bool
}

var (
	timeType       = reflect.TypeFor[metav1.Time]()
	stringMapType  = reflect.TypeFor[map[string]string]()
	marshalerTypes = []reflect.Type{reflect.TypeFor[json.Marshaler](), reflect.TypeFor[encoding.TextMarshaler]()}
)

// HasOwnJSON reports whether values of a type have a JSON form of their own.
func HasOwnJSON(t reflect.Type) bool {
	return slices.ContainsFunc(marshalerTypes, func(m reflect.Type) bool {
		return t.Implements(m) || reflect.PointerTo(t).Implements(m)
	})
}

func Deref(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t
}

// planTyped resolves a path against a type; nil when it has to be left to jq.
func planTyped(t reflect.Type, steps []Step) ([]typedStep, bool) {
	out := make([]typedStep, 0, len(steps))
	for _, s := range steps {
		t = Deref(t)
		if t == timeType || HasOwnJSON(t) {
			return nil, false
		}
		var next typedStep
		var ok bool
		switch s.Op {
		case Field:
			next, t, ok = planField(t, s.Name)
		case Iterate:
			if ok = t.Kind() == reflect.Slice && t.Elem().Kind() != reflect.Uint8; ok {
				next, t = typedStep{op: Iterate}, t.Elem()
			}
		case Select:
			next = typedStep{op: Select, text: s.Text, truth: s.truth, negate: s.Negate}
			next.sub, ok = planTyped(t, s.Sub)
		}
		if !ok {
			return nil, false
		}
		out = append(out, next)
		if next.absent {
			// Whatever follows is a field of null, or an error.
			return nil, false
		}
	}
	return out, leaf(Deref(t))
}

func planField(t reflect.Type, name string) (typedStep, reflect.Type, bool) {
	if t == stringMapType {
		return typedStep{key: name}, t.Elem(), true
	}
	if t.Kind() != reflect.Struct {
		return typedStep{}, nil, false
	}
	for i := range t.NumField() {
		f := t.Field(i)
		tag, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous && tag == "" {
			if f.Type.Kind() != reflect.Struct {
				return typedStep{}, nil, false
			}
			if inner, innerType, ok := planField(f.Type, name); ok && !inner.absent {
				inner.index = append([]int{i}, inner.index...)
				return inner, innerType, true
			}
			continue
		}
		if tag != name || !f.IsExported() {
			continue
		}
		return typedStep{
			index:     []int{i},
			omitEmpty: strings.Contains(options, "omitempty"), omitZero: strings.Contains(options, "omitzero"),
		}, f.Type, !strings.Contains(options, "string")
	}
	return typedStep{absent: true}, t, true
}

// leaf reports whether the end of a path is something whose JSON is known here.
func leaf(t reflect.Type) bool {
	if t == timeType {
		return true
	}
	switch t.Kind() {
	case reflect.String, reflect.Bool, reflect.Int, reflect.Int32, reflect.Int64, reflect.Struct, reflect.Map:
		return !HasOwnJSON(t)
	case reflect.Slice:
		return !HasOwnJSON(t) && t.Elem().Kind() != reflect.Uint8
	}
	return false
}

// walkTyped runs planned steps on a Go value.
func walkTyped(v reflect.Value, steps []typedStep, t *tally) {
	for i := range steps {
		s := &steps[i]
		switch s.op {
		case Field:
			if v = present(v); v.IsValid() && v.Kind() == reflect.Map {
				// A map holds texts only, so the path ends here.
				m, _ := v.Interface().(map[string]string)
				if text, ok := m[s.key]; ok {
					t.textResult(text)
				}
				return
			}
			v = fieldTyped(v, s)
		case Iterate:
			v = present(v)
			if !v.IsValid() || v.IsNil() {
				t.failed = true // jq does not iterate over null
				return
			}
			for j := range v.Len() {
				if walkTyped(v.Index(j), steps[i+1:], t); t.failed {
					return
				}
			}
			return
		case Select:
			at := v
			for j := range s.sub {
				at = fieldTyped(at, &s.sub[j])
			}
			if s.is(present(at)) == s.negate {
				return
			}
		}
	}
	resultTyped(present(v), t)
}

// is compares a Go value with the constant of a select.
func (s *typedStep) is(v reflect.Value) bool {
	switch {
	case !v.IsValid():
		return false
	case v.Kind() == reflect.String:
		return s.truth == noTruth && v.String() == s.text
	case v.Kind() == reflect.Bool:
		return s.truth == truthOf(v.Bool())
	}
	return false
}

// present follows pointers; the zero Value stands for null.
func present(v reflect.Value) reflect.Value {
	for v.IsValid() && v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return reflect.Value{}
		}
		v = v.Elem()
	}
	return v
}

func fieldTyped(v reflect.Value, s *typedStep) reflect.Value {
	v = present(v)
	if !v.IsValid() {
		return v
	}
	if v.Kind() == reflect.Map {
		m, _ := v.Interface().(map[string]string)
		text, ok := m[s.key]
		if !ok {
			return reflect.Value{}
		}
		return reflect.ValueOf(text)
	}
	for _, i := range s.index {
		v = v.Field(i)
	}
	if s.omitEmpty && empty(v) || s.omitZero && v.IsZero() {
		return reflect.Value{}
	}
	return v
}

func empty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.String, reflect.Slice, reflect.Map:
		return v.Len() == 0
	case reflect.Bool:
		return !v.Bool()
	case reflect.Int, reflect.Int32, reflect.Int64:
		return v.Int() == 0
	case reflect.Pointer, reflect.Interface:
		return v.IsNil()
	}
	return false
}

func resultTyped(v reflect.Value, t *tally) {
	if !v.IsValid() {
		return
	}
	if v.Type() == timeType {
		at := v.Addr().Interface().(*metav1.Time)
		switch {
		case at.IsZero():
		case len(t.want) == 0: // the text is not needed
			t.resultNumber(Value{Kind: Time, Time: at.Time}, "")
		default:
			t.textResult(at.UTC().Format(time.RFC3339))
		}
		return
	}
	switch v.Kind() {
	case reflect.String:
		t.textResult(v.String())
	case reflect.Bool:
		t.resultNumber(Value{Kind: Bool, Number: truth(v.Bool())}, strconv.FormatBool(v.Bool()))
	case reflect.Int, reflect.Int32, reflect.Int64:
		var buffer [20]byte
		text := strconv.AppendInt(buffer[:0], v.Int(), 10)
		for i := 0; i < len(t.want) && !t.found; i++ {
			t.found = string(text) == t.want[i]
		}
		t.resultNumber(Value{Kind: Number, Number: float64(v.Int())}, "")
	case reflect.Slice, reflect.Map:
		if !v.IsNil() {
			t.resultNumber(Value{Kind: Other}, "")
		}
	default:
		t.resultNumber(Value{Kind: Other}, "")
	}
}

// resultNumber notes a result that is no string; text, if any, is its JSON.
func (t *tally) resultNumber(v Value, text string) {
	if !t.exists {
		t.exists, t.first = true, v
	}
	t.found = t.found || text != "" && slices.Contains(t.want, text)
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
