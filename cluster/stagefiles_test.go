package cluster_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rehearse-k8s/rehearse/cluster"
	"github.com/rehearse-k8s/rehearse/stage"
)

// TestStageDirectory: --stages accepts a directory, like lint and play: it reads all stage files in it, and
// no other files.
func TestStageDirectory(t *testing.T) {
	dir := t.TempDir()
	if _, err := cluster.LoadStages([]string{dir}); err == nil || !strings.Contains(err.Error(), "the directory contains no .yaml") {
		t.Errorf("of an empty directory: %v", err)
	}
	for file, builtin := range map[string]string{"node.yaml": "node-fast", "pod.yml": "pod-fast"} {
		data, err := stage.BuiltinFile(builtin)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, file), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "README.md"), []byte("no stage"), 0o600); err != nil {
		t.Fatal(err)
	}
	files, err := cluster.StageFiles([]string{"builtin:pod-fast", dir})
	if want := []string{"builtin:pod-fast", filepath.Join(dir, "node.yaml"), filepath.Join(dir, "pod.yml")}; err != nil || !slices.Equal(files, want) {
		t.Errorf("%v, %v", files, err)
	}
	set, err := cluster.LoadStages([]string{dir})
	if err != nil {
		t.Fatal(err)
	}
	all, err := cluster.LoadStages(nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(set.Kinds()) != len(all.Kinds()) {
		t.Errorf("kinds %v, want %v", set.Kinds(), all.Kinds())
	}
}
