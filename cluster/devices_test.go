package cluster_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rehearse-k8s/rehearse/cluster"
)

// TestDevices: nodes publish devices, the scheduler allocates them to the claims of pods, and a deleted pod gives its device to
// one that waits.
func TestDevices(t *testing.T) {
	c := startCluster(t, cluster.Options{Nodes: 2, StageFiles: []string{"builtin:node-fast", "builtin:pod-fast", "builtin:node-devices"}})
	k, err := client.New(c.RESTConfig(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	annotate := func(node, devices string) {
		t.Helper()
		n := &corev1.Node{}
		n.Name = node
		patch := fmt.Sprintf(`{"metadata": {"annotations": {"rehearse-k8s.github.io/devices": %q}}}`, devices)
		if err := k.Patch(t.Context(), n, client.RawPatch("application/merge-patch+json", []byte(patch))); err != nil {
			t.Fatal(err)
		}
	}
	devices := func(node string, want int) {
		t.Helper()
		await(t, fmt.Sprintf("%s has %d devices", node, want), func() error {
			slice := &resourcev1.ResourceSlice{}
			err := k.Get(t.Context(), client.ObjectKey{Name: node + "-devices"}, slice)
			if err == nil && len(slice.Spec.Devices) != want {
				err = fmt.Errorf("it has %d", len(slice.Spec.Devices))
			}
			return err
		})
	}
	annotate("node-0", "gpu.example.com=1")
	devices("node-0", 1)
	annotate("node-0", "gpu.example.com=2") // a later change applies
	annotate("node-1", "gpu.example.com=2")
	devices("node-0", 2)
	devices("node-1", 2)

	create(t, k, `{apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {name: gpu},
  spec: {selectors: [{cel: {expression: 'device.driver == "gpu.example.com"'}}]}}`)
	create(t, k, `{apiVersion: resource.k8s.io/v1, kind: ResourceClaimTemplate, metadata: {name: one, namespace: default},
  spec: {spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu}}]}}}}`)
	pod := func(name string) *corev1.Pod {
		create(t, k, fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {name: %s, namespace: default}, spec: {terminationGracePeriodSeconds: 0,
  resourceClaims: [{name: gpu, resourceClaimTemplateName: one}], containers: [{name: main, image: a, resources: {claims: [{name: gpu}]}}]}}`, name))
		p := &corev1.Pod{}
		p.Name, p.Namespace = name, "default"
		return p
	}
	runs := func(p *corev1.Pod) {
		t.Helper()
		await(t, p.Name+" runs", func() error {
			err := k.Get(t.Context(), client.ObjectKeyFromObject(p), p)
			if err == nil && p.Status.Phase != corev1.PodRunning {
				err = fmt.Errorf("it is %s", p.Status.Phase)
			}
			return err
		})
	}
	var four []*corev1.Pod
	for i := range 4 {
		four = append(four, pod(fmt.Sprintf("p%d", i)))
	}
	taken := map[string]bool{}
	for _, p := range four {
		runs(p)
		device := allocated(t, k, p)
		if taken[device] {
			t.Errorf("device %s is allocated to two pods", device)
		}
		taken[device] = true
	}
	fifth := pod("p4")
	await(t, "the fifth pod is unschedulable", func() error {
		if err := k.Get(t.Context(), client.ObjectKeyFromObject(fifth), fifth); err != nil {
			return err
		}
		for _, condition := range fifth.Status.Conditions {
			if condition.Type == corev1.PodScheduled && condition.Reason == corev1.PodReasonUnschedulable {
				return nil
			}
		}
		return fmt.Errorf("its conditions are %v", fifth.Status.Conditions)
	})

	old := *four[0].Status.ResourceClaimStatuses[0].ResourceClaimName
	if err := k.Delete(t.Context(), four[0]); err != nil {
		t.Fatal(err)
	}
	runs(fifth)
	if device := allocated(t, k, fifth); !taken[device] || len(taken) != 4 {
		t.Errorf("the fifth pod has device %s, the other pods had %v", device, taken)
	}
	gone(t, k, &resourcev1.ResourceClaim{}, client.ObjectKey{Namespace: "default", Name: old})

	node := &corev1.Node{}
	node.Name = "node-1"
	if err := k.Delete(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	gone(t, k, &resourcev1.ResourceSlice{}, client.ObjectKey{Name: "node-1-devices"})
}

// allocated returns the device of a running pod, which must be on the pod's node and reserved for the pod.
func allocated(t *testing.T, k client.Client, p *corev1.Pod) string {
	t.Helper()
	if len(p.Status.ResourceClaimStatuses) != 1 {
		t.Fatalf("%s runs without a claim", p.Name)
	}
	claim := &resourcev1.ResourceClaim{}
	if err := k.Get(t.Context(), client.ObjectKey{Namespace: p.Namespace, Name: *p.Status.ResourceClaimStatuses[0].ResourceClaimName}, claim); err != nil {
		t.Fatal(err)
	}
	if claim.Status.Allocation == nil || len(claim.Status.ReservedFor) != 1 || claim.Status.ReservedFor[0].UID != p.UID {
		t.Fatalf("%s runs, and its claim is %+v", p.Name, claim.Status)
	}
	device := claim.Status.Allocation.Devices.Results[0]
	if device.Pool != p.Spec.NodeName {
		t.Errorf("%s runs on %s with a device of %s", p.Name, p.Spec.NodeName, device.Pool)
	}
	return device.Pool + "/" + device.Device
}

// gone waits until an object does not exist.
func gone(t *testing.T, k client.Client, o client.Object, key client.ObjectKey) {
	t.Helper()
	await(t, key.Name+" is gone", func() error {
		err := k.Get(t.Context(), key, o)
		if err == nil {
			return fmt.Errorf("it exists")
		}
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	})
}

// TestVolumeAttachment: the volume of a pod is attached to its node, and detached after the pod.
func TestVolumeAttachment(t *testing.T) {
	c := startCluster(t, cluster.Options{Nodes: 1, StageFiles: []string{"builtin:node-fast", "builtin:pod-fast", "builtin:volume-attach"}})
	k, err := client.New(c.RESTConfig(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	create(t, k, `{apiVersion: v1, kind: PersistentVolume, metadata: {name: disk}, spec: {accessModes: [ReadWriteOnce], capacity: {storage: 1Gi},
  claimRef: {namespace: default, name: disk}, csi: {driver: disk.example.com, volumeHandle: disk-1}}}`)
	create(t, k, `{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: disk, namespace: default},
  spec: {storageClassName: "", volumeName: disk, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}`)
	create(t, k, `{apiVersion: v1, kind: Pod, metadata: {name: db, namespace: default}, spec: {terminationGracePeriodSeconds: 0,
  volumes: [{name: data, persistentVolumeClaim: {claimName: disk}}], containers: [{name: main, image: a, volumeMounts: [{name: data, mountPath: /data}]}]}}`)
	attachment := &storagev1.VolumeAttachment{}
	looks := 0
	await(t, "the volume is attached", func() error {
		list := &storagev1.VolumeAttachmentList{}
		if err := k.List(t.Context(), list); err != nil {
			return err
		}
		if len(list.Items) == 0 {
			// The upstream controller skips a pod on a node that it does not know yet, and looks again at the next event of the pod,
			// or after minutes. (attachdetach.ProcessPodVolumes)
			looks++
			db := &corev1.Pod{}
			db.Name, db.Namespace = "db", "default"
			if err := k.Patch(t.Context(), db, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{"look":"%d"}}}`, looks))); err != nil {
				return err
			}
		}
		if len(list.Items) != 1 || !list.Items[0].Status.Attached {
			return fmt.Errorf("attachments: %+v", list.Items)
		}
		attachment = &list.Items[0]
		return nil
	})
	if attachment.Spec.NodeName != "node-0" || attachment.Spec.Attacher != "disk.example.com" || *attachment.Spec.Source.PersistentVolumeName != "disk" {
		t.Errorf("%+v", attachment.Spec)
	}
	attached := func(want int) {
		t.Helper()
		await(t, fmt.Sprintf("the status of the node lists %d volumes", want), func() error {
			n := &corev1.Node{}
			err := k.Get(t.Context(), client.ObjectKey{Name: "node-0"}, n)
			if err == nil && len(n.Status.VolumesAttached) != want {
				err = fmt.Errorf("it lists %v", n.Status.VolumesAttached)
			}
			return err
		})
	}
	attached(1)
	p := &corev1.Pod{}
	p.Name, p.Namespace = "db", "default"
	if err := k.Delete(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	gone(t, k, attachment, client.ObjectKey{Name: attachment.Name})
	attached(0)
}

// TestNodesOfAutoscalers: nodes as the KWOK providers of Cluster Autoscaler and Karpenter create them become Ready, keep what the
// providers set, run the pods that waited, and are deleted with their pods.
func TestNodesOfAutoscalers(t *testing.T) {
	c := startCluster(t, cluster.Options{})
	k, err := client.New(c.RESTConfig(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for name, provider := range map[string]struct{ node, toleration string }{
		"ng1-abcde": {`annotations: {kwok.x-k8s.io/node: fake, cluster-autoscaler.kwok.nodegroup/name: ng1,
    metrics.k8s.io/resource-metrics-path: /metrics/nodes/ng1-abcde/metrics/resource}, labels: {kwok-nodegroup: ng1, for: ng1-abcde}},
  spec: {providerID: "kwok:ng1-abcde", taints: [{key: kwok-provider, value: "true", effect: NoSchedule}]},
  status: {nodeInfo: {kubeletVersion: fake}, `, "{key: kwok-provider, operator: Exists}"},
		"brave-curie-7": {`annotations: {kwok.x-k8s.io/node: fake}, labels: {kwok.x-k8s.io/node: fake, kubernetes.io/hostname: brave-curie-7,
    karpenter.sh/nodepool: default, node.kubernetes.io/instance-type: c-4x-amd64-linux, kwok-partition: a, for: brave-curie-7}},
  spec: {providerID: "kwok://brave-curie-7", taints: [{key: karpenter.sh/unregistered, effect: NoExecute}]},
  status: {phase: Pending, `, "{key: karpenter.sh/unregistered, operator: Exists}"},
	} {
		create(t, k, fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {name: waits-%s, namespace: default}, spec: {terminationGracePeriodSeconds: 0,
  nodeSelector: {for: %s}, tolerations: [%s], containers: [{name: main, image: a, resources: {requests: {cpu: "3"}}}]}}`, name, name, provider.toleration))
		u := create(t, k, fmt.Sprintf(`{apiVersion: v1, kind: Node, metadata: {name: %s, %scapacity: {cpu: "4", memory: 8Gi, pods: "10"},
  allocatable: {cpu: 3900m, memory: 7Gi, pods: "10"}}}`, name, provider.node))
		p := &corev1.Pod{}
		await(t, "the pod runs on "+name, func() error {
			err := k.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "waits-" + name}, p)
			if err == nil && (p.Status.Phase != corev1.PodRunning || p.Spec.NodeName != name) {
				err = fmt.Errorf("it is %s on %q", p.Status.Phase, p.Spec.NodeName)
			}
			return err
		})
		n := &corev1.Node{}
		if err := k.Get(t.Context(), client.ObjectKey{Name: name}, n); err != nil {
			t.Fatal(err)
		}
		if n.Status.Allocatable.Cpu().String() != "3900m" || n.Status.Capacity.Cpu().String() != "4" || n.Spec.ProviderID != field(u, "spec.providerID") {
			t.Errorf("%s: %v %v %s", name, n.Status.Allocatable, n.Status.Capacity, n.Spec.ProviderID)
		}
		if err := k.Delete(t.Context(), n); err != nil {
			t.Fatal(err)
		}
		gone(t, k, n, client.ObjectKey{Name: name})
	}
}
