package snapshot

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMergePatch(t *testing.T) {
	m := func(kv ...any) map[string]any {
		out := map[string]any{}
		for i := 0; i < len(kv); i += 2 {
			out[kv[i].(string)] = kv[i+1]
		}
		return out
	}
	for name, c := range map[string]struct{ from, to, want map[string]any }{
		"equal":              {m("a", m("b", int64(1))), m("a", m("b", int64(1))), m()},
		"changed and added":  {m("a", m("b", int64(1), "c", "x")), m("a", m("b", int64(2), "c", "x"), "d", true), m("a", m("b", int64(2)), "d", true)},
		"removed":            {m("a", m("b", int64(1)), "c", "x"), m("a", m()), m("a", m("b", nil), "c", nil)},
		"list":               {m("a", []any{"x", "y"}), m("a", []any{"y"}), m("a", []any{"y"})},
		"map in place of it": {m("a", "x"), m("a", m("b", "y")), m("a", m("b", "y"))},
		"empty map":          {m(), m("a", m()), m("a", m())},
	} {
		if d := cmp.Diff(c.want, MergePatch(c.from, c.to)); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}
