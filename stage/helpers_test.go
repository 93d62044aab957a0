package stage

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// start is the first moment of every test.
var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// fixedFacts answers every question the same way.
type fixedFacts struct{}

func (fixedFacts) NodeIPs(node string) ([]string, error) {
	if node == "dual" {
		return []string{"10.64.0.9", "fd00::9"}, nil
	}
	return []string{"10.64.0.7"}, nil
}

func (fixedFacts) PodIPs(uid types.UID, _ string) ([]string, error) {
	if uid == "homeless" {
		return nil, fmt.Errorf("no free pod address in 10.0.0.0/30")
	}
	return []string{"10.128.0.11"}, nil
}
func (fixedFacts) NodePort() int        { return 10250 }
func (fixedFacts) Version() string      { return "v1.36.3" }
func (fixedFacts) StartTime() time.Time { return start.Add(-time.Hour) }

// newPod is a bound pod as the scheduler leaves it.
func newPod(change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "web", Namespace: "default", UID: "uid-web", ResourceVersion: "10", Generation: 1,
			CreationTimestamp: metav1.NewTime(start.Add(-time.Minute)),
		},
		Spec: corev1.PodSpec{NodeName: "node-1", Containers: []corev1.Container{{Name: "app", Image: "nginx:1.27"}}},
		Status: corev1.PodStatus{
			Phase: corev1.PodPending, QOSClass: corev1.PodQOSBestEffort,
			Conditions: []corev1.PodCondition{{
				Type: corev1.PodScheduled, Status: corev1.ConditionTrue, ObservedGeneration: 1,
				LastTransitionTime: metav1.NewTime(start.Add(-30 * time.Second)),
			}},
		},
	}
	for _, c := range change {
		c(p)
	}
	return p
}

func newNode(change ...func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1", UID: "uid-node", ResourceVersion: "5"}}
	for _, c := range change {
		c(n)
	}
	return n
}

func deleting(p *corev1.Pod) {
	at := metav1.NewTime(start.Add(20 * time.Second))
	grace := int64(30)
	p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &at, &grace
}

func held(p *corev1.Pod) { p.Finalizers = []string{"example.com/hold"} }

func ofJob(p *corev1.Pod) {
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: "j", UID: "uid-job"}}
}

// running is the pod after pod-ready.
func running(p *corev1.Pod) {
	if err := kubeletStep("run")(p, moment{now: start.Add(-10 * time.Second), facts: fixedFacts{}}); err != nil {
		panic(err)
	}
}

func mustCompile(t testing.TB, yaml string) *Set {
	t.Helper()
	stages, err := Load("test.yaml", []byte(yaml))
	if err != nil {
		t.Fatal(err)
	}
	set, err := Compile(stages)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func mustBuiltin(t testing.TB, names ...string) *Set {
	t.Helper()
	stages, err := Builtin(names...)
	if err != nil {
		t.Fatal(err)
	}
	set, err := Compile(stages)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// builtinSets are the built-in files as they are used together: the fast pod
// stages or the general ones.
func builtinSets(t testing.TB) map[string]*Set {
	t.Helper()
	rest := []string{"node-fast", "node-heartbeat", "node-chaos", "pod-chaos", "volume-fast"}
	return map[string]*Set{
		"fast":    mustBuiltin(t, append(rest, "pod-fast")...),
		"general": mustBuiltin(t, append(rest, "pod-general")...),
	}
}
