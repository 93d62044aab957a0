package scenario

import (
	"bytes"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/rehearse-k8s/rehearse/api/crds"
	"github.com/rehearse-k8s/rehearse/api/rehearse/v1alpha1"
)

// use is the step that objects are for.
type use bool

const (
	applied use = false
	created use = true // the API may choose the name
)

// builtinPrefix begins the names of built-in files.
const builtinPrefix = "builtin:"

func isBuiltin(file string) bool { return strings.HasPrefix(file, builtinPrefix) }

// BuiltinObjects is the file that defines the kind CloneSet, for clusters in which no
// controller of ours defines it.
const BuiltinObjects = builtinPrefix + "cloneset"

// manifest returns the objects of a manifest. Each has an apiVersion, a kind and a name.
func (c *checker) manifest(a at, m *v1alpha1.Manifest, u use) (objects []map[string]any) {
	file, object := a.field("file"), a.field("object")
	switch {
	case file.given() == object.given():
		c.report(a, "", "must have either file or object")
		return nil
	case object.given():
		return c.object(objects, object, u)
	}
	for _, d := range c.documentsOf(file, m.File) {
		objects = c.object(objects, d, u)
	}
	return objects
}

// documentsOf reads a file of objects, once.
func (c *checker) documentsOf(a at, file string) []at {
	if !isBuiltin(file) {
		file = c.resolve(file)
	}
	docs, known := c.files[file]
	if known {
		return docs
	}
	if data, ok := c.objectsIn(a, file); ok {
		before := len(c.all)
		if docs = c.documents(file, data); len(docs) == 0 && len(c.all) == before {
			c.report(a, a.text(), "contains no object")
		}
	}
	c.files[file] = docs
	return docs
}

func (c *checker) objectsIn(a at, file string) (data []byte, ok bool) {
	switch {
	case !isBuiltin(file):
		return c.read(a, file)
	case file == BuiltinObjects:
		return bytes.Join([][]byte{crds.CloneSet(), crds.CloneSetPolicies()}, []byte("\n---\n")), true
	}
	c.report(a, file, "unknown built-in file; want %s", BuiltinObjects)
	return nil, false
}

func (c *checker) object(objects []map[string]any, a at, u use) []map[string]any {
	before := len(c.all)
	var head struct{ APIVersion, Kind string }
	o, ok := value(a.node).(map[string]any)
	if !ok {
		c.report(a, a.text(), "must be an object and is %s", called(a.node))
		return objects
	}
	for _, one := range []struct {
		at
		into *string
	}{{a.field("apiVersion"), &head.APIVersion}, {a.field("kind"), &head.Kind}} {
		if !one.given() {
			c.report(one.at, "", "is missing")
		} else {
			c.decode(one.at, one.into)
		}
	}
	gv, err := schema.ParseGroupVersion(head.APIVersion)
	if err != nil {
		c.report(a.field("apiVersion"), head.APIVersion, "is not a group/version such as apps/v1")
	}
	if _, list := o["items"]; list && strings.HasSuffix(head.Kind, "List") {
		c.report(a.field("kind"), head.Kind, "lists are not supported; write each item as a document")
		return objects
	}
	c.metadata(a.field("metadata"), u)
	if len(c.all) > before {
		return objects
	}
	c.defined(gv, head.Kind, o)
	return append(objects, o)
}

func (c *checker) metadata(a at, u use) {
	var meta struct {
		Name, GenerateName, Namespace string
		Labels, Annotations           map[string]string
	}
	if a.given() && !c.kind(a, yaml.MappingNode, "an object") {
		return
	}
	// The API server checks the other fields of metadata.
	ok := c.decode(a.field("name"), &meta.Name)
	ok = c.decode(a.field("generateName"), &meta.GenerateName) && ok
	ok = c.decode(a.field("namespace"), &meta.Namespace) && ok
	ok = c.decode(a.field("labels"), &meta.Labels) && ok
	ok = c.decode(a.field("annotations"), &meta.Annotations) && ok
	if !ok {
		return
	}
	switch {
	case meta.Name != "":
	case meta.GenerateName == "":
		c.report(a.field("name"), "", "is missing")
	case u == applied:
		c.report(a.field("generateName"), meta.GenerateName, "an object that is applied needs a name; use create, or give a name")
	}
}

// defined records the scope of a kind that the scenario defines.
func (c *checker) defined(gv schema.GroupVersion, kind string, o map[string]any) {
	if gv.Group != "apiextensions.k8s.io" || kind != "CustomResourceDefinition" {
		return
	}
	spec, _ := o["spec"].(map[string]any)
	names, _ := spec["names"].(map[string]any)
	plural, _ := names["plural"].(string)
	group, _ := spec["group"].(string)
	if scope, _ := spec["scope"].(string); plural != "" && slices.Contains([]string{"Namespaced", "Cluster"}, scope) {
		c.scopes[plural+"."+group] = scope == "Namespaced"
	}
}
