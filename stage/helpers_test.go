package stage

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func mustCompile(t testing.TB, yaml string) *Set {
	t.Helper()
	stages, err := Load("test.yaml", []byte(yaml))
	if err != nil {
		t.Fatal(err)
	}
	set, err := Compile(stages)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func mustBuiltin(t testing.TB, names ...string) *Set {
	t.Helper()
	stages, err := Builtin(names...)
	if err != nil {
		t.Fatal(err)
	}
	set, err := Compile(stages)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// builtinSets are the built-in files in the combinations that are used: with the fast pod stages or
// the general ones.
func builtinSets(t testing.TB) map[string]*Set {
	t.Helper()
	rest := []string{"node-fast", "node-heartbeat", "node-chaos", "node-devices", "pod-chaos", "volume-attach", "volume-fast"}
	return map[string]*Set{
		"fast":    mustBuiltin(t, append(rest, "pod-fast")...),
		"general": mustBuiltin(t, append(rest, "pod-general")...),
	}
}

// containerStatus returns the status of a container, or nil.
func containerStatus(statuses []corev1.ContainerStatus, name string) *corev1.ContainerStatus {
	for i := range statuses {
		if statuses[i].Name == name {
			return &statuses[i]
		}
	}
	return nil
}
