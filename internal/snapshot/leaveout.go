package snapshot

import (
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// leftOutKinds are kinds that no restore can use, with the reason.
var leftOutKinds = map[schema.GroupKind]string{
	{Kind: "Event"}:                                                     "they describe the past of the saved cluster",
	{Group: "events.k8s.io", Kind: "Event"}:                             "they describe the past of the saved cluster",
	{Group: "coordination.k8s.io", Kind: "Lease"}:                       "their holders do not exist in another cluster",
	{Group: "coordination.k8s.io", Kind: "LeaseCandidate"}:              "their holders do not exist in another cluster",
	{Group: networking, Kind: "IPAddress"}:                              "the API server creates them for Services",
	{Group: "internal.apiserver.k8s.io", Kind: "StorageVersion"}:        "they describe the API servers of the saved cluster",
	{Group: "storagemigration.k8s.io", Kind: "StorageVersionMigration"}: "they describe the storage of the saved cluster",
	{Group: "certificates.k8s.io", Kind: "CertificateSigningRequest"}:   "another cluster has other signers",
	{Group: "certificates.k8s.io", Kind: "PodCertificateRequest"}:       "another cluster has other signers",
}

// LeaveOutKind returns why no object of a kind belongs into a snapshot, empty if some do.
func LeaveOutKind(k schema.GroupKind) string { return leftOutKinds[k] }

// LeaveOut returns why an object does not belong into a snapshot, empty if it does. An API server or a controller of every
// cluster creates the objects that are left out, or they are valid in the saved cluster only.
func LeaveOut(obj *unstructured.Unstructured) string {
	k := obj.GroupVersionKind().GroupKind()
	if reason := leftOutKinds[k]; reason != "" {
		return reason
	}
	name, namespace := obj.GetName(), obj.GetNamespace()
	const byServer, byController = "the API server of each cluster creates its own", "a controller of each cluster creates its own"
	switch k {
	case schema.GroupKind{Kind: "Secret"}:
		if obj.Object["type"] == "kubernetes.io/service-account-token" {
			return "tokens of service accounts are valid in the saved cluster only"
		}
	case schema.GroupKind{Kind: "ConfigMap"}:
		if name == "kube-root-ca.crt" || namespace == systemNamespace && (name == "extension-apiserver-authentication" || name == "kube-apiserver-legacy-service-account-token-tracking") {
			return byController
		}
	case schema.GroupKind{Kind: "Service"}:
		if namespace == "default" && name == "kubernetes" {
			return byServer
		}
	case schema.GroupKind{Kind: "Endpoints"}:
		_, changed := obj.GetAnnotations()["endpoints.kubernetes.io/last-change-trigger-time"]
		if changed || strings.HasPrefix(obj.GetLabels()["endpoints.kubernetes.io/managed-by"], "endpoint-controller") || namespace == "default" && name == "kubernetes" {
			return byController
		}
	case schema.GroupKind{Group: "discovery.k8s.io", Kind: "EndpointSlice"}:
		if strings.HasSuffix(obj.GetLabels()["endpointslice.kubernetes.io/managed-by"], ".k8s.io") || namespace == "default" && name == "kubernetes" {
			return byController
		}
	case schema.GroupKind{Group: networking, Kind: "ServiceCIDR"}:
		if name == "kubernetes" {
			return byServer
		}
	case schema.GroupKind{Group: "apiregistration.k8s.io", Kind: "APIService"}:
		// Without a Service, the API server itself serves the group.
		_, remote, _ := unstructured.NestedMap(obj.Object, "spec", "service")
		if obj.GetLabels()["kube-aggregator.kubernetes.io/automanaged"] != "" || !remote {
			return byServer
		}
	case schema.GroupKind{Group: "flowcontrol.apiserver.k8s.io", Kind: "FlowSchema"}, schema.GroupKind{Group: "flowcontrol.apiserver.k8s.io", Kind: "PriorityLevelConfiguration"}:
		if obj.GetAnnotations()["apf.kubernetes.io/autoupdate-spec"] == "true" {
			return byServer
		}
	case schema.GroupKind{Group: "scheduling.k8s.io", Kind: "PriorityClass"}:
		if strings.HasPrefix(name, "system-") {
			return byServer
		}
	}
	if k.Group == rbac && obj.GetLabels()["kubernetes.io/bootstrapping"] == "rbac-defaults" && obj.GetAnnotations()["rbac.authorization.kubernetes.io/autoupdate"] != "false" {
		return byServer
	}
	return ""
}

const systemNamespace = "kube-system"

// ExistsEverywhere reports whether each cluster has an object of this kind and name, so that its existence says nothing about
// the purpose of a cluster: the system namespaces, the default service accounts, and definitions of kinds.
func ExistsEverywhere(k schema.GroupKind, name string) bool {
	switch k {
	case CRD:
		return true
	case schema.GroupKind{Kind: "Namespace"}:
		return name == "default" || strings.HasPrefix(name, "kube-")
	case schema.GroupKind{Kind: "ServiceAccount"}:
		return name == "default"
	}
	return false
}
