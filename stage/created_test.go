package stage

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rehearse-k8s/rehearse/internal/stage/stagetest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"
)

// TestCreatedSetsTheDefaultsOfTheServer checks what an object of a file gets before stages are played on it.
func TestCreatedSetsTheDefaultsOfTheServer(t *testing.T) {
	now := stagetest.Start.Add(300 * time.Millisecond)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
	p := Created(pod, now).(*corev1.Pod)
	want := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "web", Namespace: "default", UID: p.UID, ResourceVersion: "1", Generation: 1, CreationTimestamp: metav1.NewTime(stagetest.Start),
		},
		Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyAlways, NodeName: "node-0"},
		Status: corev1.PodStatus{
			Phase: corev1.PodPending, QOSClass: corev1.PodQOSBestEffort,
			Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(stagetest.Start)}},
		},
	}
	if diff := cmp.Diff(want, p); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if len(p.UID) != 36 {
		t.Errorf("UID %q", p.UID)
	}
	if pod.UID != "" || pod.Status.Phase != "" {
		t.Error("the object of the file has changed")
	}
	n := Created(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}, now).(*corev1.Node)
	if n.Namespace != "" || n.ResourceVersion != "1" || n.Generation != 1 || n.UID == "" {
		t.Errorf("node: %+v", n.ObjectMeta)
	}
}

// TestCreatedKeepsWhatTheFileHas checks that defaults replace nothing, and that creating twice changes nothing.
func TestCreatedKeepsWhatTheFileHas(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := stagetest.DrawPod(t)
		once := Created(p, stagetest.Start)
		if diff := cmp.Diff(once, Created(once, stagetest.Start.Add(time.Hour))); diff != "" {
			t.Fatalf("created again: %s", diff)
		}
		for _, c := range Changes(p, once) {
			if c.Before != nil && c.Before != "" && c.Path != "metadata.generation" {
				t.Fatalf("replaced %s", c)
			}
		}
	})
}

// TestUIDsOfFilesAreStable checks that the UID depends on kind, namespace and name, and on nothing else: the draws of a
// lifecycle are keyed by it.
func TestUIDsOfFilesAreStable(t *testing.T) {
	uid := func(o Object) types.UID { return Created(o, stagetest.Start).GetUID() }
	pod := func(namespace, name string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	}
	first := uid(pod("a", "b"))
	other := pod("a", "b")
	other.Labels = map[string]string{"x": "y"}
	if uid(other) != first {
		t.Error("a label changes the UID")
	}
	seen := map[types.UID]string{first: "pod a/b"}
	for name, o := range map[string]Object{
		"another name": pod("a", "c"), "another namespace": pod("c", "b"), "another kind": &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "b", Namespace: "a"}},
		"widget": func() Object { w := widget(t, ""); w.SetUID(""); return w }(),
	} {
		id := uid(o)
		if seen[id] != "" {
			t.Errorf("%s has the UID of %s", name, seen[id])
		}
		seen[id] = name
	}
}

func TestObjectFromRejectsWhatDoesNotFit(t *testing.T) {
	for name, c := range map[string]struct {
		values map[string]any
		want   string // the error
	}{
		"pod":             {map[string]any{"apiVersion": "v1", "kind": "Pod", "spec": map[string]any{"nodeName": "n"}}, ""},
		"node":            {map[string]any{"apiVersion": "v1", "kind": "Node", "status": map[string]any{"phase": "Running"}}, ""},
		"custom resource": {map[string]any{"apiVersion": "example.com/v1", "kind": "Widget", "spec": int64(7)}, ""},
		"node's taint":    {map[string]any{"apiVersion": "v1", "kind": "Node", "spec": map[string]any{"taints": []any{map[string]any{"key": true}}}}, "spec.taints[0].key: want string, got boolean true (quote it)"},
		"node's capacity": {map[string]any{"apiVersion": "v1", "kind": "Node", "status": map[string]any{"capacity": map[string]any{"cpu": map[string]any{}}}}, "status.capacity.cpu: cannot read object as Quantity"},
		"node's labels":   {map[string]any{"apiVersion": "v1", "kind": "Node", "metadata": map[string]any{"labels": []any{"a"}}}, "metadata.labels: want object, got list"},
		"unknown fields":  {map[string]any{"apiVersion": "v1", "kind": "Node", "status": map[string]any{"unknown": []any{"a"}}}, ""},
		"null":            {map[string]any{"apiVersion": "v1", "kind": "Node", "status": nil}, ""},
	} {
		o, err := ObjectFrom(c.values)
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case c.want == "" && KindOf(o).Kind != c.values["kind"]:
			t.Errorf("%s: is a %s", name, KindOf(o))
		case c.want != "" && (err == nil || len(err.Error()) < len(c.want) || err.Error()[:len(c.want)] != c.want):
			t.Errorf("%s: got %v, want %s", name, err, c.want)
		}
	}
}

// TestObjectsKeepTheirValues checks that a pod becomes values and a pod again without a loss.
func TestObjectsKeepTheirValues(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var o Object = stagetest.DrawPod(t)
		kind := KindPod
		if rapid.Bool().Draw(t, "node") {
			o, kind = stagetest.DrawNode(t), KindNode
		}
		values := ValuesOf(o)
		back, err := ObjectOf(values, kind)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(values, ValuesOf(back)); diff != "" {
			t.Fatalf("(-before +after)\n%s", diff)
		}
	})
}

// TestDeletionRequests checks what the API server does with a DELETE request: the grace period of a pod, and when an
// object is gone at once.
func TestDeletionRequests(t *testing.T) {
	now := stagetest.Start.Add(900 * time.Millisecond)
	for name, c := range map[string]struct {
		object Object
		gone   bool
		grace  int64
	}{
		"running pod":          {stagetest.NewPod(stagetest.Running), false, 30},
		"pod's own grace":      {stagetest.NewPod(func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = ptr.To[int64](5) }), false, 5},
		"no grace":             {stagetest.NewPod(func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = ptr.To[int64](0) }), true, 0},
		"negative grace":       {stagetest.NewPod(func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = ptr.To[int64](-1) }), true, 0},
		"pod without a node":   {stagetest.NewPod(func(p *corev1.Pod) { p.Spec.NodeName = "" }), true, 0},
		"succeeded pod":        {stagetest.NewPod(func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }), true, 0},
		"failed pod":           {stagetest.NewPod(func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }), true, 0},
		"failed, finalizer":    {stagetest.NewPod(stagetest.WithFinalizer, func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }), false, 0},
		"node":                 {stagetest.NewNode(), true, 0},
		"node with finalizer":  {stagetest.NewNode(func(n *corev1.Node) { n.Finalizers = []string{"f"} }), false, 0},
		"widget":               {widget(t, ""), true, 0},
		"widget and finalizer": {widget(t, "metadata: {name: w, resourceVersion: '7', finalizers: [f]}"), false, 0},
	} {
		before := ValuesOf(c.object)
		after := RequestDeletion(c.object, now)
		if diff := cmp.Diff(before, ValuesOf(c.object)); diff != "" {
			t.Errorf("%s: the object before has changed: %s", name, diff)
		}
		if (after == nil) != c.gone {
			t.Errorf("%s: gone %v", name, after == nil)
		}
		if after == nil {
			continue
		}
		if g := after.GetDeletionGracePeriodSeconds(); g == nil || *g != c.grace {
			t.Errorf("%s: grace period %v", name, g)
		}
		if at := after.GetDeletionTimestamp(); !at.Equal(ptr.To(metav1.NewTime(stagetest.Start.Add(time.Duration(c.grace) * time.Second)))) {
			t.Errorf("%s: deletion at %s", name, at)
		}
		if after.GetResourceVersion() == c.object.GetResourceVersion() {
			t.Errorf("%s: the version is still %s", name, after.GetResourceVersion())
		}
		if again := RequestDeletion(after, now.Add(time.Hour)); again != after {
			t.Errorf("%s: a second request changes the object", name)
		}
	}
}

// TestStandInAnswersWithoutACluster checks the values that `stage play` puts into templates.
func TestStandInAnswersWithoutACluster(t *testing.T) {
	var facts Facts = StandIn{Start: stagetest.Start}
	set := mustCompile(t, head+`spec: {resourceRef: {kind: Pod}, selector: {}, next: {statusTemplate: "{podIP: {{ PodIP }}, hostIP: {{ NodeIPWith .spec.nodeName }}, reason: {{ Version }}}"}}`)
	p := stagetest.NewPod()
	d := set.Decide(stagetest.Start, 1, p, Past{}, Scene{})
	outcome, err := set.Preview(stagetest.Start, p, d, facts)
	if err != nil {
		t.Fatal(err)
	}
	status := outcome.After.(*corev1.Pod).Status
	if status.PodIP != "10.128.0.1" || status.HostIP != "10.16.0.1" || status.Reason != "v0.0.0" {
		t.Errorf("got %+v", status)
	}
	if facts.NodePort() != 0 || !facts.StartTime().Equal(stagetest.Start) {
		t.Errorf("port %d, start %s", facts.NodePort(), facts.StartTime())
	}
}
