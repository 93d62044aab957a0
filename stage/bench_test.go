package stage

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rehearse-k8s/rehearse/internal/stage/kubelet"
	"github.com/rehearse-k8s/rehearse/internal/stage/stagetest"
	corev1 "k8s.io/api/core/v1"
)

// BenchmarkDecide measures one event: a decision on the newest version of an object. The most
// frequent case by far is a running pod for which no stage is due.
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
	podGeneral := mustBuiltin(b, "pod-general")
	waiting := playedUntil(b, podGeneral, "pod-container-restarted", stagetest.NewPod(said(kubelet.AnnotationRunFor, "2s", kubelet.AnnotationExitCode, "1")))
	custom := mustCompile(b, widgetStage(`  weightFrom: {jq: {expression: .spec.weight}}
  delay: {durationFrom: {jq: {expression: .spec.delay}}}
  next: {delete: true}`)+"\n---\n"+strings.NewReplacer("name: s", "name: t", "{}", `{matchLabels: {a: b}, matchExpressions: [{key: '.status.conditions[] | select(.type == "Ready") | .status', operator: In, values: ["True"]}]}`).Replace(widgetStage("  next: {delete: true}")))
	cel := mustCompile(b, head+`spec: {resourceRef: {kind: Pod}, selector: {matchExpressions: [{cel: {expression: "self.status.phase == 'Running'"}}]}, next: {delete: true}}`)
	for _, c := range []struct {
		name   string
		set    *Set
		object Object
		// whether the set needs the object as JSON
		json bool
	}{
		{"fast, pod idle", set, stagetest.NewPod(stagetest.Running), false},
		{"fast, pod pending", set, stagetest.NewPod(), false},
		{"fast, pod of a job running", set, stagetest.NewPod(stagetest.Running, stagetest.OwnedByJob), false},
		{"fast, pod deleting", set, stagetest.NewPod(stagetest.Running, stagetest.Deleting), false},
		{"fast, node idle", set, stagetest.NewNode(func(n *corev1.Node) {
			n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
			n.Status.Phase = "Running"
		}), false},
		{"general, pod idle", general, stagetest.NewPod(stagetest.Running), false},
		{"general, pod pending", general, stagetest.NewPod(sidecar), false},
		{"general, pod of a job running", general, stagetest.NewPod(stagetest.Running, stagetest.OwnedByJob), false},
		{"general, pod deleting", general, stagetest.NewPod(stagetest.Running, stagetest.Deleting, sidecar), false},
		{"pod-general, pod pending", podGeneral, stagetest.NewPod(sidecar), false},
		{"pod-general, pod starting", podGeneral, playedUntil(b, podGeneral, "pod-ready", stagetest.NewPod(sidecar)), false},
		{"pod-general, pod idle", podGeneral, playedUntil(b, podGeneral, "", stagetest.NewPod(sidecar)), false},
		{"pod-general, pod of a job running", podGeneral, playedUntil(b, podGeneral, "pod-complete", stagetest.NewPod(stagetest.OwnedByJob)), false},
		{"pod-general, pod crash looping", podGeneral, waiting, false},
		{"pod-general, pod deleting", podGeneral, stagetest.NewPod(stagetest.Running, stagetest.Deleting, sidecar), false},
		{"custom resource", custom, widget(b, "spec: {weight: 3, delay: 5s}\nstatus: {conditions: [{type: Ready, status: \"True\"}]}"), false},
		{"pod, jq on JSON", slow, stagetest.NewPod(stagetest.Running), true},
		{"pod, CEL", cel, stagetest.NewPod(stagetest.Running), true},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			decide := func() { c.set.Decide(stagetest.Start, 1, c.object, Past{}, Scene{NodeReady: true}) }
			if n := testing.AllocsPerRun(100, decide); n > 0 && !c.json {
				b.Errorf("%v allocations", n)
			}
			for b.Loop() {
				decide()
			}
		})
	}
}

// playedUntil returns a pod for which the named stage is next; "" means that no stage is.
func playedUntil(t testing.TB, set *Set, next string, p *corev1.Pod) *corev1.Pod {
	t.Helper()
	now := stagetest.Start
	for range 20 {
		d := set.Decide(now, 1, p, Past{}, Scene{NodeReady: true})
		if d.Stage == next {
			return p
		}
		if d.Due.After(now) {
			now = d.Due
		}
		e, err := set.Play(now, p, d, stagetest.Facts{})
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

// BenchmarkPlayGeneral measures the computation of the new status: with a Kubelet step, and with a
// rendered template that calls the step.
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
		{"pod-create", stagetest.NewPod(sidecar)},
		{"pod-init-container-running", stagetest.NewPod(sidecar)},
		{"pod-init-container-completed", stagetest.NewPod(sidecar)},
		{"pod-ready", stagetest.NewPod(sidecar)},
		{"pod-complete", stagetest.NewPod(stagetest.OwnedByJob)},
		{"pod-container-restarted", stagetest.NewPod(said(kubelet.AnnotationRunFor, "2s", kubelet.AnnotationExitCode, "1"))},
	} {
		p := playedUntil(b, set, c.stage, c.pod)
		for name, set := range map[string]*Set{"step": set, "template": rendered} {
			b.Run(c.stage+"/"+name, func(b *testing.B) {
				d := set.Decide(stagetest.Start, 1, p, Past{}, Scene{})
				b.ReportAllocs()
				for b.Loop() {
					if _, err := set.Play(stagetest.Start.Add(time.Hour), p, d, stagetest.Facts{}); err != nil {
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
