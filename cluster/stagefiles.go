package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rehearse-k8s/rehearse/stage"
)

// LoadStages reads files of stages as Options.StageFiles are read, for whoever
// plays them elsewhere. Its error is a *UsageError.
func LoadStages(files []string) (*stage.Set, error) { return loadStages(files) }

// FilesIn lists the files of a directory that may hold stages or other objects, by name. There is one
// at least.
func FilesIn(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, e := range entries {
		switch ext := filepath.Ext(e.Name()); {
		case e.IsDir() || strings.TrimSuffix(e.Name(), ext) == "kustomization":
		case slices.Contains([]string{".yaml", ".yml", ".json"}, ext):
			out = append(out, filepath.Join(dir, e.Name()))
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s: there is no .yaml, .yml or .json file in this directory", dir)
	}
	return out, nil
}
