package scenario_test

import (
	"slices"
	"testing"
)

// TestNamespaces: those of objects and of what steps act on, and default only where
// something is in it.
func TestNamespaces(t *testing.T) {
	for name, c := range map[string]struct {
		spec string
		want []string
	}{
		"nothing":            {"", []string{"default"}},
		"no namespace given": {"  steps: [{create: {object: {apiVersion: v1, kind: Pod, metadata: {name: a}}}}]\n", []string{"default"}},
		"one of its own": {"  cluster: {objects: [{object: {apiVersion: v1, kind: Namespace, metadata: {name: mine}}}]}\n" +
			"  steps: [{create: {object: {apiVersion: v1, kind: Pod, metadata: {name: a, namespace: mine}}}}]\n", []string{"mine"}},
		"kinds in none": {"  cluster: {objects: [{object: {apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: a}, provisioner: a}}, " +
			"{object: {apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: a}, value: 1}}]}\n" +
			"  steps: [{delete: {resource: pods, namespace: b, name: x}}]\n", []string{"b"}},
		"several": {"  steps: [{create: {object: {apiVersion: example.com/v1, kind: Thing, metadata: {name: a}}}}, {delete: {resource: pods, namespace: b, name: x}}]\n", []string{"b", "default"}},
	} {
		s, err := parse(c.spec, nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := s.Namespaces(); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
