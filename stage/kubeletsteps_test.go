package stage

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/rehearse-k8s/rehearse/internal/stage/kubelet"
	"github.com/rehearse-k8s/rehearse/internal/stage/render"
	"github.com/rehearse-k8s/rehearse/internal/stage/stagetest"
	"github.com/rehearse-k8s/rehearse/stage/expr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
)

// TestKubeletStepEqualsItsRenderedTemplate checks that a step changes the status as its rendered
// template would: a template that only calls Kubelet is not rendered.
func TestKubeletStepEqualsItsRenderedTemplate(t *testing.T) {
	for _, name := range kubelet.StepNames() {
		t.Run(name, func(t *testing.T) {
			template, err := render.Parse(`{{ Kubelet "`+name+`" . }}`, expr.Pod)
			if err != nil {
				t.Fatal(err)
			}
			slow := patch{template: template, kind: types.StrategicMergePatchType}
			fast := slow
			fast.step = kubelet.StepOf(`{{ Kubelet "` + name + `" . }}`)
			rapid.Check(t, func(t *rapid.T) { samePatches(t, KindPod, &fast, &slow) })
		})
	}
}

// TestBuiltinPodStagesCallKubelet checks that every status of a built-in pod stage comes from a
// Kubelet step, so that each status has one source.
func TestBuiltinPodStagesCallKubelet(t *testing.T) {
	for _, name := range []string{"pod-fast", "pod-general", "pod-chaos"} {
		set := mustBuiltin(t, name)
		for _, c := range set.pods {
			for _, op := range c.Operations {
				if op.patch != nil && op.patch.step == nil {
					t.Errorf("%s: %s is rendered", name, c.Name)
				}
			}
		}
	}
}

func samePatches(t *rapid.T, kind Kind, fast, slow *patch) {
	var o Object = stagetest.DrawPod(t)
	if kind == KindNode {
		o = stagetest.DrawNode(t)
	}
	m := render.Moment{Now: stagetest.Start, Facts: stagetest.Facts{}, Object: o}
	got, want := shallow(o), shallow(o)
	errFast, errSlow := fast.applyToStatus(got, kind, m), slow.applyToStatus(want, kind, m)
	if (errFast == nil) != (errSlow == nil) {
		t.Fatalf("code %v, template %v", errFast, errSlow)
	}
	if errFast != nil {
		return
	}
	options := cmp.Options{
		cmpopts.SortSlices(func(a, b corev1.PodCondition) bool { return a.Type < b.Type }),
		cmpopts.SortSlices(func(a, b corev1.NodeCondition) bool { return a.Type < b.Type }),
		cmpopts.SortSlices(func(a, b corev1.PodIP) bool { return a.IP < b.IP }),
		cmpopts.SortSlices(func(a, b corev1.HostIP) bool { return a.IP < b.IP }),
		cmpopts.EquateEmpty(),
	}
	switch got := got.(type) {
	case *corev1.Pod:
		if diff := cmp.Diff(want.(*corev1.Pod).Status, got.Status, options); diff != "" {
			t.Fatalf("status (-template +code):\n%s", diff)
		}
	case *corev1.Node:
		if diff := cmp.Diff(want.(*corev1.Node).Status, got.Status, options); diff != "" {
			t.Fatalf("status (-template +code):\n%s", diff)
		}
	}
}

// TestPlayLeavesTheObjectAlone checks that Play does not modify the object, which belongs to the
// informer's cache.
func TestPlayLeavesTheObjectAlone(t *testing.T) {
	sets := builtinSets(t)
	rapid.Check(t, func(t *rapid.T) {
		set := sets[rapid.SampledFrom([]string{"fast", "general"}).Draw(t, "set")]
		p := stagetest.DrawPod(t)
		before := p.DeepCopy()
		d := set.Decide(stagetest.Start, 1, p, Past{}, Scene{NodeReady: true})
		if _, err := set.Play(stagetest.Start, p, d, stagetest.Facts{}); err != nil && !badTime(p, err) {
			t.Fatal(err)
		}
		if !equality.Semantic.DeepEqual(before, p) {
			t.Fatalf("%s changed its object:\n%s", d.Stage, cmp.Diff(before, p))
		}
	})
}
