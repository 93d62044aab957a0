//go:build python

package live

import (
	"os/exec"
	"path/filepath"
	"testing"
)

// python returns an interpreter that has the module for Kubernetes. Debian's is not always the first in PATH.
func python(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"python3", "/usr/bin/python3"} {
		if exec.CommandContext(t.Context(), name, "-c", "import kubernetes").Run() == nil {
			return name
		}
	}
	t.Fatal("no python3 here has the module kubernetes: Debian's package is python3-kubernetes")
	return ""
}

func script(t *testing.T, name string) []string {
	t.Helper()
	file, err := filepath.Abs(filepath.Join("..", "..", "examples", "python", name))
	must(t, err)
	return []string{python(t), file}
}

// TestNaivePython checks that the search finds the defect of an operator that shares no code with this
// project.
func TestNaivePython(t *testing.T) {
	t.Parallel()
	found(t, rehearse(t, "python/scenario.yaml", nil, script(t, "naive.py")), "exactly 1 active pod of ConfigMap default/web")
}

// TestCarefulPython checks that a correct operator passes.
func TestCarefulPython(t *testing.T) {
	t.Parallel()
	passed(t, rehearse(t, "python/scenario.yaml", []string{"--runs=25"}, script(t, "careful.py")), 25)
}
