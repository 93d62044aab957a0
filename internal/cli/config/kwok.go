package config

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rehearse-k8s/rehearse/stage"
)

// kwokOption is an option of KWOK that up has too.
type kwokOption struct {
	field string // of ClusterSpec
	// suffix completes a number to a duration.
	suffix string
	isList bool // the option is a text with commas
	isPath bool
}

// kwokOptions are the options of KWOK's kinds that up has too.
var kwokOptions = map[string]map[string]kwokOption{
	"KwokConfiguration": {
		"nodeLeaseDurationSeconds": {field: "nodeLeaseDuration", suffix: "s"},
	},
	"KwokctlConfiguration": {
		"bindAddress":              {field: "bindAddress"},
		"kubeApiserverPort":        {field: "port"},
		"kubeFeatureGates":         {field: "featureGates", isList: true},
		"kubeRuntimeConfig":        {field: "runtimeConfig", isList: true},
		"kubeSchedulerConfig":      {field: "schedulerConfig", isPath: true},
		"nodeLeaseDurationSeconds": {field: "nodeLeaseDuration", suffix: "s"},
	},
}

// unused are the fields of a kind that up does not use.
type unused struct {
	kind   string
	line   int
	fields []string
}

func (u unused) warning(file string) string {
	slices.Sort(u.fields)
	return fmt.Sprintf("%s in %s:%d: up does not use %s", u.kind, file, u.line, strings.Join(slices.Compact(u.fields), ", "))
}

// readKwok reads a configuration of KWOK. KWOK itself ignores unknown fields; here they are among those that up does not use.
func (r *reader) readKwok(d stage.Document, kind string) {
	asJSON, ok := r.strictJSON(d)
	if !ok {
		return
	}
	source := d.Source(r.name)
	var top, options map[string]json.RawMessage
	if json.Unmarshal(asJSON, &top) != nil || top["options"] != nil && json.Unmarshal(top["options"], &options) != nil {
		r.reject(d.Line(), "options: must be an object")
		return
	}
	var rest []string
	for _, name := range slices.Sorted(maps.Keys(top)) {
		if !slices.Contains([]string{"apiVersion", "kind", "metadata", "options", "status"}, name) {
			rest = append(rest, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(options)) {
		o, known := kwokOptions[kind][name]
		path := "options." + name
		if !known {
			rest = append(rest, path)
			continue
		}
		line, _, _ := source.Position(path)
		var value any
		_ = json.Unmarshal(options[name], &value) // it is valid JSON
		text := fmt.Sprint(value)
		switch value := value.(type) {
		case float64:
			text = fmt.Sprintf("%.0f", value)
		case string:
		default:
			r.reject(line, "%s: %s: must be a text or a number", path, shorten(options[name]))
			continue
		}
		if text == "" {
			continue // KWOK's default
		}
		values := []string{text + o.suffix}
		if o.isList {
			values = strings.Split(text, ",")
		}
		if o.isPath {
			values[0] = resolve(r.dir, values[0])
		}
		r.file.Settings = append(r.file.Settings, Setting{Field: o.field, Values: values, IsList: o.isList, Place: fmt.Sprintf("%s:%d: %s", r.name, line, path)})
	}
	if len(rest) == 0 {
		return
	}
	if i := slices.IndexFunc(r.unused, func(u unused) bool { return u.kind == kind }); i >= 0 {
		r.unused[i].fields = append(r.unused[i].fields, rest...)
		return
	}
	r.unused = append(r.unused, unused{kind, d.Line(), rest})
}
