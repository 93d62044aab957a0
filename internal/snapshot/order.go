package snapshot

import (
	"cmp"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// CRD is the kind that defines other kinds. A restore waits until the API server serves them.
var CRD = schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}

const (
	rbac       = "rbac.authorization.k8s.io"
	storage    = "storage.k8s.io"
	apps       = "apps"
	batch      = "batch"
	admission  = "admissionregistration.k8s.io"
	networking = "networking.k8s.io"
)

// order lists the kinds of which the objects are restored first, in this order. Those of a later row may require those of an
// earlier one; those of a row are independent.
var order = [][]schema.GroupKind{
	{CRD},
	{{Kind: "Namespace"}},
	{
		{Group: "scheduling.k8s.io", Kind: "PriorityClass"}, {Group: "node.k8s.io", Kind: "RuntimeClass"}, {Group: networking, Kind: "IngressClass"},
		{Group: storage, Kind: "StorageClass"}, {Group: storage, Kind: "CSIDriver"}, {Group: storage, Kind: "VolumeAttributesClass"},
		{Group: "resource.k8s.io", Kind: "DeviceClass"},
	},
	{{Kind: "ServiceAccount"}, {Group: rbac, Kind: "ClusterRole"}, {Group: rbac, Kind: "Role"}},
	{{Group: rbac, Kind: "ClusterRoleBinding"}, {Group: rbac, Kind: "RoleBinding"}},
	{{Kind: "ConfigMap"}, {Kind: "Secret"}},
	{{Kind: "PersistentVolumeClaim"}},
	{{Kind: "PersistentVolume"}}, // after claims: spec.claimRef contains the UID of one
	{{Kind: "Node"}},
	{{Group: storage, Kind: "CSINode"}, {Group: "resource.k8s.io", Kind: "ResourceSlice"}},
}

// late lists the kinds of which the objects are restored after all others, in this order.
var late = [][]schema.GroupKind{
	{{Kind: "Service"}},
	{{Kind: "PodTemplate"}, {Group: batch, Kind: "CronJob"}, {Group: apps, Kind: "Deployment"}},
	{{Group: apps, Kind: "DaemonSet"}, {Group: apps, Kind: "StatefulSet"}, {Group: batch, Kind: "Job"}},
	{{Group: apps, Kind: "ControllerRevision"}, {Group: apps, Kind: "ReplicaSet"}, {Kind: "ReplicationController"}},
	{{Kind: "Pod"}},
	{
		{Kind: "Endpoints"}, {Group: "discovery.k8s.io", Kind: "EndpointSlice"},
		{Group: "policy", Kind: "PodDisruptionBudget"}, {Group: "autoscaling", Kind: "HorizontalPodAutoscaler"},
		{Group: storage, Kind: "VolumeAttachment"},
	},
	// These reject or change other objects, which the API server of the saved cluster has accepted already.
	{{Kind: "LimitRange"}, {Kind: "ResourceQuota"}},
	{
		{Group: admission, Kind: "ValidatingAdmissionPolicy"}, {Group: admission, Kind: "MutatingAdmissionPolicy"},
		{Group: "flowcontrol.apiserver.k8s.io", Kind: "PriorityLevelConfiguration"},
	},
	{
		{Group: admission, Kind: "ValidatingAdmissionPolicyBinding"}, {Group: admission, Kind: "MutatingAdmissionPolicyBinding"},
		{Group: admission, Kind: "ValidatingWebhookConfiguration"}, {Group: admission, Kind: "MutatingWebhookConfiguration"},
		{Group: "flowcontrol.apiserver.k8s.io", Kind: "FlowSchema"}, {Group: "apiregistration.k8s.io", Kind: "APIService"},
	},
}

var ranks = func() map[schema.GroupKind]int {
	out := map[schema.GroupKind]int{}
	for i, row := range order {
		for _, k := range row {
			out[k] = i
		}
	}
	for i, row := range late {
		for _, k := range row {
			out[k] = len(order) + 1 + i
		}
	}
	return out
}()

// Rank is the place of a kind in the order of a restore, the lowest first. Custom resources, and all other kinds, are restored
// before workloads, because they often own them. Owners that follow their dependents are a matter of the restore itself.
func Rank(k schema.GroupKind) int {
	if r, ok := ranks[k]; ok {
		return r
	}
	return len(order)
}

// CompareKinds orders kinds by rank, and those of one rank by group and kind.
func CompareKinds(a, b schema.GroupKind) int {
	return cmp.Or(cmp.Compare(Rank(a), Rank(b)), cmp.Compare(a.Group, b.Group), cmp.Compare(a.Kind, b.Kind))
}

// IsRequired reports whether the API server may reject objects of other kinds until an object of this kind exists: definitions,
// namespaces, classes, service accounts and RBAC.
func IsRequired(k schema.GroupKind) bool {
	return Rank(k) <= Rank(schema.GroupKind{Group: rbac, Kind: "RoleBinding"})
}
