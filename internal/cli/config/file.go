package config

import (
	"cmp"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/rehearse-k8s/rehearse/api/rehearse/v1alpha1"
	"github.com/rehearse-k8s/rehearse/internal/cli/console"
	"github.com/rehearse-k8s/rehearse/internal/stagefiles"
	"github.com/rehearse-k8s/rehearse/stage"
)

// Setting is the value of one field.
type Setting struct {
	// Field is the field of ClusterSpec, or "name".
	Field string
	// Values are the value in the form in which the flag of the field accepts it; several only if IsList is set.
	Values []string
	IsList bool
	// Place is the file, the line and the field.
	Place string
}

// File is what a file contains.
type File struct {
	Settings []Setting
	// HasStages reports whether the file contains stages or objects that configure kubelet endpoints.
	HasStages bool
	// Warnings name what the file contains and up does not use, with at most one warning for each kind.
	Warnings []string
}

// maxSize is the limit for a file, which is read into memory.
const maxSize = 16 << 20

// Read reads a file, or standard input for the name "-". Relative paths in it are relative to its directory. An error is a
// *console.UsageError that lists all mistakes.
func Read(c *console.Console, name string) (*File, error) {
	from, err := c.Open(name)
	if err != nil {
		return nil, err
	}
	defer from.Close()
	data, err := io.ReadAll(io.LimitReader(from, maxSize+1))
	switch {
	case err != nil:
		return nil, console.Usagef("--config: %v", err)
	case len(data) > maxSize:
		return nil, console.Usagef("--config %s: is larger than %d MiB", name, maxSize>>20)
	}
	return Decode(name, data)
}

// Decode is like Read for a file that has been read.
func Decode(name string, data []byte) (*File, error) {
	r := &reader{name: name, dir: "."}
	if name != console.Stdin {
		r.dir = filepath.Dir(name)
	}
	r.read(data)
	if len(r.problems) > 0 {
		slices.SortStableFunc(r.problems, func(a, b problem) int { return cmp.Compare(a.line, b.line) })
		texts := make([]string, len(r.problems))
		for i, p := range r.problems {
			texts[i] = fmt.Sprintf("%s:%d: %s", name, p.line, p.text)
		}
		return nil, console.Usagef("--config: %s", strings.Join(texts, "; "))
	}
	return &r.file, nil
}

// reader reads one file.
type reader struct {
	name, dir string
	file      File
	problems  []problem
	cluster   int // the line of the Cluster; 0: none
	unused    []unused
}

// problem is a mistake in the file.
type problem struct {
	line int
	text string
}

func (r *reader) reject(line int, format string, args ...any) {
	r.problems = append(r.problems, problem{line, fmt.Sprintf(format, args...)})
}

// read takes the Cluster and KWOK's configurations out of the file. The rest is for the stage engine, or has no effect.
func (r *reader) read(data []byte) {
	used := false
	var own []Setting
	var rest [][]byte
	for _, whole := range stage.Documents(data) {
		for _, d := range whole.Items() {
			if _, err := d.Root(); err != nil {
				r.reject(err.Line, "%s", err.Problem)
				return
			}
			var head metav1.TypeMeta
			_ = yaml.Unmarshal(d.Text(), &head) // a document that is no object is rejected as a stage
			version, _ := schema.ParseGroupVersion(head.APIVersion)
			switch {
			case head.Kind == v1alpha1.ClusterKind && (version.Group == v1alpha1.GroupVersion.Group || version.Group == ""):
				used = true
				own = append(own, r.readCluster(d, head)...)
			case kwokOptions[head.Kind] != nil && version.Group == stagefiles.KwokConfigGroup:
				used = true
				r.readKwok(d, head.Kind)
			default:
				rest = append(rest, d.Text())
				r.file.HasStages = r.file.HasStages || stagefiles.Applies(d.Text())
			}
		}
	}
	found := stagefiles.Split(stage.File{Name: r.name, Data: data})
	r.file.Settings = append(r.file.Settings, own...)
	if !used && !r.file.HasStages {
		r.reject(1, "contains no %s of apiVersion %s%s", v1alpha1.ClusterKind, v1alpha1.GroupVersion, otherKinds(rest))
		return
	}
	for _, u := range r.unused {
		r.file.Warnings = append(r.file.Warnings, u.warning(r.name))
	}
	for _, k := range found.Ignored {
		if version, _ := schema.ParseGroupVersion(k.APIVersion); version.Group == v1alpha1.GroupVersion.Group && k.Kind == v1alpha1.ClusterKind ||
			version.Group == stagefiles.KwokConfigGroup && kwokOptions[k.Kind] != nil {
			continue // used
		}
		r.file.Warnings = append(r.file.Warnings, fmt.Sprintf("%s: has no effect in a file of --config; %s", k.Place(), k.Advice()))
	}
}

// otherKinds names the kinds of a file in which nothing applies.
func otherKinds(documents [][]byte) string {
	var names []string
	for _, d := range documents {
		var head metav1.TypeMeta
		if yaml.Unmarshal(d, &head) == nil && head.Kind != "" {
			names = append(names, fmt.Sprintf("%s (%s)", head.Kind, head.APIVersion))
		}
	}
	if len(names) == 0 {
		return ""
	}
	slices.Sort(names)
	return "; it contains " + strings.Join(slices.Compact(names), ", ")
}

var yamlLine = regexp.MustCompile(`line (\d+): ([^\n]*)`)

// strictJSON converts a document to JSON, and rejects duplicate keys.
func (r *reader) strictJSON(d stage.Document) ([]byte, bool) {
	data, err := yaml.YAMLToJSONStrict(d.Text())
	if err == nil {
		return data, true
	}
	line, text := d.Line(), strings.Join(strings.Fields(err.Error()), " ")
	if m := yamlLine.FindStringSubmatch(err.Error()); m != nil {
		n, _ := strconv.Atoi(m[1])
		line, text = d.Line()-1+n, m[2]
	}
	r.reject(line, "%s", text)
	return nil, false
}
