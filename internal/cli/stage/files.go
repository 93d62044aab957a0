package stage

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/rehearse-k8s/rehearse/api/kwok/v1alpha1"
	"github.com/rehearse-k8s/rehearse/internal/cli/console"
	"github.com/rehearse-k8s/rehearse/internal/stagefiles"
	"github.com/rehearse-k8s/rehearse/stage"
)

// maxFileSize is the limit for input files, which are read into memory.
const maxFileSize = 16 << 20

// stageFiles reads files, directories, built-in files and standard input.
func (a *app) stageFiles(args []string) ([]stage.File, error) {
	names, err := stagefiles.Expand(args)
	if err != nil {
		return nil, console.Usagef("%v", err)
	}
	var out []stage.File
	seen := map[string]bool{}
	for _, name := range names {
		if seen[name] {
			continue // a file that is named twice is read once
		}
		seen[name] = true
		data, err := a.read(name)
		if err != nil {
			return nil, err
		}
		out = append(out, stage.File{Name: name, Data: data})
	}
	return out, nil
}

// read reads one file, built-in file or standard input.
func (a *app) read(name string) ([]byte, error) {
	if strings.HasPrefix(name, stage.BuiltinPrefix) {
		data, err := stage.BuiltinFile(name)
		if err != nil {
			return nil, console.Usagef("%v", err)
		}
		return data, nil
	}
	from, err := a.Open(name)
	if err != nil {
		return nil, err
	}
	defer from.Close()
	data, err := io.ReadAll(io.LimitReader(from, maxFileSize+1))
	switch {
	case err != nil:
		return nil, console.Usagef("%v", err)
	case len(data) > maxFileSize:
		return nil, console.Usagef("%s: is larger than %d MiB", name, maxFileSize>>20)
	}
	return data, nil
}

// stageSet loads the stages of --stages, all of which must be valid, or without it the stages that up plays by default.
func (a *app) stageSet(args []string) (*stage.Set, error) {
	if len(args) == 0 {
		args = defaultStages()
	}
	files, err := a.stageFiles(args)
	if err != nil {
		return nil, fmt.Errorf("--stages: %w", err)
	}
	// As for up: objects for kubelet endpoints are no stages, and files without a stage leave the built-in ones.
	found := stagefiles.Split(files...)
	if err := found.Err(); err != nil {
		return nil, console.Usagef("--stages: %v", err)
	}
	a.warnIgnored(found)
	if files = found.Stages; len(files) == 0 {
		if files, err = a.stageFiles(defaultStages()); err != nil {
			return nil, err
		}
	}
	set, _, bad := stage.LoadGood(files...)
	if len(bad) > 0 {
		text := "--stages: " + bad[0].Error()
		if len(bad) > 1 {
			text += fmt.Sprintf(" (and %d more)", len(bad)-1)
		}
		return nil, console.Usagef("%s; try: rehearse stage lint %s", text, strings.Join(args, " "))
	}
	for _, w := range set.Warnings() {
		a.Say("rehearse: warning: %v", w)
	}
	return set, nil
}

// warnIgnored reports the objects of files that have no effect.
func (a *app) warnIgnored(found *stagefiles.Contents) {
	for _, k := range found.Ignored {
		a.Say("rehearse: warning: %s", k.Warning())
	}
}

// defaultStages are the files that up plays without --stages.
func defaultStages() []string {
	return []string{stage.BuiltinPrefix + "node-fast", stage.BuiltinPrefix + "pod-fast"}
}

// namedObject is an object and the file that contains it.
type namedObject struct {
	file   string
	object stage.Object
}

// objects reads Kubernetes objects of any kind from files.
func (a *app) objects(args []string) ([]namedObject, error) {
	files, err := a.stageFiles(args)
	if err != nil {
		return nil, err
	}
	var out []namedObject
	for _, f := range files {
		found, err := objectsOf(f.Data)
		if err != nil {
			return nil, console.Usagef("decode %s: %s", f.Name, console.Message(err))
		}
		for _, o := range found {
			out = append(out, namedObject{file: f.Name, object: o})
		}
	}
	return out, nil
}

func objectsOf(data []byte) ([]stage.Object, error) {
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	var out []stage.Object
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		asJSON, err := yaml.YAMLToJSON(document)
		if err != nil {
			return nil, err
		}
		if string(bytes.TrimSpace(asJSON)) == "null" {
			continue
		}
		var values map[string]any
		if err := kjson.UnmarshalCaseSensitivePreserveInts(asJSON, &values); err != nil {
			return nil, errors.New("want a Kubernetes object, got YAML that is not a mapping")
		}
		found, err := objectOrList(values)
		if err != nil {
			return nil, err
		}
		out = append(out, found...)
	}
	if len(out) == 0 {
		return nil, errors.New("the file contains no object")
	}
	return out, nil
}

func objectOrList(values map[string]any) ([]stage.Object, error) {
	kind, _ := values["kind"].(string)
	version, _ := values["apiVersion"].(string)
	items, isList := values["items"].([]any)
	switch {
	case kind == "" || version == "":
		return nil, errors.New("want a Kubernetes object, got a mapping without apiVersion or kind")
	case kind == v1alpha1.StageKind && version == v1alpha1.GroupVersion.String():
		return nil, errors.New("want an object to play, got a Stage; name stages with --stages")
	case isList && strings.HasSuffix(kind, "List"):
		var out []stage.Object
		for _, item := range items {
			inner, _ := item.(map[string]any)
			found, err := objectOrList(inner)
			if err != nil {
				return nil, err
			}
			out = append(out, found...)
		}
		return out, nil
	}
	metadata, _ := values["metadata"].(map[string]any)
	name, _ := metadata["name"].(string)
	if name == "" {
		return nil, fmt.Errorf("%s has no metadata.name", kind)
	}
	o, err := stage.ObjectFrom(values)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", kind, name, err)
	}
	return []stage.Object{o}, nil
}

// completeStages completes the names of built-in stage files, in addition to files.
func completeStages(_ *cobra.Command, _ []string, toComplete string) ([]string, cobra.ShellCompDirective) {
	var out []string
	for _, name := range stage.BuiltinNames() {
		if full := stage.BuiltinPrefix + name; strings.HasPrefix(full, toComplete) && toComplete != "" {
			out = append(out, full)
		}
	}
	return out, cobra.ShellCompDirectiveDefault
}
