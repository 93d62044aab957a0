package snapshot

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// APIVersion is the version of the format. A file of another version in this group is rejected as newer or older.
const APIVersion = group + "/v1alpha1"

const (
	group            = "rehearse-k8s.github.io"
	kind             = "Snapshot"
	endKind          = "SnapshotEnd"
	recordingEndKind = "RecordingEnd"
)

// DataOmitted is the value of Header.SecretData of a file whose Secrets have no data.
const DataOmitted = "omitted"

// Format is the form of the documents in a file.
type Format int

// The formats. Readers detect them from the content.
const (
	YAML      Format = iota // readable, one field per line
	JSONLines               // compact, one object per line; faster to write and read
	Store                   // the whole store of an API server; see StoreWriter
)

// FormatOf returns the format that the name of a file selects, and whether the file is compressed: NAME.jsonl is JSONLines, NAME.store
// is Store, and every other name YAML; the suffix .gz selects compression.
func FormatOf(name string) (f Format, compressed bool) {
	name, compressed = strings.CutSuffix(name, ".gz")
	switch {
	case strings.HasSuffix(name, ".jsonl"):
		return JSONLines, compressed
	case strings.HasSuffix(name, ".store"):
		return Store, compressed
	}
	return YAML, compressed
}

// Header is what the first document of a file says about the file.
type Header struct {
	Created           string   // time of the start, in RFC 3339
	KubernetesVersion string   // version of the API server that the objects were read from
	RehearseVersion   string   // version of the program that wrote the file
	Only              []string // the kinds that were selected; empty: all
	Namespaces        []string // the namespaces that were selected; empty: all
	Selector          string   // the label selector; empty: all
	SecretData        string   // DataOmitted, or empty if the file contains the data of Secrets
	Recording         bool     // changes follow the objects
}

// document returns the first document of a file.
func (h Header) document() map[string]any {
	spec := map[string]any{}
	set := func(key, value string) {
		if value != "" {
			spec[key] = value
		}
	}
	list := func(key string, values []string) {
		if len(values) > 0 {
			out := make([]any, len(values))
			for i, v := range values {
				out[i] = v
			}
			spec[key] = out
		}
	}
	set("kubernetesVersion", h.KubernetesVersion)
	set("rehearseVersion", h.RehearseVersion)
	set("selector", h.Selector)
	set("secretData", h.SecretData)
	list("only", h.Only)
	list("namespaces", h.Namespaces)
	if h.Recording {
		spec["recording"] = true
	}
	doc := map[string]any{"apiVersion": APIVersion, "kind": kind, "spec": spec}
	if h.Created != "" {
		doc["metadata"] = map[string]any{"creationTimestamp": h.Created}
	}
	return doc
}

// headerOf reads the first document of a file, which must have the kind want.
func headerOf(doc map[string]any, want string) (Header, error) {
	version, _ := doc["apiVersion"].(string)
	gv, _ := schema.ParseGroupVersion(version)
	switch {
	case gv.Group == group && doc["kind"] == storeKind && want == kind:
		return Header{}, &FormatError{Message: "it is the snapshot of a store, with which a new cluster can begin: rehearse up --from FILE"}
	case gv.Group != group || doc["kind"] != want:
		return Header{}, withoutHeader(doc)
	case version != APIVersion:
		return Header{}, &FormatError{Message: fmt.Sprintf("the format of the snapshot is %s, and this program reads %s: use a newer rehearse", version, APIVersion)}
	}
	metadata, _ := doc["metadata"].(map[string]any)
	spec, _ := doc["spec"].(map[string]any)
	text := func(m map[string]any, key string) string {
		s, _ := m[key].(string)
		return s
	}
	list := func(key string) (out []string) {
		values, _ := spec[key].([]any)
		for _, v := range values {
			if s, ok := v.(string); ok {
				out = append(out, s)
			}
		}
		return out
	}
	return Header{
		Created: text(metadata, "creationTimestamp"), KubernetesVersion: text(spec, "kubernetesVersion"), RehearseVersion: text(spec, "rehearseVersion"),
		Only: list("only"), Namespaces: list("namespaces"), Selector: text(spec, "selector"), SecretData: text(spec, "secretData"),
		Recording: spec["recording"] == true,
	}, nil
}

// mayBegin reports whether the first document of a file can be that of a file of KWOK, which has no header.
func mayBegin(doc map[string]any) bool {
	version, _ := doc["apiVersion"].(string)
	gv, _ := schema.ParseGroupVersion(version)
	return gv.Group != group && gv.Version != "" && doc["kind"] != nil
}

// withoutHeader reports a file that begins with this document, which is neither a header nor an object.
func withoutHeader(doc map[string]any) error {
	version, _ := doc["apiVersion"].(string)
	return &FormatError{Message: fmt.Sprintf("not a snapshot: its first document must be kind %s of %s or an object with a name, and is kind %v of %q", kind, APIVersion, doc["kind"], version)}
}

// FormatError reports a file that is not a complete snapshot of a supported version.
type FormatError struct{ Message string }

func (e *FormatError) Error() string { return e.Message }
