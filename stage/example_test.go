package stage_test

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rehearse-k8s/rehearse/stage"
)

// startPods is a stage that starts pending pods after five seconds.
const startPods = `
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: pod-start}
spec:
  resourceRef: {kind: Pod}
  selector:
    matchExpressions:
    - {key: .status.phase, operator: In, values: [Pending]}
  delay: {durationMilliseconds: 5000}
  next:
    event: {type: Normal, reason: Started}
    statusTemplate: |
      phase: Running
      podIP: {{ PodIP }}
`

func pendingPod() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default", UID: "uid-web", ResourceVersion: "10"},
		Spec:       corev1.PodSpec{NodeName: "node-0", Containers: []corev1.Container{{Name: "app", Image: "app:1"}}},
		Status:     corev1.PodStatus{Phase: corev1.PodPending},
	}
}

// Load and Compile read a file of stages; Decide says which stage is next for an object, when, and why.
func ExampleSet_Decide() {
	stages, err := stage.Load("stages.yaml", []byte(startPods))
	if err != nil {
		fmt.Println(err)
		return
	}
	set, err := stage.Compile(stages)
	if err != nil {
		fmt.Println(err)
		return
	}
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	pod := pendingPod()
	decision := set.Decide(now, 1, pod, stage.Past{}, stage.Scene{})
	fmt.Println(decision.String())
	fmt.Println("due at", decision.Due.Format(time.TimeOnly), "on version", decision.ResourceVersion)

	pod.Status.Phase = corev1.PodRunning
	decision = set.Decide(now, 1, pod, stage.Past{}, stage.Scene{})
	fmt.Println(decision.String())
	// Output:
	// pod-start after 5s: the only stage that matches
	// due at 12:00:05 on version 10
	// nothing: no stage matches
}

// Play computes what the chosen stage writes. It sends nothing and does not change the object.
func ExampleSet_Play() {
	stages, err := stage.Load("stages.yaml", []byte(startPods))
	if err != nil {
		fmt.Println(err)
		return
	}
	set, err := stage.Compile(stages)
	if err != nil {
		fmt.Println(err)
		return
	}
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	pod := pendingPod()
	decision := set.Decide(now, 1, pod, stage.Past{}, stage.Scene{})
	effects, err := set.Play(decision.Due, pod, decision, stage.StandIn{Start: now})
	if err != nil {
		fmt.Println(err)
		return
	}
	after := effects.Object.(*corev1.Pod)
	for _, change := range stage.Changes(pod, after) {
		fmt.Println(change)
	}
	fmt.Println("event:", effects.Events[0].Reason)
	fmt.Println("the object itself is still", pod.Status.Phase)
	// Output:
	// status.phase: Pending -> Running
	// status.podIP: 10.128.0.1
	// event: Started
	// the object itself is still Pending
}
