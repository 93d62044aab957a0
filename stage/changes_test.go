package stage

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rehearse-k8s/rehearse/internal/stage/stagetest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
)

func changesText(before, after Object) []string {
	var out []string
	for _, c := range Changes(before, after) {
		out = append(out, c.String())
	}
	return out
}

// TestChangesOfObjects checks what `stage play` prints for a change of an object.
func TestChangesOfObjects(t *testing.T) {
	for name, c := range map[string]struct {
		before, after string
		want          []string
	}{
		"nothing":                  {"spec: {a: 1}", "spec: {a: 1}", nil},
		"a field is new":           {"spec: {}", "spec: {a: 1}", []string{"spec.a: 1"}},
		"a mapping is new":         {"", "spec: {a: 1, b: {c: x}}", []string{"spec.a: 1", "spec.b.c: x"}},
		"a mapping is gone":        {"spec: {a: 1, b: {c: x}}", "", []string{"spec.a: 1 -> (gone)", "spec.b.c: x -> (gone)"}},
		"an empty mapping is new":  {"", "spec: {}", []string{"spec: {}"}},
		"another type":             {"spec: {a: 1}", "spec: [a]", []string{`spec: {"a":1} -> ["a"]`}},
		"a list is gone":           {"spec: {l: [a, b]}", "spec: {}", []string{"spec.l[0]: a -> (gone)", "spec.l[1]: b -> (gone)"}},
		"order of named items":     {"spec: {l: [{name: a}, {name: b}]}", "spec: {l: [{name: b}, {name: a}]}", nil},
		"an item is gone":          {"spec: {l: [{name: a, count: 1}, {name: b}]}", "spec: {l: [{name: b}]}", []string{"spec.l[a].count: 1 -> (gone)", "spec.l[a].name: a -> (gone)"}},
		"two items of one name":    {"spec: {l: [{type: IP, a: 1}, {type: IP, a: 2}]}", "spec: {l: [{type: IP, a: 3}, {type: IP, a: 4}]}", []string{"spec.l[IP].a: 1 -> 3", "spec.l[IP#2].a: 2 -> 4"}},
		"the second of one name":   {"spec: {l: [{type: IP, a: 1}]}", "spec: {l: [{type: IP, a: 1}, {type: IP, a: 2}]}", []string{"spec.l[IP#2].a: 2", "spec.l[IP#2].type: IP"}},
		"items by their addresses": {"spec: {l: [{ip: 10.0.0.1, a: 1}]}", "spec: {l: [{ip: 10.0.0.1, a: 2}]}", []string{"spec.l[10.0.0.1].a: 1 -> 2"}},
		"an empty text":            {"spec: {a: x}", "spec: {a: ''}", []string{`spec.a: x -> ""`}},
		"a text of several lines":  {"spec: {a: x}", `spec: {a: "b\tc\nd"}`, []string{`spec.a: x -> "b\tc\nd"`}},
		"a key with a dot":         {"spec: {a.b/c: x}", "spec: {a.b/c: z}", []string{"spec[a.b/c]: x -> z"}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, changesText(widget(t, c.before), widget(t, c.after))); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestChangesShortenLongValues(t *testing.T) {
	long := strings.Repeat("ä", 200)
	got := changesText(widget(t, "spec: {a: x}"), widget(t, "spec: {a: "+long+"}"))
	if want := "spec.a: x -> " + strings.Repeat("ä", 80) + "…"; len(got) != 1 || got[0] != want {
		t.Errorf("got %q", got)
	}
	if got := brief(func() {}); got != "?" {
		t.Errorf("a value without JSON: %q", got)
	}
}

// TestChangesLeaveOutWhatTheServerSets checks that a write that changes nothing but its version shows no change.
func TestChangesLeaveOutWhatTheServerSets(t *testing.T) {
	before := stagetest.NewPod()
	after := before.DeepCopy()
	after.ResourceVersion = "99"
	after.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "m"}}
	if got := changesText(before, after); got != nil {
		t.Errorf("got %v", got)
	}
	if got := Changes(before, nil); got != nil {
		t.Errorf("an object that is gone: %v", got)
	}
}

// TestNodeWithTwoInternalAddresses checks that both addresses of a dual-stack node are shown.
func TestNodeWithTwoInternalAddresses(t *testing.T) {
	before := stagetest.NewNode()
	after := before.DeepCopy()
	after.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.1"}, {Type: corev1.NodeInternalIP, Address: "fd00::1"}}
	text := strings.Join(changesText(before, after), "\n")
	for _, address := range []string{"10.0.0.1", "fd00::1"} {
		if !strings.Contains(text, address) {
			t.Errorf("%s is missing in\n%s", address, text)
		}
	}
}

// TestChangesAreEmptyOnlyForEqualObjects checks random pods: no change is overlooked, none is invented, and the
// reverse change has the same paths.
func TestChangesAreEmptyOnlyForEqualObjects(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := stagetest.DrawPod(t), stagetest.DrawPod(t)
		if got := Changes(a, a.DeepCopy()); len(got) != 0 {
			t.Fatalf("a copy differs: %v", got)
		}
		forth, back := Changes(a, b), Changes(b, a)
		if (len(forth) == 0) != cmp.Equal(ValuesOf(a), ValuesOf(b)) {
			t.Fatalf("%d changes of\n%s", len(forth), cmp.Diff(ValuesOf(a), ValuesOf(b)))
		}
		if len(forth) != len(back) {
			t.Fatalf("%d changes, and %d back", len(forth), len(back))
		}
		paths := map[string]bool{}
		for _, c := range forth {
			if paths[c.Path] {
				t.Fatalf("%s is listed twice", c.Path)
			}
			paths[c.Path] = true
		}
		for _, c := range back {
			if !paths[c.Path] {
				t.Fatalf("%s changes only on the way back", c.Path)
			}
		}
	})
}
