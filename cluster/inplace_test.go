package cluster_test

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rehearse-k8s/rehearse/api/kruise"
	"github.com/rehearse-k8s/rehearse/cluster"
)

const gatedPod = `
apiVersion: v1
kind: Pod
metadata:
  name: web
  namespace: default
  annotations: {pod-create.stage.kwok.x-k8s.io/delay: 0s, pod-ready.stage.kwok.x-k8s.io/delay: 0s, pod-container-renewed.stage.kwok.x-k8s.io/delay: 0s}
spec:
  nodeName: node-0
  terminationGracePeriodSeconds: 1
  readinessGates: [{conditionType: InPlaceUpdateReady}]
  containers:
  - {name: app, image: "app:1", resources: {requests: {cpu: 100m}}}
  - {name: log, image: "log:1"}
`

// TestInPlace updates a running pod as the controller of a CloneSet does, and checks every write that
// follows.
func TestInPlace(t *testing.T) {
	for file, renewal := range map[string]int{"pod-fast": 1, "pod-general": 2} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			c := startCluster(t, cluster.Options{
				Name: file, Nodes: 1, Controllers: []string{"stage", "serviceaccount-controller"},
				StageFiles: []string{"builtin:node-fast", "builtin:" + file},
			})
			k, err := client.NewWithWatch(c.RESTConfig(), client.Options{})
			if err != nil {
				t.Fatal(err)
			}
			changeInPlace(t, k, renewal)
		})
	}
}

// changeInPlace updates the pod. renewal is the number of writes of a container restart.
func changeInPlace(t *testing.T, k client.WithWatch, renewal int) {
	events, err := k.Watch(t.Context(), &corev1.PodList{}, client.InNamespace("default"))
	if err != nil {
		t.Fatal(err)
	}
	defer events.Stop()
	create(t, k, gatedPod)
	pod, before := &corev1.Pod{}, &corev1.Pod{}
	deadline := time.After(time.Minute)
	// until reads writes until a condition holds, and checks their number; -1: any number.
	until := func(what string, writes int, holds func() bool) {
		t.Helper()
		before = pod.DeepCopy()
		for n := 1; ; n++ {
			select {
			case e := <-events.ResultChan():
				p, ok := e.Object.(*corev1.Pod)
				if !ok || e.Type == watch.Deleted {
					t.Fatalf("%s: %s %v", what, e.Type, e.Object)
				}
				pod = p
			case <-deadline:
				t.Fatalf("%s does not come true: %+v", what, pod.Status)
			}
			if !holds() {
				continue
			}
			if writes >= 0 && n != writes {
				t.Errorf("%s: %d writes, want %d", what, n, writes)
			}
			return
		}
	}
	patch := func(subresource, format string, args ...any) {
		t.Helper()
		o := &corev1.Pod{}
		o.Name, o.Namespace = "web", "default"
		body := client.RawPatch(types.StrategicMergePatchType, fmt.Appendf(nil, format, args...))
		var err error
		if subresource == "" {
			err = k.Patch(t.Context(), o, body)
		} else {
			err = k.SubResource(subresource).Patch(t.Context(), o, body)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	gate := func(status string) {
		t.Helper()
		patch("status", `{"status":{"conditions":[{"type":%q,"status":%q}]}}`, kruise.ConditionInPlaceUpdateReady, status)
	}
	app := func(p *corev1.Pod) *corev1.ContainerStatus { return &p.Status.ContainerStatuses[0] }
	observed := func() bool { return pod.Status.ObservedGeneration == pod.Generation }

	until("the pod runs and waits for its gate", -1, func() bool {
		return says(pod, "Running") && isTrue(pod, corev1.ContainersReady) && !isTrue(pod, corev1.PodReady)
	})
	if isSet(pod, kruise.ConditionInPlaceUpdateReady) {
		t.Error("a stage has set the gate")
	}
	gate("True")
	until("the gate is open and the pod Ready", 2, func() bool { return isTrue(pod, corev1.PodReady) })
	patch("", `{"spec":{"containers":[{"name":"app","image":"app:2"}]}}`)
	until("the container runs with its new image", 1+renewal, func() bool { return app(pod).ImageID == "app:2" && isTrue(pod, corev1.PodReady) })
	checkRestarted(t, app(before), app(pod), 1)
	if !equality.Semantic.DeepEqual(before.Status.ContainerStatuses[1], pod.Status.ContainerStatuses[1]) {
		t.Errorf("the other container: %+v", pod.Status.ContainerStatuses[1])
	}

	patch("resize", `{"spec":{"containers":[{"name":"app","resources":{"requests":{"cpu":"200m"}}}]}}`)
	until("the container is resized", 2, func() bool { return observed() && app(pod).AllocatedResources.Cpu().String() == "200m" })
	if s := app(pod); s.RestartCount != 1 || s.Resources.Requests.Cpu().String() != "200m" {
		t.Errorf("after the resize: %+v", s)
	}

	patch("", `{"metadata":{"annotations":{%q:%q}}}`, kruise.AnnotationInPlaceState,
		fmt.Sprintf(`{"updateEnvFromMetadata":true,"lastContainerStatuses":{"app":{"containerID":%q}}}`, app(pod).ContainerID))
	until("the container has restarted", 1+renewal, func() bool { return app(pod).RestartCount == 2 && isTrue(pod, corev1.PodReady) })
	checkRestarted(t, app(before), app(pod), 2)
	gate("False")
	until("the gate is closed and the pod not Ready", 2, func() bool { return !isTrue(pod, corev1.PodReady) })
	if !isTrue(pod, corev1.ContainersReady) {
		t.Errorf("conditions %+v", pod.Status.Conditions)
	}
}

// checkRestarted checks the status of a container that has restarted.
func checkRestarted(t *testing.T, was, is *corev1.ContainerStatus, restarts int32) {
	t.Helper()
	last := is.LastTerminationState.Terminated
	if is.RestartCount != restarts || is.ContainerID == was.ContainerID || last == nil || last.ContainerID != was.ContainerID || !is.Ready {
		t.Errorf("a restarted container: %+v, was %+v", is, was)
	}
}

func isTrue(p *corev1.Pod, typ corev1.PodConditionType) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == typ {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

func isSet(p *corev1.Pod, typ corev1.PodConditionType) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == typ {
			return true
		}
	}
	return false
}
