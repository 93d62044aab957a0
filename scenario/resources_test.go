package scenario_test

import (
	"fmt"
	"strings"
	"testing"
)

// TestResourceNames: a name that is almost right is answered with the right one.
func TestResourceNames(t *testing.T) {
	for name, want := range map[string]string{
		"pod":             `no such resource; write "pods"`,
		"job":             `no such resource; write "jobs.batch"`,
		"jobs":            `no such resource; write "jobs.batch"`,
		"ingress":         `no such resource; write "ingresses.networking.k8s.io"`,
		"node":            `no such resource; write "nodes"`,
		"storageclass":    `no such resource; write "storageclasses.storage.k8s.io"`,
		"clonesets":       `no such resource; write "clonesets.apps.kruise.io"`,
		"deploy":          `no such resource without a group; write one such as "pods" or "jobs.batch"`,
		"webs":            `no such resource without a group; write one such as "pods" or "jobs.batch"`,
		"Pods":            `is not a resource; write one such as "pods" or "jobs.batch"`,
		"jobs.Batch":      `is not a resource; write one such as "pods" or "jobs.batch"`,
		"pods/eviction":   `is not a resource; write one such as "pods" or "jobs.batch"`,
		"'pods, secrets'": `is not a resource; write one such as "pods" or "jobs.batch"`,
	} {
		_, err := parse(fmt.Sprintf("  steps: [{delete: {resource: %s, name: a}}]\n", name), nil)
		equal(t, name, []string{"spec.steps[0].delete.resource: " + strings.Trim(name, "'") + ": " + want}, problems(t, err))
	}
	// A resource with a group that is not known here may be in the caller's cluster.
	if s := mustParse(t, "  steps: [{delete: {resource: webs.example.com, name: a}}]\n"); s.Steps[0].On.Namespace != "" {
		t.Errorf("namespace %q", s.Steps[0].On.Namespace)
	}
}

// TestNamesOfKinds: an object of a cluster-scoped kind counts for no namespace, whichever plural its kind has.
func TestNamesOfKinds(t *testing.T) {
	for kind, want := range map[string][]string{
		"Node": {"b"}, "PriorityClass": {"b"}, "IPAddress": {"b"}, "StorageClass": {"b"}, "CSIDriver": {"b"}, "ClusterRole": {"b"}, "ServiceCIDR": {"b"},
		"ValidatingAdmissionPolicy": {"b"}, "CustomResourceDefinition": {"b"}, "Pod": {"b", "default"}, "Ingress": {"b", "default"},
		"NetworkPolicy": {"b", "default"}, "Web": {"b", "default"},
	} {
		s := mustParse(t, fmt.Sprintf("  cluster: {objects: [{object: {apiVersion: v1, kind: %s, metadata: {name: a}}}]}\n  steps: [{delete: {resource: pods, namespace: b, name: x}}]\n", kind))
		equal(t, kind, want, s.Namespaces())
	}
}
