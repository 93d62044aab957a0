package stagefiles

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/rehearse-k8s/rehearse/stage"
)

// Expand replaces directories in names with the YAML and JSON files in them. A directory with a kustomization stands for the files and
// directories that the kustomization lists as resources, as for KWOK. A directory without any of these is an error.
func Expand(names []string) (files []string, err error) {
	for _, name := range names {
		in := []string{name}
		if isDir(name) {
			if in, err = filesIn(name, maxDepth); err != nil {
				return nil, err
			}
		}
		files = append(files, in...)
	}
	return files, nil
}

// maxDepth bounds the kustomizations that refer to other kustomizations.
const maxDepth = 10

func isDir(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}

func filesIn(dir string, depth int) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var out []string
	kustomization := ""
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		switch ext := filepath.Ext(e.Name()); {
		case e.IsDir():
		case slices.Contains(kustomizations, e.Name()) && kustomization != "":
			return nil, fmt.Errorf("%s: the directory has two kustomizations, %s and %s; remove one", dir, filepath.Base(kustomization), e.Name())
		case slices.Contains(kustomizations, e.Name()):
			kustomization = path
		case slices.Contains([]string{".yaml", ".yml", ".json"}, ext):
			out = append(out, path)
		}
	}
	if kustomization != "" {
		return resources(kustomization, depth-1)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s: the directory contains no .yaml, .yml or .json file", dir)
	}
	return out, nil
}

// kustomizations are the names of a kustomization's file.
var kustomizations = []string{"kustomization.yaml", "kustomization.yml", "Kustomization"}

// resources returns the files that a kustomization lists as resources. Nothing else of a kustomization is supported: stages have
// errors with lines, and a built kustomization has lines of its own.
func resources(kustomization string, depth int) (out []string, err error) {
	if depth == 0 {
		return nil, fmt.Errorf("%s: its resources are nested more than %d kustomizations deep; do they refer to each other?", kustomization, maxDepth)
	}
	data, err := os.ReadFile(kustomization)
	if err != nil {
		return nil, err
	}
	var listed struct {
		metav1.TypeMeta
		Metadata  map[string]any `json:"metadata"`
		Resources []string       `json:"resources"`
	}
	if err := yaml.UnmarshalStrict(data, &listed); err != nil {
		return nil, fmt.Errorf("%s: %s; only resources are read: to use more of a kustomization, build it (kubectl kustomize DIRECTORY > FILE) and pass FILE", kustomization, strings.Join(strings.Fields(err.Error()), " "))
	}
	if len(listed.Resources) == 0 {
		return nil, fmt.Errorf("%s: it lists no resources", kustomization)
	}
	for _, r := range listed.Resources {
		path := filepath.Join(filepath.Dir(kustomization), r)
		in := []string{path}
		if isDir(path) {
			if in, err = filesIn(path, depth); err != nil {
				return nil, err
			}
		} else if _, err := os.Stat(path); err != nil {
			return nil, fmt.Errorf("%s: resources: %q is neither a file nor a directory here", kustomization, r)
		}
		out = append(out, in...)
	}
	return out, nil
}

// Read expands names and reads the files, built-in ones included.
func Read(names []string) ([]stage.File, error) {
	names, err := Expand(names)
	if err != nil {
		return nil, err
	}
	files := make([]stage.File, len(names))
	for i, name := range names {
		read := os.ReadFile
		if strings.HasPrefix(name, stage.BuiltinPrefix) {
			read = stage.BuiltinFile
		}
		data, err := read(name)
		if err != nil {
			return nil, err
		}
		files[i] = stage.File{Name: name, Data: data}
	}
	return files, nil
}
