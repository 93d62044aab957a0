package scenario

import (
	"maps"
	"slices"
	"strings"
)

// inNamespaces and inNone are the resources of Kubernetes, and of CloneSets, by whether their objects
// have a namespace. A scenario that misspells a resource would find no object of it, and an invariant
// about it would hold without a check. Resources of other groups depend on the cluster of the caller.
var (
	inNamespaces = words(`bindings configmaps endpoints events limitranges persistentvolumeclaims pods podtemplates
		replicationcontrollers resourcequotas secrets serviceaccounts services
		controllerrevisions.apps daemonsets.apps deployments.apps replicasets.apps statefulsets.apps
		cronjobs.batch jobs.batch horizontalpodautoscalers.autoscaling poddisruptionbudgets.policy
		ingresses.networking.k8s.io networkpolicies.networking.k8s.io leases.coordination.k8s.io
		endpointslices.discovery.k8s.io events.events.k8s.io rolebindings.rbac.authorization.k8s.io
		roles.rbac.authorization.k8s.io csistoragecapacities.storage.k8s.io resourceclaims.resource.k8s.io
		resourceclaimtemplates.resource.k8s.io clonesets.apps.kruise.io`)
	inNone = words(`componentstatuses namespaces nodes persistentvolumes
		apiservices.apiregistration.k8s.io certificatesigningrequests.certificates.k8s.io
		clusterrolebindings.rbac.authorization.k8s.io clusterroles.rbac.authorization.k8s.io
		csidrivers.storage.k8s.io csinodes.storage.k8s.io customresourcedefinitions.apiextensions.k8s.io
		deviceclasses.resource.k8s.io flowschemas.flowcontrol.apiserver.k8s.io
		ingressclasses.networking.k8s.io ipaddresses.networking.k8s.io
		mutatingadmissionpolicies.admissionregistration.k8s.io
		mutatingadmissionpolicybindings.admissionregistration.k8s.io
		mutatingwebhookconfigurations.admissionregistration.k8s.io priorityclasses.scheduling.k8s.io
		prioritylevelconfigurations.flowcontrol.apiserver.k8s.io
		resourceslices.resource.k8s.io runtimeclasses.node.k8s.io
		servicecidrs.networking.k8s.io storageclasses.storage.k8s.io
		validatingadmissionpolicies.admissionregistration.k8s.io
		validatingadmissionpolicybindings.admissionregistration.k8s.io
		validatingwebhookconfigurations.admissionregistration.k8s.io volumeattachments.storage.k8s.io volumeattributesclasses.storage.k8s.io`)
)

func words(text string) map[string]bool {
	out := map[string]bool{}
	for w := range strings.FieldsSeq(text) {
		out[w] = true
	}
	return out
}

// scope reports whether a resource is namespaced, if that is known here.
func (c *checker) scope(resource string) (namespaced, known bool) {
	if namespaced, known = c.scopes[resource]; known {
		return namespaced, true
	}
	return inNamespaces[resource], inNamespaces[resource] || inNone[resource]
}

// resource checks the name of a resource, which must be complete, with its group.
func (c *checker) resource(a at, name string) bool {
	_, known := c.scope(name)
	switch {
	case name == "":
		c.report(a, "", `is missing; write one such as "pods" or "jobs.batch"`)
	case known:
		return true
	case strings.ContainsAny(name, "/ ") || name != strings.ToLower(name):
		c.report(a, name, `is not a resource; write one such as "pods" or "jobs.batch"`)
	case !strings.Contains(name, "."):
		c.report(a, name, "%s", meant(name))
	default:
		return true
	}
	return false
}

// meant returns the reason for rejecting a name without a group, with the resource that it may stand for.
func meant(name string) string {
	for _, all := range []map[string]bool{inNamespaces, inNone} {
		for _, full := range slices.Sorted(maps.Keys(all)) {
			plural, _, _ := strings.Cut(full, ".")
			if plural == name || plural == name+"s" || plural == name+"es" {
				return `no such resource; write "` + full + `"`
			}
		}
	}
	return `no such resource without a group; write one such as "pods" or "jobs.batch"`
}

// namespace returns the namespace of an object: default if none is given and the resource is namespaced.
func (c *checker) namespace(a at, resource, given string) string {
	namespaced, known := c.scope(resource)
	switch {
	case known && !namespaced && given != "":
		c.report(a, given, "%s have no namespace; leave it out", resource)
	case known && namespaced && given == "":
		return "default"
	}
	return given
}
