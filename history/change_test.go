package history_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/rehearse-k8s/rehearse/history"
)

// anyObject generates an object, or nil.
func anyObject(t *rapid.T, name string) map[string]any {
	if rapid.IntRange(0, 4).Draw(t, name+" is nil") == 0 {
		return nil
	}
	leaf := rapid.SampledFrom([]any{"x", "\u2028<&>", true, int64(7), 0.5, nil, []any{"a", nil}, []any{map[string]any{"k": "v"}}, map[string]any{}})
	inner := rapid.MapOfN(rapid.SampledFrom([]string{"a", "b", "c"}), leaf, 0, 3)
	out := map[string]any{}
	for k, v := range rapid.MapOfN(rapid.SampledFrom([]string{"metadata", "spec", "status"}), inner, 0, 3).Draw(t, name) {
		out[k] = v
	}
	return out
}

// normal returns an object as decoded from JSON.
func normal(t *rapid.T, c history.Change) map[string]any {
	got, err := c.Apply(nil)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// TestChange checks that applying a change to the object before gives the object after.
func TestChange(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pod := history.Object{Resource: "pods", Namespace: "default", Name: "a"}
		before, after := anyObject(t, "before"), anyObject(t, "after")
		make := func(was, is map[string]any, first bool) history.Change {
			c, err := history.ChangeOf(pod, 5, was, is, first)
			if err != nil {
				t.Fatal(err)
			}
			return c
		}
		was, want := normal(t, make(nil, before, false)), normal(t, make(nil, after, false))
		change, first := make(before, after, false), make(before, after, true)
		text, _ := json.Marshal(was)
		got, err := change.Apply(was)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Fatalf("applied to what was: %s", d)
		}
		if again, _ := json.Marshal(was); string(again) != string(text) {
			t.Fatalf("what was before has been altered: %s, %s", text, again)
		}
		if got, err = first.Apply(map[string]any{"other": true}); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, got); before != nil && d != "" {
			t.Fatalf("a first change: %s", d)
		}
		if d := cmp.Diff(was, first.Before()); before != nil && d != "" {
			t.Fatalf("what was, of a first change: %s", d)
		}
	})
}

// TestChangeLeavesOut checks that a change omits managedFields, nulls and the values of Secrets.
func TestChangeLeavesOut(t *testing.T) {
	object := map[string]any{
		"metadata": map[string]any{
			"name": "s", "managedFields": []any{"long"}, "creationTimestamp": nil,
			"annotations": map[string]any{"kubectl.kubernetes.io/last-applied-configuration": "hunter2", "a": "b"},
		},
		"data": map[string]any{"password": "hunter2"}, "stringData": map[string]any{"p": "hunter2"},
	}
	c, err := history.ChangeOf(history.Object{Resource: "secrets", Name: "s"}, 1, object, object, true)
	if err != nil {
		t.Fatal(err)
	}
	text, _ := json.Marshal(c)
	for _, bad := range []string{"hunter2", "managedFields", "null"} {
		if strings.Contains(string(text), bad) {
			t.Errorf("%q is in %s", bad, text)
		}
	}
	if !strings.Contains(string(text), `"password":"(7 characters)"`) {
		t.Errorf("got %s", text)
	}
	if object["data"].(map[string]any)["password"] != "hunter2" {
		t.Error("the object itself was changed")
	}
	if _, err := history.ChangeOf(history.Object{}, 1, nil, map[string]any{"f": func() {}}, false); err == nil {
		t.Error("what is no JSON was taken")
	}
}
