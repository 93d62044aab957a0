package history_test

import (
	"reflect"
	"slices"
	"testing"

	"github.com/rehearse-k8s/rehearse/history"
)

// notHashed are the fields of a step that may differ between two runs with the same hash.
var notHashed = []string{"Unrecorded", "Versioned", "Older", "N", "Note", "Causes", "Hash", "Changes"}

// TestHashCovers changes one field at a time: the hash changes, except for the fields in notHashed.
func TestHashCovers(t *testing.T) {
	bare := (&history.Run{}).Add(history.Step{}).Hash
	seen := map[history.Hash]string{bare: "nothing"}
	var check func(path []int, typ reflect.Type)
	check = func(path []int, typ reflect.Type) {
		for i := range typ.NumField() {
			field, at := typ.Field(i), append(slices.Clone(path), i)
			if field.Type.Kind() == reflect.Struct {
				check(at, field.Type)
				continue
			}
			var s history.Step
			switch v := reflect.ValueOf(&s).Elem().FieldByIndex(at); v.Kind() {
			case reflect.String:
				v.SetString("x")
			case reflect.Int, reflect.Int64:
				v.SetInt(1)
			case reflect.Uint64:
				v.SetUint(1)
			case reflect.Bool:
				v.SetBool(true)
			case reflect.Slice:
				v.Set(reflect.MakeSlice(v.Type(), 1, 1))
			default:
				t.Fatalf("%s is a %s, which this test does not know", field.Name, v.Kind())
			}
			hash := (&history.Run{}).Add(s).Hash
			if slices.Contains(notHashed, field.Name) {
				if hash != bare {
					t.Errorf("%s changes the hash", field.Name)
				}
				continue
			}
			if other := seen[hash]; other != "" {
				t.Errorf("a step with %s has the hash of one with %s", field.Name, other)
			}
			seen[hash] = field.Name
		}
	}
	check(nil, reflect.TypeFor[history.Step]())
}

func TestHashText(t *testing.T) {
	for _, h := range []history.Hash{0, 1, 1<<64 - 1} {
		text, err := h.MarshalText()
		if err != nil || len(text) != 16 {
			t.Fatalf("%d: %q, %v", h, text, err)
		}
		var back history.Hash
		if err := back.UnmarshalText(text); err != nil || back != h {
			t.Errorf("%q: %s, %v", text, back, err)
		}
	}
	var h history.Hash
	for _, text := range []string{"", "1", "000000000000000g", "00000000000000001", "+000000000000001"} {
		if err := h.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q is read as %s", text, h)
		}
	}
}

func TestSteps(t *testing.T) {
	for _, tc := range []struct {
		name  string
		step  history.Step
		wrote bool
	}{
		{"create", history.Step{Kind: history.Request, Verb: "create", Code: 201, Revision: 5}, true},
		{"no change", history.Step{Kind: history.Request, Verb: "update", Code: 200, Revision: 5, Before: 5}, false},
		{"conflict", history.Step{Kind: history.Request, Verb: "update", Code: 409, Before: 5}, false},
		{"lost", history.Step{Kind: history.Request, Verb: "delete", Code: 200, Revision: 6, Before: 5, Reply: "lost"}, true},
		{"read", history.Step{Kind: history.Request, Verb: "get", Code: 200, Revision: 5}, false},
		{"its answer", history.Step{Kind: history.Answer, Verb: "create", Code: 201, Revision: 5}, false},
	} {
		if got := tc.step.Wrote(); got != tc.wrote {
			t.Errorf("%s: %t", tc.name, got)
		}
	}
	run := &history.Run{}
	for _, a := range []string{"job", "cloneset/0", "job", "cloneset/1"} {
		run.Add(history.Step{Kind: history.Start, Actor: a})
	}
	run.Add(history.Step{Kind: history.Request, Actor: "user"})
	if got := run.Controllers(); !slices.Equal(got, []string{"job", "cloneset/0", "cloneset/1"}) {
		t.Errorf("controllers %q", got)
	}
	for o, want := range map[history.Object]string{
		{Resource: "pods", Namespace: "n", Name: "a"}: "pods n/a",
		{Resource: "nodes", Name: "a"}:                "nodes a",
		{Name: "/readyz"}:                             "/readyz",
		{Resource: "pods"}:                            "pods",
	} {
		if o.String() != want {
			t.Errorf("%+v is %q", o, o.String())
		}
	}
}
