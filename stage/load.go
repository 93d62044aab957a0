package stage

import (
	"bufio"
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"

	"github.com/rehearse-k8s/rehearse/api/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// Load reads the stages of a file: YAML or JSON, one or more documents, all of
// kind Stage. Decoding is strict: an unknown or doubled field is an error, as is
// anything Compile would refuse. Errors are *Error values (joined when there
// are several) that name file, stage and field.
func Load(file string, data []byte) ([]Stage, error) {
	stages, err := decode(file, data)
	if err != nil {
		return nil, err
	}
	if len(stages) == 0 {
		return nil, &Error{File: file, Problem: "no Stage in this file"}
	}
	if _, err := compileAll(stages, func(int) string { return file }); err != nil {
		return nil, err
	}
	return stages, nil
}

func decode(file string, data []byte) ([]Stage, error) {
	var stages []Stage
	var failed []error
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for n := 1; ; n++ {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, &Error{File: file, Problem: err.Error()}
		}
		stage, err := decodeOne(document)
		if err != nil {
			var e *Error
			if !errors.As(err, &e) {
				e = &Error{Problem: err.Error()}
			}
			e.File = file
			if e.Stage == "" && n > 1 {
				e.Problem = fmt.Sprintf("document %d: %s", n, e.Problem)
			}
			failed = append(failed, e)
			continue
		}
		if stage != nil {
			stages = append(stages, *stage)
		}
	}
	return stages, errors.Join(failed...)
}

// decodeOne decodes one document; a document of comments only gives nil.
func decodeOne(document []byte) (*Stage, error) {
	asJSON, err := yaml.YAMLToJSONStrict(document)
	if err != nil {
		return nil, err
	}
	if string(bytes.TrimSpace(asJSON)) == "null" {
		return nil, nil
	}
	var head struct {
		metav1.TypeMeta `json:",inline"`
		Metadata        struct {
			Name string `json:"name"`
		} `json:"metadata"`
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(asJSON, &head); err != nil {
		return nil, err
	}
	if want := v1alpha1.GroupVersion.String(); head.Kind != v1alpha1.StageKind || head.APIVersion != want {
		return nil, &Error{Stage: head.Metadata.Name,
			Problem: fmt.Sprintf("this is kind %q of apiVersion %q; only kind Stage of apiVersion %s is read", head.Kind, head.APIVersion, want)}
	}
	stage := &Stage{}
	strict, err := kjson.UnmarshalStrict(asJSON, stage)
	if err != nil {
		return nil, &Error{Stage: head.Metadata.Name, Problem: err.Error()}
	}
	if len(strict) > 0 {
		return nil, &Error{Stage: head.Metadata.Name, Problem: strict[0].Error()}
	}
	return stage, nil
}

//go:embed builtin/*.yaml
var builtinFiles embed.FS

// BuiltinPrefix starts the names of built-in stage files on command lines.
const BuiltinPrefix = "builtin:"

// BuiltinNames lists the built-in stage files: node-fast, node-heartbeat,
// pod-fast.
func BuiltinNames() []string {
	entries, _ := fs.ReadDir(builtinFiles, "builtin")
	var names []string
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), path.Ext(e.Name())))
	}
	return names
}

// BuiltinFile is the text of a built-in stage file; the name may carry
// BuiltinPrefix.
func BuiltinFile(name string) ([]byte, error) {
	short := strings.TrimPrefix(name, BuiltinPrefix)
	data, err := builtinFiles.ReadFile("builtin/" + short + ".yaml")
	if err != nil {
		return nil, &Error{File: BuiltinPrefix + short, Problem: "there is no such built-in file; there are " + strings.Join(BuiltinNames(), ", ")}
	}
	return data, nil
}

// Builtin returns the stages of built-in files, by default of node-fast and
// pod-fast. Names may carry BuiltinPrefix; an unknown one is an *Error.
func Builtin(names ...string) ([]Stage, error) {
	if len(names) == 0 {
		names = []string{"node-fast", "pod-fast"}
	}
	var out []Stage
	for _, name := range names {
		data, err := BuiltinFile(name)
		if err != nil {
			return nil, err
		}
		stages, err := Load(BuiltinPrefix+strings.TrimPrefix(name, BuiltinPrefix), data)
		if err != nil {
			return nil, err
		}
		out = append(out, stages...)
	}
	return out, nil
}
