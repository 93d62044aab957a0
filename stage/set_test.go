package stage

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rehearse-k8s/rehearse/api/kwok/v1alpha1"
	"github.com/rehearse-k8s/rehearse/internal/stage/stagetest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
)

// newStage returns a valid stage that deletes objects of a kind.
func newStage(name string, kind Kind) Stage {
	return Stage{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1alpha1.StageSpec{
			ResourceRef: v1alpha1.StageResourceRef{APIGroup: kind.APIVersion, Kind: kind.Kind},
			Selector:    &v1alpha1.StageSelector{}, Next: &v1alpha1.StageNext{Delete: true},
		},
	}
}

var kindWidget = Kind{APIVersion: "example.com/v1", Kind: "Widget"}

func mustSet(t testing.TB, stages ...Stage) *Set {
	t.Helper()
	set, err := Compile(stages)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func TestSetListsKindsAndNamesSorted(t *testing.T) {
	job := Kind{APIVersion: "batch/v1", Kind: "Job"}
	set := mustSet(t, newStage("z", KindPod), newStage("w", kindWidget), newStage("a", KindPod), newStage("j", job), newStage("n", KindNode))
	if diff := cmp.Diff([]Kind{job, KindNode, KindPod, kindWidget}, set.Kinds()); diff != "" {
		t.Errorf("kinds (-want +got)\n%s", diff)
	}
	for kind, want := range map[Kind][]string{KindPod: {"a", "z"}, KindNode: {"n"}, job: {"j"}, kindWidget: {"w"}, {APIVersion: "v1", Kind: "Secret"}: nil} {
		if got := set.Names(kind); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", kind, got, want)
		}
	}
	if empty := mustSet(t); len(empty.Kinds()) != 0 {
		t.Errorf("the empty set has stages for %v", empty.Kinds())
	}
}

// TestWithAddsStagesAndLeavesTheSetAlone checks that a set can be extended while others use it: the result has all
// stages, names stay unique over all kinds, and the receiver is unchanged.
func TestWithAddsStagesAndLeavesTheSetAlone(t *testing.T) {
	base := mustSet(t, newStage("a", KindPod), newStage("w", kindWidget))
	invalid := newStage("bad", KindPod)
	invalid.Spec.Weight = -1
	more, bad := base.With([]Stage{newStage("b", KindPod), newStage("w", KindNode), newStage("x", kindWidget), invalid})
	var got []string
	for _, e := range bad {
		got = append(got, e.Error())
	}
	want := []string{"stage w: metadata.name: another stage has this name", "stage bad: spec.weight: must not be negative"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("errors (-want +got)\n%s", diff)
	}
	if names := more.Names(KindPod); !slices.Equal(names, []string{"a", "b"}) {
		t.Errorf("pods: %v", names)
	}
	if names := more.Names(kindWidget); !slices.Equal(names, []string{"w", "x"}) {
		t.Errorf("widgets: %v", names)
	}
	if names := more.Names(KindNode); len(names) != 0 {
		t.Errorf("nodes: %v", names)
	}
	if !slices.Equal(base.Names(KindPod), []string{"a"}) || !slices.Equal(base.Names(kindWidget), []string{"w"}) {
		t.Error("the set that was extended has changed")
	}
}

func TestWithoutRemovesStagesAndLeavesTheSetAlone(t *testing.T) {
	base := mustSet(t, newStage("a", KindPod), newStage("b", KindPod), newStage("n", KindNode), newStage("w", kindWidget))
	less := base.Without("a", "w", "unknown")
	if diff := cmp.Diff([]Kind{KindNode, KindPod}, less.Kinds()); diff != "" {
		t.Errorf("a kind without stages is still listed: %s", diff)
	}
	if names := less.Names(KindPod); !slices.Equal(names, []string{"b"}) {
		t.Errorf("pods: %v", names)
	}
	if len(base.Names(KindPod)) != 2 || len(base.Names(kindWidget)) != 1 {
		t.Error("the set that was reduced has changed")
	}
	if again, bad := less.With([]Stage{newStage("a", KindPod)}); len(bad) > 0 || len(again.Names(KindPod)) != 2 {
		t.Errorf("the name of a removed stage is still taken: %v", bad)
	}
}

// TestSetOfCompiledStagesDecidesAsTheWholeSet checks that a set can be put together again from its compiled stages,
// in any order.
func TestSetOfCompiledStagesDecidesAsTheWholeSet(t *testing.T) {
	for kind, o := range map[Kind]Object{KindPod: stagetest.NewPod(), KindNode: stagetest.NewNode(), kindWidget: widget(t, "")} {
		whole := mustSet(t, newStage("a", kind), newStage("b", kind), newStage("c", kind))
		list := slices.Clone(whole.stages(kind))
		slices.Reverse(list)
		part := SetOf(kind, list)
		if !slices.Equal(part.Names(kind), whole.Names(kind)) {
			t.Errorf("%s: %v", kind, part.Names(kind))
		}
		for seed := range uint64(20) {
			a, b := whole.Decide(stagetest.Start, seed, o, Past{}, Scene{}), part.Decide(stagetest.Start, seed, o, Past{}, Scene{})
			if a.Stage != b.Stage || !a.Due.Equal(b.Due) {
				t.Fatalf("%s, seed %d: %s, want %s", kind, seed, b.String(), a.String())
			}
		}
	}
}

// TestDecisionsDoNotDependOnTheOrderOfStages checks that files can be reordered and stages moved between them
// without another run.
func TestDecisionsDoNotDependOnTheOrderOfStages(t *testing.T) {
	var stages []Stage
	for i, name := range []string{"a", "b", "c", "d", "e"} {
		s := newStage(name, KindPod)
		s.Spec.Weight = i
		least, most := int64(1000*i), int64(5000)
		s.Spec.Delay = &v1alpha1.StageDelay{DurationMilliseconds: &least, JitterDurationMilliseconds: &most}
		s.Spec.Selector = &v1alpha1.StageSelector{MatchLabels: map[string]string{"go": "yes", "a": "b", "c": "d"}}
		stages = append(stages, s)
	}
	sorted := mustSet(t, stages...)
	rapid.Check(t, func(t *rapid.T) {
		shuffled, err := Compile(rapid.Permutation(stages).Draw(t, "order"))
		if err != nil {
			t.Fatal(err)
		}
		p := stagetest.NewPod(func(p *corev1.Pod) {
			p.Labels = map[string]string{"c": "d", "go": "yes", "a": "b"}
			p.UID = types.UID(rapid.StringN(1, 8, -1).Draw(t, "uid"))
		})
		seed, past := rapid.Uint64().Draw(t, "seed"), Past{Played: rapid.Uint64Range(0, 9).Draw(t, "played")}
		a, b := sorted.Decide(stagetest.Start, seed, p, past, Scene{}), shuffled.Decide(stagetest.Start, seed, p, past, Scene{})
		if a.Stage != b.Stage || !a.Due.Equal(b.Due) || a.String() != b.String() {
			t.Fatalf("%s, and in another order %s", a.String(), b.String())
		}
	})
}

func TestKindNamesAndGroups(t *testing.T) {
	for _, c := range []struct {
		kind        Kind
		text, group string
	}{
		{KindPod, "Pod", ""},
		{Kind{Kind: "Pod"}, "Pod", ""},
		{Kind{APIVersion: "apps/v1", Kind: "Deployment"}, "Deployment.apps/v1", "apps"},
		{kindWidget, "Widget.example.com/v1", "example.com"},
	} {
		if got := c.kind.String(); got != c.text {
			t.Errorf("%#v: %s, want %s", c.kind, got, c.text)
		}
		if got := c.kind.GroupVersionKind().Group; got != c.group || c.kind.group() != c.group {
			t.Errorf("%s: group %q and %q, want %q", c.kind, got, c.kind.group(), c.group)
		}
	}
}

// TestKindOfObjects checks which Go types an object of each kind must have. A pod that comes as an unstructured
// object is none: the stages of pods read the typed form.
func TestKindOfObjects(t *testing.T) {
	object := func(apiVersion, kind any) Object {
		return &unstructured.Unstructured{Object: map[string]any{"apiVersion": apiVersion, "kind": kind}}
	}
	for name, c := range map[string]struct {
		object Object
		want   Kind
	}{
		"pod":                    {stagetest.NewPod(), KindPod},
		"node":                   {stagetest.NewNode(), KindNode},
		"custom resource":        {widget(t, ""), kindWidget},
		"pod, unstructured":      {object("v1", "Pod"), Kind{}},
		"node, unstructured":     {object("v1", "Node"), Kind{}},
		"another typed object":   {&corev1.Service{}, Kind{}},
		"no kind":                {object("v1", nil), Kind{}},
		"kind is not a string":   {object("v1", int64(1)), Kind{}},
		"config map of v1":       {object("v1", "ConfigMap"), Kind{APIVersion: "v1", Kind: "ConfigMap"}},
		"pod of another group":   {object("example.com/v1", "Pod"), Kind{APIVersion: "example.com/v1", Kind: "Pod"}},
		"an object with nothing": {&unstructured.Unstructured{}, Kind{}},
	} {
		if got := KindOf(c.object); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// TestStrategicMergeKinds checks for which kinds the API merges lists by key. A stage with such a patch of a custom
// resource is rejected when it is loaded; one of an unknown group of Kubernetes is not.
func TestStrategicMergeKinds(t *testing.T) {
	for kind, c := range map[Kind]struct{ known, rejected bool }{
		KindPod: {true, false},
		{APIVersion: "apps/v1", Kind: "StatefulSet"}:                {true, false},
		{APIVersion: "storage.k8s.io/v1", Kind: "VolumeAttachment"}: {true, false},
		{APIVersion: "storage.k8s.io/v9", Kind: "Future"}:           {false, false},
		{APIVersion: "apps/v9", Kind: "Future"}:                     {false, false},
		kindWidget:                                                  {false, true},
		{APIVersion: "apps.kruise.io/v1alpha1", Kind: "CloneSet"}:   {false, true},
	} {
		if got := GoType(kind) != nil; got != c.known {
			t.Errorf("%s: known %v, want %v", kind, got, c.known)
		}
		if got := noStrategic(kind); got != c.rejected {
			t.Errorf("%s: rejected %v, want %v", kind, got, c.rejected)
		}
	}
	if names := KindNames("batch/v1"); !slices.Equal(names, []string{"Job", "CronJob"}) {
		t.Errorf("batch/v1: %v", names)
	}
	if names := KindNames("example.com/v1"); len(names) != 0 {
		t.Errorf("example.com/v1: %v", names)
	}
}
