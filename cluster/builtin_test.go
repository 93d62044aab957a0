package cluster_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rehearse-k8s/rehearse/cluster"
)

// generalPods are pods that the general stages play in parallel, without the delays of the stages, and the
// final state of each.
var generalPods = []struct {
	name, annotations, spec string
	want                    string
}{
	{"plain", "", "containers: [{name: app, image: a}]", "Running Ready"},
	{"init", "", "initContainers: [{name: setup, image: a}, {name: proxy, image: a, restartPolicy: Always}]\n  containers: [{name: app, image: a}]", "Running Ready"},
	{"fails", `, rehearse-k8s.github.io/run-for: 1s, rehearse-k8s.github.io/exit-code: "3"`, "restartPolicy: Never\n  containers: [{name: app, image: a}]", "Failed app=Error/3"},
	{"oom", `, rehearse-k8s.github.io/run-for: 1s, rehearse-k8s.github.io/exit-code: OOMKilled`, "restartPolicy: Never\n  containers: [{name: app, image: a}]", "Failed app=OOMKilled/137"},
	{"crashes", `, rehearse-k8s.github.io/run-for: 1s, rehearse-k8s.github.io/exit-code: "1"`, "containers: [{name: app, image: a}]", "Running app=CrashLoopBackOff restarts=1"},
	{"pulls", `, rehearse-k8s.github.io/image-pull-fails: "true"`, "containers: [{name: app, image: a}]", "Pending app=ImagePullBackOff"},
	{"late", "", "activeDeadlineSeconds: 2\n  containers: [{name: app, image: a}]", "Failed DeadlineExceeded"},
	{"evicted", ", rehearse-k8s.github.io/evict: memory", "containers: [{name: app, image: a}]", "Failed Evicted"},
}

// statusWords are the texts in a pod's status for which a test may wait.
func statusWords(p *corev1.Pod) string {
	words := []string{string(p.Status.Phase), p.Status.Reason}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			words = append(words, "Ready")
		}
	}
	for _, s := range p.Status.ContainerStatuses {
		switch {
		case s.State.Waiting != nil:
			words = append(words, s.Name+"="+s.State.Waiting.Reason)
		case s.State.Terminated != nil:
			words = append(words, fmt.Sprintf("%s=%s/%d", s.Name, s.State.Terminated.Reason, s.State.Terminated.ExitCode))
		}
		if s.RestartCount > 0 {
			words = append(words, fmt.Sprintf("restarts=%d", s.RestartCount))
		}
	}
	return strings.Join(words, " ")
}

func says(p *corev1.Pod, want string) bool {
	have := " " + statusWords(p) + " "
	for _, word := range strings.Fields(want) {
		if !strings.Contains(have, " "+word+" ") {
			return false
		}
	}
	return true
}

// watchForward fails the test if a pod's status returns to an earlier phase.
func watchForward(t *testing.T, k client.WithWatch) {
	t.Helper()
	events, err := k.Watch(t.Context(), &corev1.PodList{}, client.InNamespace("default"))
	if err != nil {
		t.Fatal(err)
	}
	var done sync.WaitGroup
	t.Cleanup(func() { events.Stop(); done.Wait() })
	done.Go(func() {
		rank := map[corev1.PodPhase]int{corev1.PodRunning: 1, corev1.PodSucceeded: 2, corev1.PodFailed: 2}
		last := map[types.UID]*corev1.Pod{}
		for e := range events.ResultChan() {
			p, ok := e.Object.(*corev1.Pod)
			if !ok {
				continue
			}
			if before := last[p.UID]; before != nil {
				if rank[p.Status.Phase] < rank[before.Status.Phase] || before.Status.PodIP != "" && p.Status.PodIP != before.Status.PodIP {
					t.Errorf("pod %s went from %s %s to %s %s", p.Name, before.Status.Phase, before.Status.PodIP, p.Status.Phase, p.Status.PodIP)
				}
			}
			last[p.UID] = p
		}
	})
}

func TestBuiltinGeneral(t *testing.T) {
	c := startCluster(t, cluster.Options{
		Nodes: 1,
		StageFiles: []string{
			"builtin:node-fast", "builtin:node-chaos", "builtin:pod-general", "builtin:pod-chaos", "builtin:volume-fast",
		},
	})
	k, err := client.NewWithWatch(c.RESTConfig(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	watchForward(t, k)
	var noDelay []string
	for _, stage := range []string{"pod-create", "pod-init-container-running", "pod-init-container-completed", "pod-ready", "pod-complete", "pod-image-pull-failed", "pod-image-pull-backoff"} {
		noDelay = append(noDelay, stage+`.stage.kwok.x-k8s.io/delay: "0s"`)
	}
	for _, p := range generalPods {
		create(t, k, fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {name: %s, namespace: default, annotations: {%s%s}}\nspec:\n  nodeName: node-0\n  %s",
			p.name, strings.Join(noDelay, ", "), p.annotations, p.spec))
	}
	pod := func(name string) (*corev1.Pod, error) {
		p := &corev1.Pod{}
		return p, k.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: name}, p)
	}
	awaitPod := func(name, want string) {
		t.Helper()
		await(t, name+" is "+want, func() error {
			p, err := pod(name)
			if err == nil && !says(p, want) {
				err = fmt.Errorf("it is %s", statusWords(p))
			}
			return err
		})
	}
	for _, p := range generalPods {
		awaitPod(p.name, p.want)
	}

	// A pod that was marked while its node was not ready is Ready again after the node is, and not before.
	label(t, k, &corev1.Node{}, "node-0", "node-not-ready.stage.kwok.x-k8s.io", "true", `"node-not-ready.stage.kwok.x-k8s.io/duration": "5s"`)
	nodeReady := func(want corev1.ConditionStatus) error {
		n := &corev1.Node{}
		err := k.Get(t.Context(), client.ObjectKey{Name: "node-0"}, n)
		for _, c := range n.Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status != want {
				err = fmt.Errorf("its Ready is %s", c.Status)
			}
		}
		return err
	}
	await(t, "the node is not Ready", func() error { return nodeReady(corev1.ConditionFalse) })
	marked := &corev1.Pod{}
	marked.Name, marked.Namespace = "plain", "default"
	if err := k.Status().Patch(t.Context(), marked, client.RawPatch(types.StrategicMergePatchType,
		[]byte(`{"status": {"conditions": [{"type": "Ready", "status": "False"}]}}`))); err != nil {
		t.Fatal(err)
	}
	awaitPod("plain", "Running Ready")
	if err := nodeReady(corev1.ConditionTrue); err != nil {
		t.Errorf("the pod is Ready and its node is not: %v", err)
	}

	p, err := pod("plain")
	if err != nil {
		t.Fatal(err)
	}
	if err := k.Delete(t.Context(), p, client.GracePeriodSeconds(2)); err != nil {
		t.Fatal(err)
	}
	await(t, "plain is gone", func() error {
		_, err := pod("plain")
		if err == nil {
			return fmt.Errorf("it is there")
		}
		return client.IgnoreNotFound(err)
	})
	volumes(t, k)
}

func label(t *testing.T, k client.Client, o client.Object, name, key, value, annotations string) {
	t.Helper()
	o.SetName(name)
	patch := fmt.Sprintf(`{"metadata": {"labels": {%q: %q}, "annotations": {%s}}}`, key, value, annotations)
	if err := k.Patch(t.Context(), o, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		t.Fatal(err)
	}
}

// volumes: a claim gets its own volume, which is deleted with the claim.
func volumes(t *testing.T, k client.Client) {
	create(t, k, "apiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: {name: simulated}\nprovisioner: rehearse-k8s.github.io/volume")
	create(t, k, "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: data, namespace: default}\n"+
		"spec: {storageClassName: simulated, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}")
	claim := &corev1.PersistentVolumeClaim{}
	await(t, "the claim is bound", func() error {
		err := k.Get(context.Background(), client.ObjectKey{Namespace: "default", Name: "data"}, claim)
		if err == nil && claim.Status.Phase != corev1.ClaimBound {
			err = fmt.Errorf("it is %s", claim.Status.Phase)
		}
		return err
	})
	if err := k.Delete(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
	await(t, "the volume is gone", func() error {
		err := k.Get(context.Background(), client.ObjectKey{Name: claim.Spec.VolumeName}, &corev1.PersistentVolume{})
		if err == nil {
			return fmt.Errorf("it is there")
		}
		if !apierrors.IsNotFound(err) {
			return err
		}
		return nil
	})
}
