package stage

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// BenchmarkDecide is the cost of one event: the newest object in, what is next
// out. A running pod that nothing happens to is by far the most frequent case.
func BenchmarkDecide(b *testing.B) {
	set := mustBuiltin(b, BuiltinNames()...)
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
	for _, c := range []struct {
		name   string
		set    *Set
		object Object
	}{
		{"pod at rest", set, newPod(running)},
		{"pod pending", set, newPod()},
		{"pod of a job running", set, newPod(running, ofJob)},
		{"pod deleting", set, newPod(running, deleting)},
		{"node at rest", set, newNode(func(n *corev1.Node) { n.Status.Conditions = healthyNode; n.Status.Phase = "Running" })},
		{"pod, jq on JSON", slow, newPod(running)},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				c.set.Decide(start, 1, c.object, Past{}, Scene{NodeReady: true})
			}
		})
	}
}

// BenchmarkPlay is the cost of making the new status, as Go code and from the
// template.
func BenchmarkPlay(b *testing.B) {
	fast := mustBuiltin(b, "pod-fast")
	stages, err := Builtin("pod-fast")
	if err != nil {
		b.Fatal(err)
	}
	for i := range stages {
		stages[i].Spec.Next.StatusTemplate += "\n"
	}
	stages[len(stages)-1].Spec.Next.StatusTemplate = ""
	slow, err := Compile(stages)
	if err != nil {
		b.Fatal(err)
	}
	for name, set := range map[string]*Set{"code": fast, "template": slow} {
		b.Run(name, func(b *testing.B) {
			p := newPod()
			d := set.Decide(start, 1, p, Past{}, Scene{})
			b.ReportAllocs()
			for b.Loop() {
				if _, err := set.Play(start, p, d, fixedFacts{}); err != nil {
					b.Fatal(err)
				}
			}
		})
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
