package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rehearse-k8s/rehearse/stage"
)

// LoadStages reads files of stages like Options.StageFiles. Its error is a *UsageError.
func LoadStages(files []string) (*stage.Set, error) { return loadStages(files) }

// StageFiles replaces directories in names with the YAML and JSON files in them. A directory without such a file is an error.
func StageFiles(names []string) (files []string, err error) {
	for _, name := range names {
		in := []string{name}
		if info, err := os.Stat(name); err == nil && info.IsDir() {
			if in, err = filesIn(name); err != nil {
				return nil, err
			}
		}
		files = append(files, in...)
	}
	return files, nil
}

func filesIn(dir string) ([]string, error) {
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
		return nil, fmt.Errorf("%s: the directory contains no .yaml, .yml or .json file", dir)
	}
	return out, nil
}
