package snapshot

import (
	"fmt"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Method says what a change does with its object.
type Method string

// The methods.
const (
	Create Method = "create"
	Patch  Method = "patch"
	Delete Method = "delete"
)

// The document of a change is KWOK's ResourcePatch. KWOK's type has no metadata; its decoder ignores ours.
const (
	patchGroup      = "action.kwok.x-k8s.io"
	patchAPIVersion = patchGroup + "/v1alpha1"
	patchKind       = "ResourcePatch"

	// NumberAnnotation numbers the changes of a recording from 1, so that a reader detects one that is missing.
	NumberAnnotation = group + "/change"
	// ManagerAnnotation is the field manager of the newest entry in metadata.managedFields of the changed object.
	ManagerAnnotation = group + "/manager"
)

// Change is one change of an object in a recording.
type Change struct {
	Document        int           // the number of its document in the file, from 1; Writer ignores it
	After           time.Duration // since the start of the recording
	Resource        schema.GroupVersionResource
	Namespace, Name string
	Method          Method
	// Template is the object of Create, and the patch of Patch: a strategic merge patch for the kinds that client-go defines, and a
	// JSON merge patch for others.
	Template map[string]any
	Manager  string // of the newest write, if it is known
	number   int    // of NumberAnnotation; 0 without it
}

// String describes the object of a change as "RESOURCE NAMESPACE/NAME".
func (c Change) String() string {
	name := c.Name
	if c.Namespace != "" {
		name = c.Namespace + "/" + name
	}
	return c.Resource.GroupResource().String() + " " + name
}

// document returns the document of a change with this number.
func (c Change) document(number int) map[string]any {
	annotations := map[string]any{NumberAnnotation: strconv.Itoa(number)}
	if c.Manager != "" {
		annotations[ManagerAnnotation] = c.Manager
	}
	resource := map[string]any{"version": c.Resource.Version, "resource": c.Resource.Resource}
	if c.Resource.Group != "" {
		resource["group"] = c.Resource.Group
	}
	target := map[string]any{"name": c.Name}
	if c.Namespace != "" {
		target["namespace"] = c.Namespace
	}
	doc := map[string]any{
		"apiVersion": patchAPIVersion, "kind": patchKind, "metadata": map[string]any{"annotations": annotations},
		"resource": resource, "target": target, "durationNanosecond": int64(c.After), "method": string(c.Method),
	}
	if c.Template != nil {
		doc["template"] = c.Template
	}
	return doc
}

// isChange reports whether a document is a change, of any version.
func isChange(doc map[string]any) bool {
	version, _ := doc["apiVersion"].(string)
	gv, _ := schema.ParseGroupVersion(version)
	return gv.Group == patchGroup
}

// changeOf reads the document of a change, and returns why it is invalid, empty if it is valid.
func changeOf(doc map[string]any) (c Change, reason string) {
	if doc["apiVersion"] != patchAPIVersion || doc["kind"] != patchKind {
		return c, fmt.Sprintf("kind %v of %v: this program reads kind %s of %s", doc["kind"], doc["apiVersion"], patchKind, patchAPIVersion)
	}
	text := func(path ...string) string {
		s, _, _ := unstructured.NestedString(doc, path...)
		return s
	}
	c = Change{
		Resource:  schema.GroupVersionResource{Group: text("resource", "group"), Version: text("resource", "version"), Resource: text("resource", "resource")},
		Namespace: text("target", "namespace"), Name: text("target", "name"), Method: Method(text("method")),
		Manager: text("metadata", "annotations", ManagerAnnotation),
	}
	if n := text("metadata", "annotations", NumberAnnotation); n != "" {
		var err error
		if c.number, err = strconv.Atoi(n); err != nil || c.number < 1 {
			return c, fmt.Sprintf("annotation %s: %q must be a number from 1", NumberAnnotation, n)
		}
	}
	after, ok := doc["durationNanosecond"].(int64)
	if c.After = time.Duration(after); !ok || after < 0 {
		return c, fmt.Sprintf("durationNanosecond %v must be a whole number that is not negative", doc["durationNanosecond"])
	}
	switch {
	case c.Resource.Version == "" || c.Resource.Resource == "":
		return c, "resource.version and resource.resource are required"
	case c.Name == "":
		return c, "target.name is required"
	case c.Method != Create && c.Method != Patch && c.Method != Delete:
		return c, fmt.Sprintf("method %q: must be %s, %s or %s", c.Method, Create, Patch, Delete)
	case c.Method == Delete:
		return c, ""
	}
	if c.Template, ok = doc["template"].(map[string]any); !ok {
		return c, fmt.Sprintf("method %s requires template, an object", c.Method)
	}
	if c.Method == Create {
		obj := &unstructured.Unstructured{Object: c.Template}
		if reason = invalid(obj); reason != "" {
			return c, "template: " + reason
		}
		if obj.GetName() != c.Name || obj.GetNamespace() != c.Namespace {
			return c, fmt.Sprintf("template is the object %s/%s, and target is %s/%s", obj.GetNamespace(), obj.GetName(), c.Namespace, c.Name)
		}
	}
	return c, ""
}
