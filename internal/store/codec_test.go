package store

import (
	"encoding/json"
	"io"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// versionedJSON is a minimal codec with the behaviour of the custom resources' codec: it writes
// JSON, and decodes to the version that the object asks for, or else its own, by changing the
// apiVersion.
type versionedJSON struct{ version schema.GroupVersion }

func (c versionedJSON) Encode(obj runtime.Object, w io.Writer) error {
	return json.NewEncoder(w).Encode(obj.(*unstructured.Unstructured).Object)
}

func (c versionedJSON) Identifier() runtime.Identifier {
	return runtime.Identifier(c.version.String())
}

func (c versionedJSON) Decode(data []byte, _ *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	u, version := &unstructured.Unstructured{}, c.version.String()
	if into != nil {
		u = into.(*unstructured.Unstructured)
		if asked := u.GetAPIVersion(); asked != "" {
			version = asked
		}
	}
	obj, gvk, err := unstructured.UnstructuredJSONScheme.Decode(data, nil, u)
	if err != nil {
		return nil, nil, err
	}
	obj.(*unstructured.Unstructured).SetAPIVersion(version)
	return obj, gvk, nil
}

// deafCodec encodes, but its Decode always fails.
type deafCodec struct{ runtime.Codec }

func (deafCodec) Decode([]byte, *schema.GroupVersionKind, runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	return nil, nil, errRejected
}
