package convert_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/rehearse-k8s/rehearse/internal/convert"
)

func TestKeepsNumbers(t *testing.T) {
	for name, c := range map[string]struct {
		value any
		want  bool
	}{
		"no number":         {map[string]any{"a": []any{"1.5", true, nil, map[string]any{}}}, true},
		"the largest":       {[]any{int64(2147483647), int64(-2147483648)}, true},
		"too large":         {map[string]any{"a": []any{int64(1), int64(2147483648)}}, false},
		"too small":         {map[string]any{"a": map[string]any{"b": int64(-2147483649)}}, false},
		"a whole fraction":  {map[string]any{"a": float64(5)}, false},
		"a fraction inside": {[]any{map[string]any{"a": 1.5}}, false},
	} {
		if got := convert.KeepsNumbers(c.value); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestConverterShortens: the converter changes such numbers without an error. If a later version does not, this package is not needed.
func TestConverterShortens(t *testing.T) {
	var out struct {
		A int32 `json:"a"`
	}
	for _, value := range []any{int64(1<<32 + 1), float64(1)} {
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(map[string]any{"a": value}, &out); err != nil || out.A != 1 {
			t.Errorf("%v: %d, error %v", value, out.A, err)
		}
	}
}
