package clonesetapi

import (
	"strconv"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

var (
	v1alpha1 = schema.GroupVersionResource{Group: "apps.kruise.io", Version: "v1alpha1", Resource: "clonesets"}
	v1beta1  = schema.GroupVersionResource{Group: "apps.kruise.io", Version: "v1beta1", Resource: "clonesets"}
)

const alpha = `
apiVersion: apps.kruise.io/v1alpha1
kind: CloneSet
metadata: {name: web, namespace: default}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: a, image: "a:1"}]}
`

const beta = `
apiVersion: apps.kruise.io/v1beta1
kind: CloneSet
metadata: {name: web, namespace: default}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: a, image: "a:1"}]}
`

func parse(text string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
		panic(err)
	}
	return u
}

// with returns an object with more fields of a spec, given as YAML and merged: objects are merged, other
// values replaced.
func with[T string | *unstructured.Unstructured](base T, spec string) *unstructured.Unstructured {
	u, parsed := any(base).(*unstructured.Unstructured)
	if !parsed {
		u = parse(any(base).(string))
	}
	more := map[string]any{}
	if err := yaml.Unmarshal([]byte(spec), &more); err != nil {
		panic(err)
	}
	merge(u.Object, map[string]any{"spec": more})
	return u
}

func merge(into, from map[string]any) {
	for k, v := range from {
		inner, ok := v.(map[string]any)
		if old, both := into[k].(map[string]any); ok && both {
			merge(old, inner)
			continue
		}
		if v == nil {
			delete(into, k)
			continue
		}
		into[k] = v
	}
}

func set(u *unstructured.Unstructured, value any, path ...string) {
	var at any = u.Object
	for i, key := range path {
		last := i == len(path)-1
		switch v := at.(type) {
		case map[string]any:
			if last {
				v[key] = value
				return
			}
			if v[key] == nil {
				v[key] = map[string]any{}
			}
			at = v[key]
		case []any:
			n, err := strconv.Atoi(key)
			if err != nil {
				panic(err)
			}
			at = v[n]
		}
	}
}

func get(t *testing.T, u *unstructured.Unstructured, path ...string) any {
	t.Helper()
	v, _, err := unstructured.NestedFieldNoCopy(u.Object, path...)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// create creates an object under a name of the test's own, and deletes it when the test ends.
func create(t *testing.T, u *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	u.SetName("")
	u.SetGenerateName("web-")
	made, err := client.Resource(resource(u)).Namespace("default").Create(t.Context(), u, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func resource(u *unstructured.Unstructured) schema.GroupVersionResource {
	return u.GroupVersionKind().GroupVersion().WithResource("clonesets")
}

func read(t *testing.T, version schema.GroupVersionResource, name string) *unstructured.Unstructured {
	t.Helper()
	u, err := client.Resource(version).Namespace("default").Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return u
}
