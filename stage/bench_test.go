package stage

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// BenchmarkDecide is the cost of one event: the newest object in, what is next
// out. A running pod that nothing happens to is by far the most frequent case.
func BenchmarkDecide(b *testing.B) {
	set := mustBuiltin(b, "node-fast", "node-heartbeat", "pod-fast")
	slow := mustCompile(b, `
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: jq}
spec:
  resourceRef: {kind: Pod}
  selector:
    matchExpressions:
    - {key: '.spec.containers | length', operator: In, values: ["9"]}
  next: {delete: true}
`)
	general := mustFile(b, "general.yaml")
	kubelet := mustBuiltin(b, "pod-general")
	waiting := playedUntil(b, kubelet, "pod-container-restarted", newPod(said(annotationRunFor, "2s", annotationExitCode, "1")))
	custom := mustCompile(b, widgetStage(`  weightFrom: {jq: {expression: .spec.weight}}
  delay: {durationFrom: {jq: {expression: .spec.delay}}}
  next: {delete: true}`)+"\n---\n"+strings.NewReplacer("name: s", "name: t", "{}", `{matchLabels: {a: b}, matchExpressions: [{key: '.status.conditions[] | select(.type == "Ready") | .status', operator: In, values: ["True"]}]}`).Replace(widgetStage("  next: {delete: true}")))
	cel := mustCompile(b, head+`spec: {resourceRef: {kind: Pod}, selector: {matchExpressions: [{cel: {expression: "self.status.phase == 'Running'"}}]}, next: {delete: true}}`)
	for _, c := range []struct {
		name   string
		set    *Set
		object Object
		// json is true where the set needs the object's JSON.
		json bool
	}{
		{"fast, pod at rest", set, newPod(running), false},
		{"fast, pod pending", set, newPod(), false},
		{"fast, pod of a job running", set, newPod(running, ofJob), false},
		{"fast, pod deleting", set, newPod(running, deleting), false},
		{"fast, node at rest", set, newNode(func(n *corev1.Node) { n.Status.Conditions = healthyNode; n.Status.Phase = "Running" }), false},
		{"general, pod at rest", general, newPod(running), false},
		{"general, pod pending", general, newPod(sidecar), false},
		{"general, pod of a job running", general, newPod(running, ofJob), false},
		{"general, pod deleting", general, newPod(running, deleting, sidecar), false},
		{"pod-general, pod pending", kubelet, newPod(sidecar), false},
		{"pod-general, pod starting", kubelet, playedUntil(b, kubelet, "pod-ready", newPod(sidecar)), false},
		{"pod-general, pod at rest", kubelet, playedUntil(b, kubelet, "", newPod(sidecar)), false},
		{"pod-general, pod of a job running", kubelet, playedUntil(b, kubelet, "pod-complete", newPod(ofJob)), false},
		{"pod-general, pod crash looping", kubelet, waiting, false},
		{"pod-general, pod deleting", kubelet, newPod(running, deleting, sidecar), false},
		{"custom resource", custom, widget(b, "spec: {weight: 3, delay: 5s}\nstatus: {conditions: [{type: Ready, status: \"True\"}]}"), false},
		{"pod, jq on JSON", slow, newPod(running), true},
		{"pod, CEL", cel, newPod(running), true},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			decide := func() { c.set.Decide(start, 1, c.object, Past{}, Scene{NodeReady: true}) }
			if n := testing.AllocsPerRun(100, decide); n > 0 && !c.json {
				b.Errorf("%v allocations", n)
			}
			for b.Loop() {
				decide()
			}
		})
	}
}

// playedUntil is a pod for which a stage is next; "" for none.
func playedUntil(t testing.TB, set *Set, next string, p *corev1.Pod) *corev1.Pod {
	t.Helper()
	now := start
	for range 20 {
		d := set.Decide(now, 1, p, Past{}, Scene{NodeReady: true})
		if d.Stage == next {
			return p
		}
		if d.Due.After(now) {
			now = d.Due
		}
		e, err := set.Play(now, p, d, fixedFacts{})
		if err != nil {
			t.Fatal(err)
		}
		p = e.Object.(*corev1.Pod)
	}
	t.Fatalf("%s is never next", next)
	return nil
}

func mustFile(t testing.TB, name string) *Set {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "stages", name))
	if err != nil {
		t.Fatal(err)
	}
	return mustCompile(t, string(data))
}

// BenchmarkPlayGeneral is the cost of computing the new status: by a Kubelet step, and by rendering a
// template that calls the step.
func BenchmarkPlayGeneral(b *testing.B) {
	set := mustBuiltin(b, "pod-general")
	stages, err := Builtin("pod-general")
	if err != nil {
		b.Fatal(err)
	}
	for i := range stages {
		if text := &stages[i].Spec.Next.StatusTemplate; *text != "" {
			*text = "{{ $now := Now }}\n" + *text
		}
	}
	rendered, err := Compile(stages)
	if err != nil {
		b.Fatal(err)
	}
	for _, c := range []struct {
		stage string
		pod   *corev1.Pod
	}{
		{"pod-create", newPod(sidecar)},
		{"pod-init-container-running", newPod(sidecar)},
		{"pod-init-container-completed", newPod(sidecar)},
		{"pod-ready", newPod(sidecar)},
		{"pod-complete", newPod(ofJob)},
		{"pod-container-restarted", newPod(said(annotationRunFor, "2s", annotationExitCode, "1"))},
	} {
		p := playedUntil(b, set, c.stage, c.pod)
		for name, set := range map[string]*Set{"step": set, "template": rendered} {
			b.Run(c.stage+"/"+name, func(b *testing.B) {
				d := set.Decide(start, 1, p, Past{}, Scene{})
				b.ReportAllocs()
				for b.Loop() {
					if _, err := set.Play(start.Add(time.Hour), p, d, fixedFacts{}); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

func BenchmarkLoad(b *testing.B) {
	data, err := BuiltinFile("pod-fast")
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Load("f", data); err != nil {
			b.Fatal(err)
		}
	}
}
