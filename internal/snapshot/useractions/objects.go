package useractions

import (
	"cmp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/rehearse-k8s/rehearse/internal/snapshot"
)

// mostNodes is the number of recorded nodes that a scenario keeps: each costs every run a kubelet.
const mostNodes = 10

var (
	node      = schema.GroupKind{Kind: "Node"}
	namespace = schema.GroupKind{Kind: "Namespace"}
)

// notRepeatable returns why another cluster cannot use an object, empty if it can.
func notRepeatable(o *unstructured.Unstructured) string {
	switch k := o.GroupVersionKind().GroupKind(); k.Group + "/" + k.Kind {
	case "admissionregistration.k8s.io/ValidatingWebhookConfiguration", "admissionregistration.k8s.io/MutatingWebhookConfiguration",
		"apiregistration.k8s.io/APIService":
		return "webhooks and API services, whose servers do not run in the scenario"
	case "storage.k8s.io/CSINode", "storage.k8s.io/VolumeAttachment", "resource.k8s.io/ResourceSlice":
		return "objects that a node's drivers create"
	}
	if by := o.GetAnnotations()["pv.kubernetes.io/provisioned-by"]; by != "" {
		return "volumes that a provisioner made for claims"
	}
	return snapshot.LeaveOut(o)
}

// clean returns a copy of an object that another cluster accepts as a new one.
func clean(o *unstructured.Unstructured) *unstructured.Unstructured {
	out := o.DeepCopy()
	resources := map[string]any{}
	for _, field := range []string{"capacity", "allocatable"} {
		if v, found, _ := unstructured.NestedMap(out.Object, "status", field); found {
			resources[field] = v
		}
	}
	snapshot.Detach(out)
	snapshot.DropAllocations(out)
	unstructured.RemoveNestedField(out.Object, "metadata", "ownerReferences")
	switch out.GroupVersionKind().GroupKind() {
	case node:
		cleanNode(out, resources)
	case namespace:
		unstructured.RemoveNestedField(out.Object, "spec") // the API server's finalizer
	case schema.GroupKind{Kind: "Pod"}:
		unstructured.RemoveNestedField(out.Object, "spec", "nodeName") // the scheduler of the scenario chooses
	case schema.GroupKind{Group: "batch", Kind: "Job"}: // with the UID of the recorded Job, from its template
		for _, label := range []string{"controller-uid", "batch.kubernetes.io/controller-uid"} {
			unstructured.RemoveNestedField(out.Object, "metadata", "labels", label)
		}
	case schema.GroupKind{Kind: "PersistentVolumeClaim"}:
		unstructured.RemoveNestedField(out.Object, "spec", "volumeName")
		removeAnnotations(out, "pv.kubernetes.io/", "volume.kubernetes.io/", "volume.beta.kubernetes.io/")
	case schema.GroupKind{Kind: "PersistentVolume"}:
		for _, field := range []string{"uid", "resourceVersion"} {
			unstructured.RemoveNestedField(out.Object, "spec", "claimRef", field)
		}
	case snapshot.CRD:
		// The conversion webhook does not run in the scenario.
		unstructured.RemoveNestedField(out.Object, "spec", "conversion")
	}
	removeAnnotations(out, "kubectl.kubernetes.io/last-applied-configuration", "deployment.kubernetes.io/revision")
	if len(out.GetAnnotations()) == 0 {
		unstructured.RemoveNestedField(out.Object, "metadata", "annotations")
	}
	return out
}

// cleanNode makes a simulated node of a recorded one: its resources stay, because the scheduler reads them, and its taints,
// except for those that the node lifecycle controller sets.
func cleanNode(o *unstructured.Unstructured, resources map[string]any) {
	annotations := o.GetAnnotations() // a copy
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations["kwok.x-k8s.io/node"] = "fake"
	o.SetAnnotations(annotations)
	if len(resources) > 0 {
		o.Object["status"] = resources
	}
	taints, found, _ := unstructured.NestedSlice(o.Object, "spec", "taints")
	if !found {
		return
	}
	taints = slices.DeleteFunc(taints, func(t any) bool {
		taint, _ := t.(map[string]any)
		key, _ := taint["key"].(string)
		return strings.HasPrefix(key, "node.kubernetes.io/") && key != "node.kubernetes.io/unschedulable"
	})
	if len(taints) == 0 {
		unstructured.RemoveNestedField(o.Object, "spec", "taints")
		return
	}
	_ = unstructured.SetNestedSlice(o.Object, taints, "spec", "taints") // spec exists
}

// removeAnnotations removes the annotations with these prefixes.
func removeAnnotations(o *unstructured.Unstructured, prefixes ...string) {
	annotations := o.GetAnnotations()
	for k := range annotations {
		if slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(k, p) }) {
			delete(annotations, k)
		}
	}
	o.SetAnnotations(annotations)
}

// trimOwners removes owner references from a patch: their UIDs are those of the recorded cluster.
func trimOwners(patch map[string]any) {
	metadata, ok := patch["metadata"].(map[string]any)
	if !ok {
		return
	}
	delete(metadata, "ownerReferences")
	if annotations, ok := metadata["annotations"].(map[string]any); ok {
		delete(annotations, "kubectl.kubernetes.io/last-applied-configuration")
		if len(annotations) == 0 {
			delete(metadata, "annotations")
		}
	}
	if len(metadata) == 0 {
		delete(patch, "metadata")
	}
}

// propagationOf returns the propagation policy of a delete, from the finalizer that the API server adds with it.
func propagationOf(patch map[string]any) metav1.DeletionPropagation {
	finalizers, _, _ := unstructured.NestedSlice(patch, "metadata", "finalizers")
	switch {
	case slices.Contains(finalizers, any(metav1.FinalizerDeleteDependents)):
		return metav1.DeletePropagationForeground
	case slices.Contains(finalizers, any(metav1.FinalizerOrphanDependents)):
		return metav1.DeletePropagationOrphan
	}
	return metav1.DeletePropagationBackground
}

// keepFewNodes removes nodes, so that mostNodes remain: those that users changed, and then the first by name.
func (f *finder) keepFewNodes() {
	changed := map[string]bool{}
	for _, a := range f.result.Actions {
		if a.Resource.Resource == "nodes" && a.Resource.Group == "" {
			changed[a.Object.Name] = true
		}
	}
	rank := func(name string) int {
		if changed[name] {
			return 0
		}
		return 1
	}
	var nodes []string
	for _, o := range f.result.Objects {
		if o.GroupVersionKind().GroupKind() == node {
			nodes = append(nodes, o.GetName())
		}
	}
	slices.SortFunc(nodes, func(a, b string) int { return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a, b)) })
	if len(nodes) <= mostNodes {
		return
	}
	kept := nodes[:max(mostNodes, len(changed))]
	f.result.Objects = slices.DeleteFunc(f.result.Objects, func(o *unstructured.Unstructured) bool {
		if o.GroupVersionKind().GroupKind() != node || slices.Contains(kept, o.GetName()) {
			return false
		}
		f.omit("nodes: a scenario keeps ten, and those that users changed", "Node "+o.GetName())
		return true
	})
}

// addNamespaces adds the namespaces that the recording does not contain, because it was one of some kinds only.
func (f *finder) addNamespaces() {
	known := map[string]bool{"": true, metav1.NamespaceDefault: true, metav1.NamespaceSystem: true, metav1.NamespacePublic: true, "kube-node-lease": true}
	for name := range f.objects[schema.GroupResource{Resource: "namespaces"}] {
		known[name.Name] = true
	}
	add := func(name string) {
		if known[name] {
			return
		}
		known[name] = true
		o := &unstructured.Unstructured{}
		o.SetAPIVersion("v1")
		o.SetKind("Namespace")
		o.SetName(name)
		f.result.Objects = append(f.result.Objects, o)
	}
	for _, o := range slices.Clone(f.result.Objects) {
		add(o.GetNamespace())
	}
	for _, a := range f.result.Actions {
		add(a.Object.Namespace)
	}
}
