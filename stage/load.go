package stage

import (
	"bytes"
	"embed"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strconv"
	"strings"

	"github.com/rehearse-k8s/rehearse/api/kwok/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// File is the text of a file of stages.
type File struct {
	Name string
	Data []byte
}

// Load reads the stages of a file: YAML or JSON, one or more documents, all of kind Stage or lists of them.
// Decoding is strict: an unknown or duplicate field is an error, as is everything that Compile rejects. Errors are
// *Error values (joined if there are several) with file, line, stage and field.
func Load(file string, data []byte) ([]Stage, error) {
	_, stages, bad := LoadGood(File{Name: file, Data: data})
	if len(bad) > 0 {
		return nil, joined(bad)
	}
	return stages, nil
}

// LoadGood reads files and continues with the valid stages: it returns them compiled and in their original form,
// and one *Error for each invalid stage. The errors of the set contain file and line.
func LoadGood(files ...File) (*Set, []Stage, []*Error) {
	var sources []Source
	var bad []*Error
	for _, f := range files {
		found, wrong := decode(f.Name, f.Data)
		if len(found)+len(wrong) == 0 {
			wrong = []*Error{{File: f.Name, Problem: "no Stage in this file"}}
		}
		sources, bad = append(sources, found...), append(bad, wrong...)
	}
	set, wrong := compileAll(sources)
	rejected := map[*Stage]bool{}
	var stages []Stage
	for _, e := range wrong {
		rejected[e.of] = true
	}
	for i := range sources {
		if !rejected[sources[i].Stage] {
			stages = append(stages, *sources[i].Stage)
		}
	}
	return set, stages, append(bad, wrong...)
}

// mostBytes limits the size of a document. The API rejects larger objects too.
const mostBytes = 3 << 20

func decode(file string, data []byte) ([]Source, []*Error) {
	var out []Source
	var bad []*Error
	for n, whole := range Documents(data) {
		for i, d := range whole.Items() {
			src, err := DecodeOne(file, d)
			if err != nil {
				err.File = file
				switch {
				case err.Stage != "":
				case d.item != nil:
					err.Problem = fmt.Sprintf("item %d: %s", i+1, err.Problem)
				case n > 0:
					err.Problem = fmt.Sprintf("document %d: %s", n+1, err.Problem)
				}
				bad = append(bad, err)
				continue
			}
			if src != nil {
				out = append(out, *src)
			}
		}
	}
	return out, bad
}

const noStage = "not an object: a stage is a mapping of apiVersion, kind, metadata and spec"

// DecodeOne decodes one document. A document with only comments gives nil.
func DecodeOne(file string, d Document) (*Source, *Error) {
	if len(d.text) > mostBytes {
		return nil, d.tooLarge()
	}
	asJSON, err := yaml.YAMLToJSONStrict(d.text)
	if err != nil {
		failed := yamlError(err, d.first)
		if d.item != nil {
			failed.Line = d.Line() // the parser counts from the start of the item
		}
		return nil, failed
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
	src := d.Source(file)
	if !bytes.HasPrefix(asJSON, []byte("{")) {
		return nil, src.place(&Error{Problem: noStage})
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(asJSON, &head); err != nil {
		return nil, src.place(decodeError(err))
	}
	src.Stage.Name = head.Metadata.Name
	if want := v1alpha1.GroupVersion.String(); head.Kind != v1alpha1.StageKind || head.APIVersion != want {
		return nil, src.place(problem("kind", fmt.Sprintf("this is kind %q of apiVersion %q; want kind Stage of apiVersion %s", head.Kind, head.APIVersion, want)))
	}
	stage := &Stage{}
	strict, err := kjson.UnmarshalStrict(asJSON, stage)
	if err == nil && len(strict) > 0 {
		err = strict[0]
	}
	if err != nil {
		return nil, src.place(decodeError(err))
	}
	src.Stage = stage
	return src, nil
}

var (
	yamlLine      = regexp.MustCompile(`line (\d+): (.*)`)
	unknownField  = regexp.MustCompile(`^unknown field "(.*)"$`)
	wrongTypeText = regexp.MustCompile(`^json: cannot unmarshal (.+) into Go struct field [A-Za-z]*\.(?:TypeMeta\.)?(\S+) of type (\S+)$`)
)

// yamlError converts an error of the parser to one line.
func yamlError(err error, first int) *Error {
	e := &Error{Line: first + 1, Problem: strings.Join(strings.Fields(err.Error()), " ")} // the parser reports no line for the first one
	if m := yamlLine.FindStringSubmatch(err.Error()); m != nil {
		n, _ := strconv.Atoi(m[1])
		e.Line, e.Problem = first+n, "yaml: "+m[2]
	}
	return e
}

// decodeError finds the field that a decoder's error names.
func decodeError(err error) *Error {
	if m := unknownField.FindStringSubmatch(err.Error()); m != nil {
		return problem(m[1], "unknown field")
	}
	if m := wrongTypeText.FindStringSubmatch(err.Error()); m != nil {
		article := "a"
		if m[1] == "array" || m[1] == "object" {
			article = "an"
		}
		return problem(m[2], fmt.Sprintf("is %s %s and must be of type %s", article, m[1], strings.TrimPrefix(m[3], "v1alpha1.")))
	}
	return &Error{Problem: err.Error()}
}

//go:embed builtin/*.yaml
var builtinFiles embed.FS

// BuiltinPrefix is the prefix of built-in stage files on command lines.
const BuiltinPrefix = "builtin:"

// BuiltinNames lists the built-in stage files, sorted. pod-fast and pod-general are alternatives and cannot be used
// together.
func BuiltinNames() []string {
	entries, _ := fs.ReadDir(builtinFiles, "builtin")
	var names []string
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), path.Ext(e.Name())))
	}
	return names
}

// BuiltinFile returns the text of a built-in stage file. The name may have BuiltinPrefix.
func BuiltinFile(name string) ([]byte, error) {
	short := strings.TrimPrefix(name, BuiltinPrefix)
	data, err := builtinFiles.ReadFile("builtin/" + short + ".yaml")
	if err != nil {
		return nil, &Error{File: BuiltinPrefix + short, Problem: "unknown built-in file; known: " + strings.Join(BuiltinNames(), ", ")}
	}
	return data, nil
}

// Builtin returns the stages of built-in files, by default of node-fast and pod-fast. Names may have BuiltinPrefix;
// an unknown name is an *Error.
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
