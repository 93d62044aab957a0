// Package stagetest creates the objects that the tests of the stage packages play stages on: pods and nodes as
// the scheduler leaves them, pods in the middle of their lifecycle, and random ones.
//
// It is for tests only. Everything it returns is new, so that a test may change it.
//
// It is not a library of assertions; each test says itself what it expects.
//
// Floor: F1. Imports stage/kubelet, rapid, k8s.io/api and apimachinery.
package stagetest

import (
	"fmt"
	"time"

	"github.com/rehearse-k8s/rehearse/internal/stage/kubelet"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Start is the first moment of every test.
var Start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// Facts answers every question the same way.
type Facts struct{}

func (Facts) NodeIPs(node string) ([]string, error) {
	if node == "dual" {
		return []string{"10.64.0.9", "fd00::9"}, nil
	}
	return []string{"10.64.0.7"}, nil
}

func (Facts) PodIPs(uid types.UID, _ string) ([]string, error) {
	if uid == "homeless" {
		return nil, fmt.Errorf("no free pod address in 10.0.0.0/30")
	}
	return []string{"10.128.0.11"}, nil
}
func (Facts) NodePort() int        { return 10250 }
func (Facts) Version() string      { return "v1.36.3" }
func (Facts) StartTime() time.Time { return Start.Add(-time.Hour) }

// NewPod is a bound pod as the scheduler leaves it.
func NewPod(change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "web", Namespace: "default", UID: "uid-web", ResourceVersion: "10", Generation: 1,
			CreationTimestamp: metav1.NewTime(Start.Add(-time.Minute)),
		},
		Spec: corev1.PodSpec{NodeName: "node-1", Containers: []corev1.Container{{Name: "app", Image: "nginx:1.27"}}},
		Status: corev1.PodStatus{
			Phase: corev1.PodPending, QOSClass: corev1.PodQOSBestEffort,
			Conditions: []corev1.PodCondition{{
				Type: corev1.PodScheduled, Status: corev1.ConditionTrue, ObservedGeneration: 1,
				LastTransitionTime: metav1.NewTime(Start.Add(-30 * time.Second)),
			}},
		},
	}
	for _, c := range change {
		c(p)
	}
	return p
}

func NewNode(change ...func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1", UID: "uid-node", ResourceVersion: "5"}}
	for _, c := range change {
		c(n)
	}
	return n
}

func Deleting(p *corev1.Pod) {
	at := metav1.NewTime(Start.Add(20 * time.Second))
	grace := int64(30)
	p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &at, &grace
}

func WithFinalizer(p *corev1.Pod) { p.Finalizers = []string{"example.com/hold"} }

func OwnedByJob(p *corev1.Pod) {
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: "j", UID: "uid-job"}}
}

// Running is the pod after pod-ready.
func Running(p *corev1.Pod) {
	if err := kubelet.NewStep("run")(p, kubelet.Moment{Now: Start.Add(-10 * time.Second), Addresses: Facts{}}); err != nil {
		panic(err)
	}
}
