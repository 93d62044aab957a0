package config

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rehearse-k8s/rehearse/api/rehearse/v1alpha1"
	"github.com/rehearse-k8s/rehearse/internal/cli/console"
	"github.com/rehearse-k8s/rehearse/internal/nearest"
	"github.com/rehearse-k8s/rehearse/stage"
)

// nameFlag is the flag that metadata.name stands for.
const nameFlag = "name"

// field is a field of ClusterSpec.
type field struct {
	name  string // in the file
	kind  reflect.Type
	index int
}

// fields are the fields of ClusterSpec.
func fields() []field {
	var out []field
	for f := range reflect.TypeFor[v1alpha1.ClusterSpec]().Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		out = append(out, field{name: name, kind: f.Type, index: f.Index[0]})
	}
	return out
}

// paths are the fields whose values are paths of files or directories.
var paths = []string{"kubeconfig", "from", "dataDir", "etcdCAFile", "etcdCertFile", "etcdKeyFile", "stages", "auditPolicy", "auditLog", "schedulerConfig"}

// FlagName returns the name of the flag that a field of spec stands for, or "": the names are equal without regard to case and
// dashes.
func FlagName(fieldName string, flags []string) string {
	for _, name := range flags {
		if strings.EqualFold(strings.ReplaceAll(name, "-", ""), fieldName) {
			return name
		}
	}
	return ""
}

// readCluster reads the Cluster.
func (r *reader) readCluster(d stage.Document, head metav1.TypeMeta) []Setting {
	if want := v1alpha1.GroupVersion.String(); head.APIVersion != want {
		r.reject(d.Line(), "apiVersion: %q: must be %s for kind %s", head.APIVersion, want, v1alpha1.ClusterKind)
		return nil
	}
	if r.cluster > 0 {
		r.reject(d.Line(), "is a second %s; the first is in line %d; write one in each file", v1alpha1.ClusterKind, r.cluster)
		return nil
	}
	r.cluster = d.Line()
	asJSON, ok := r.strictJSON(d)
	if !ok {
		return nil
	}
	c := &clusterReader{reader: r, source: d.Source(r.name)}
	top := c.object("", asJSON, "apiVersion", "kind", "metadata", "spec")
	metadata := c.object("metadata", top["metadata"], "name")
	var out []Setting
	if raw, ok := metadata["name"]; ok {
		if values, ok := c.values("metadata.name", reflect.TypeFor[string](), raw); ok {
			out = append(out, c.setting("metadata.name", nameFlag, values, false))
		}
	}
	all := fields()
	names := make([]string, len(all))
	for i, f := range all {
		names[i] = f.name
	}
	spec := c.object("spec", top["spec"], names...)
	for _, f := range all {
		raw, ok := spec[f.name]
		if !ok {
			continue
		}
		path := "spec." + f.name
		values, ok := c.values(path, f.kind, raw)
		if !ok {
			continue
		}
		if slices.Contains(paths, f.name) {
			for i := range values {
				values[i] = resolve(r.dir, values[i])
			}
		}
		out = append(out, c.setting(path, f.name, values, f.kind.Kind() == reflect.Slice))
	}
	return out
}

// resolve returns a path of the file as the caller finds it. Built-in stages and standard input have no directory.
func resolve(dir, path string) string {
	if strings.HasPrefix(path, stage.BuiltinPrefix) || path == console.Stdin || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

// clusterReader reads one Cluster.
type clusterReader struct {
	*reader
	source *stage.Source
}

func (c *clusterReader) line(path string) int {
	line, _, _ := c.source.Position(path)
	return line
}

func (c *clusterReader) setting(path, fieldName string, values []string, isList bool) Setting {
	return Setting{Field: fieldName, Values: values, IsList: isList, Place: fmt.Sprintf("%s:%d: %s", c.name, c.line(path), path)}
}

// object decodes an object, and rejects fields that are not known. Fields that are null are left out.
func (c *clusterReader) object(path string, raw json.RawMessage, known ...string) map[string]json.RawMessage {
	if raw == nil || string(raw) == "null" {
		return nil
	}
	var out map[string]json.RawMessage
	if err := json.Unmarshal(raw, &out); err != nil {
		c.reject(c.line(path), "%s: must be an object", path)
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(out)) {
		full := strings.TrimPrefix(path+"."+name, ".")
		if !slices.Contains(known, name) {
			c.reject(c.line(full), "%s: unknown field; %s", full, suggestion(name, known))
		}
		if string(out[name]) == "null" {
			delete(out, name)
		}
	}
	return out
}

// suggestion lists the known names that are most similar to an unknown one.
func suggestion(name string, known []string) string {
	if strings.Contains(name, "-") { // the name of a flag
		if f := FlagName(strings.ReplaceAll(name, "-", ""), known); f != "" {
			return "write " + f
		}
	}
	const most = 3
	return "nearest names: " + strings.Join(nearest.Names(name, known, most), ", ")
}

// values returns a value in the form in which flags accept it.
func (c *clusterReader) values(path string, kind reflect.Type, raw json.RawMessage) ([]string, bool) {
	want := ""
	switch kind {
	case reflect.TypeFor[*int]():
		var n int
		if json.Unmarshal(raw, &n) == nil {
			return []string{strconv.Itoa(n)}, true
		}
		want = "a whole number"
	case reflect.TypeFor[*bool]():
		var b bool
		if json.Unmarshal(raw, &b) == nil {
			return []string{strconv.FormatBool(b)}, true
		}
		want = "true or false"
	case reflect.TypeFor[*metav1.Duration]():
		var text string
		if json.Unmarshal(raw, &text) == nil {
			if d, err := time.ParseDuration(text); err == nil {
				return []string{d.String()}, true
			}
		}
		want = "a duration such as 40s or 2m"
	case reflect.TypeFor[[]string]():
		var list []string
		if json.Unmarshal(raw, &list) == nil && len(list) > 0 && !slices.Contains(list, "") {
			return list, true
		}
		want = "a list of texts, none of them empty, such as [a, b]; remove the field for the default"
	default:
		var text string
		if json.Unmarshal(raw, &text) == nil && text != "" {
			return []string{text}, true
		}
		want = "a text that is not empty; remove the field for the default"
	}
	c.reject(c.line(path), "%s: %s: must be %s", path, shorten(raw), want)
	return nil, false
}

// shorten returns a value as it is shown in an error.
func shorten(raw json.RawMessage) string {
	const most = 60
	if text := []rune(string(raw)); len(text) > most {
		return string(text[:most-1]) + "…"
	}
	return string(raw)
}
