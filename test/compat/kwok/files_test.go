package kwok

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rehearse-k8s/rehearse/internal/stagefiles"
	"github.com/rehearse-k8s/rehearse/stage"
)

// TestShippedDirectories: --stages reads each directory of stages that KWOK ships, unchanged, and names what is no stage.
func TestShippedDirectories(t *testing.T) {
	root, err := shipped()
	if err != nil {
		t.Fatal(err)
	}
	var ignored []string
	total := 0
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		// The directory rbac has only roles, for KWOK's own service account.
		if err != nil || d.Name() != "kustomization.yaml" || filepath.Base(filepath.Dir(path)) == "rbac" {
			return err
		}
		names, err := stagefiles.Expand([]string{filepath.Dir(path)})
		if err != nil {
			t.Error(err)
			return nil
		}
		var files []stage.File
		for _, name := range names {
			data, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			files = append(files, stage.File{Name: name, Data: data})
		}
		found := stagefiles.Split(files...)
		for _, k := range found.Ignored {
			ignored = append(ignored, k.Kind)
		}
		_, stages, bad := stage.LoadGood(found.Stages...)
		if len(bad) > 0 || len(stages) == 0 {
			t.Errorf("%s: %d stages, %v", path, len(stages), bad)
		}
		total += len(stages)
		return nil
	})
	// The kustomization of the stages of volumes also lists the permissions of KWOK's controller.
	if err != nil || total < 20 || strings.Join(ignored, " ") != "StorageClass ClusterRole ClusterRoleBinding" {
		t.Errorf("%d stages, ignored %v, %v", total, ignored, err)
	}
}
