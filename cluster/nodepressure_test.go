package cluster_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rehearse-k8s/rehearse/cluster"
)

// TestNodePressure: a node below its eviction threshold evicts the pod that uses more than it requests, although another
// one uses more memory; its ReplicaSet makes a new pod, which the scheduler binds to the other node because of the taint
// of the condition; afterwards the condition ends.
func TestNodePressure(t *testing.T) {
	t.Parallel()
	c := startCluster(t, cluster.Options{Name: "pressure", Nodes: 2})
	k, err := client.New(c.RESTConfig(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	patch := func(o client.Object, body string) {
		t.Helper()
		if err := k.Patch(t.Context(), o, client.RawPatch(types.MergePatchType, []byte(body))); err != nil {
			t.Fatal(err)
		}
	}
	cordon := func(node string, off bool) {
		n := &corev1.Node{}
		n.Name = node
		patch(n, fmt.Sprintf(`{"spec":{"unschedulable":%t}}`, off))
	}
	pods := func(app string) (all []corev1.Pod) {
		t.Helper()
		list := &corev1.PodList{}
		if err := k.List(t.Context(), list, client.InNamespace("default"), client.MatchingLabels{"app": app}); err != nil {
			t.Fatal(err)
		}
		return list.Items
	}
	running := func(app, node string) {
		t.Helper()
		await(t, app+" runs on "+node, func() error {
			for _, p := range pods(app) {
				if p.Status.Phase == corev1.PodRunning && p.Spec.NodeName == node {
					return nil
				}
			}
			return errors.New("it does not")
		})
	}
	pressure := func(want corev1.ConditionStatus, tainted bool) {
		t.Helper()
		await(t, fmt.Sprintf("MemoryPressure is %s, tainted %t", want, tainted), func() error {
			n := &corev1.Node{}
			if err := k.Get(t.Context(), client.ObjectKey{Name: "node-0"}, n); err != nil {
				return err
			}
			i := slices.IndexFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == corev1.NodeMemoryPressure })
			has := slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeMemoryPressure })
			if i < 0 || n.Status.Conditions[i].Status != want || has != tainted {
				return fmt.Errorf("%+v %+v", n.Status.Conditions, n.Spec.Taints)
			}
			return nil
		})
	}

	cordon("node-1", true)
	for _, d := range []struct{ app, requests, uses string }{{"greedy", "1Gi", "2Gi"}, {"modest", "800Gi", "700Gi"}} {
		create(t, k, fmt.Sprintf(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: %[1]s, namespace: default}
spec:
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata: {labels: {app: %[1]s}, annotations: {kwok.x-k8s.io/usage-memory: %[3]s}}
    spec: {containers: [{name: main, image: web, resources: {requests: {memory: %[2]s}}}]}
`, d.app, d.requests, d.uses))
		running(d.app, "node-0")
	}
	cordon("node-1", false)
	node := &corev1.Node{}
	node.Name = "node-0"
	patch(node, `{"metadata":{"annotations":{"rehearse-k8s.github.io/eviction-hard":"memory.available<400Gi","rehearse-k8s.github.io/eviction-pressure-transition-period":"30s"}}}`)
	pressure(corev1.ConditionFalse, false)

	first := pods("greedy")[0]
	patch(&first, `{"metadata":{"annotations":{"kwok.x-k8s.io/usage-memory":"200Gi"}}}`)
	running("greedy", "node-1")
	pressure(corev1.ConditionTrue, true)
	evicted := &corev1.Pod{}
	if err := k.Get(t.Context(), client.ObjectKeyFromObject(&first), evicted); err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	if s := evicted.Status; s.Phase != corev1.PodFailed || s.Reason != "Evicted" || !strings.Contains(s.Message, "Threshold quantity: 400Gi, available: 124Gi. Container main was using 200Gi, request is 1Gi") {
		t.Errorf("%+v", s)
	}
	if i := slices.IndexFunc(evicted.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.DisruptionTarget }); i < 0 ||
		evicted.Status.Conditions[i].Reason != corev1.PodReasonTerminationByKubelet || evicted.Status.Conditions[i].Message != evicted.Status.Message {
		t.Errorf("%+v", evicted.Status.Conditions)
	}
	await(t, "the events", func() error {
		list := &corev1.EventList{}
		if err := k.List(t.Context(), list); err != nil {
			return err
		}
		for _, reason := range []string{"EvictionThresholdMet", "NodeHasInsufficientMemory", "Evicted"} {
			if !slices.ContainsFunc(list.Items, func(e corev1.Event) bool { return e.Reason == reason }) {
				return fmt.Errorf("none has the reason %s", reason)
			}
		}
		return nil
	})
	if modest := pods("modest"); len(modest) != 1 || modest[0].Status.Phase != corev1.PodRunning {
		t.Errorf("%+v", modest)
	}
	pressure(corev1.ConditionFalse, false)
}
