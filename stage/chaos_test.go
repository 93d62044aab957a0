package stage

import (
	"strconv"
	"testing"

	"github.com/rehearse-k8s/rehearse/internal/stage/stagetest"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

const (
	notReadyLabel = "node-not-ready.stage.kwok.x-k8s.io"
	pressureLabel = "node-pressure.stage.kwok.x-k8s.io"
)

func withLabel(key, value string, annotations map[string]string) func(*corev1.Node) {
	return func(n *corev1.Node) {
		n.Labels, n.Annotations = map[string]string{key: value}, annotations
	}
}

// nodeChanged edits the node before a step.
func nodeChanged(at int, edit func(n *corev1.Node)) func(int, Object) Object {
	return func(step int, o Object) Object {
		if step != at {
			return o
		}
		n := o.(*corev1.Node).DeepCopy()
		edit(n)
		version, _ := strconv.Atoi(n.ResourceVersion)
		n.ResourceVersion = strconv.Itoa(version + 1)
		return n
	}
}

func TestGoldenNodeChaos(t *testing.T) {
	set := mustBuiltin(t, "node-fast", "node-heartbeat", "node-chaos")
	unlabel := func(n *corev1.Node) { n.Labels = nil }
	for name, c := range map[string]struct {
		node    *corev1.Node
		disturb func(int, Object) Object
	}{
		"not-ready": {stagetest.NewNode(), func(step int, o Object) Object {
			o = nodeChanged(1, withLabel(notReadyLabel, "true", nil))(step, o)
			return nodeChanged(3, unlabel)(step, o)
		}},
		"not-ready-duration": {stagetest.NewNode(), nodeChanged(1, withLabel(notReadyLabel, "true", map[string]string{
			notReadyLabel + "/type": "NetworkUnavailable", notReadyLabel + "/reason": "CableCut", notReadyLabel + "/message": "someone fell over it",
			notReadyLabel + "/delay": "3s", notReadyLabel + "/duration": "30s",
		}))},
		"pressure": {stagetest.NewNode(), func(step int, o Object) Object {
			o = nodeChanged(1, withLabel(pressureLabel, "MemoryPressure", nil))(step, o)
			return nodeChanged(3, unlabel)(step, o)
		}},
		"pressure-duration": {stagetest.NewNode(), nodeChanged(1, withLabel(pressureLabel, "Frozen", map[string]string{pressureLabel + "/duration": "2m"}))},
	} {
		t.Run(name, func(t *testing.T) {
			golden(t, "node-"+name, life(t, set, c.node, 5, c.disturb))
		})
	}
}

const aClaim = `
apiVersion: v1
kind: PersistentVolumeClaim
metadata:
  name: data
  namespace: shop
  uid: uid-data
  resourceVersion: "10"
  annotations: {volume.kubernetes.io/storage-provisioner: rehearse-k8s.github.io/volume}
  finalizers: [kubernetes.io/pvc-protection]
spec:
  accessModes: [ReadWriteOnce]
  resources: {requests: {storage: 2Gi}}
  storageClassName: simulated
  volumeMode: Filesystem
status: {phase: Pending}
`

const aVolume = `
apiVersion: v1
kind: PersistentVolume
metadata:
  name: pvc-uid-data
  uid: uid-volume
  resourceVersion: "20"
  annotations: {pv.kubernetes.io/provisioned-by: rehearse-k8s.github.io/volume}
spec:
  claimRef: {name: data, namespace: shop, uid: uid-data}
  persistentVolumeReclaimPolicy: Delete
status: {phase: Pending}
`

func TestGoldenVolumes(t *testing.T) {
	set := mustBuiltin(t, "volume-fast")
	object := func(text string) Object {
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
			t.Fatal(err)
		}
		return u
	}
	edited := func(at int, edit func(u *unstructured.Unstructured)) func(int, Object) Object {
		return func(step int, o Object) Object {
			if step != at {
				return o
			}
			u := o.(*unstructured.Unstructured).DeepCopy()
			edit(u)
			u.SetResourceVersion("50")
			return u
		}
	}
	deleted := func(finalizers ...any) func(u *unstructured.Unstructured) {
		return func(u *unstructured.Unstructured) {
			metadata := u.Object["metadata"].(map[string]any)
			metadata["deletionTimestamp"], metadata["finalizers"] = "2026-03-01T12:00:00Z", finalizers
		}
	}
	golden(t, "volume-claim", life(t, set, object(aClaim), 4, edited(1, deleted("example.com/hold"))))
	golden(t, "volume-claim-in-use", life(t, set, object(aClaim), 4, edited(1, deleted("kubernetes.io/pvc-protection"))))
	golden(t, "volume", life(t, set, object(aVolume), 4, edited(1, func(u *unstructured.Unstructured) {
		_ = unstructured.SetNestedField(u.Object, "Released", "status", "phase")
	})))
	golden(t, "volume-kept", life(t, set, object(aVolume), 4, edited(1, func(u *unstructured.Unstructured) {
		_ = unstructured.SetNestedField(u.Object, "Released", "status", "phase")
		_ = unstructured.SetNestedField(u.Object, "Retain", "spec", "persistentVolumeReclaimPolicy")
	})))
}
