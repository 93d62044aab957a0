package truth

import (
	"strconv"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
)

// Decodings remember what stored bytes mean. Runs of one test write the same bytes
// over and over; the objects are shared and nobody changes them.
type Decodings struct {
	mu    sync.Mutex
	known map[decodingKey]*unstructured.Unstructured
}

type decodingKey struct {
	value    string
	revision int64
}

// maxDecodings bounds the memory: beyond it all is forgotten.
const maxDecodings = 4096

func (d *Decodings) get(value []byte, revision int64) *unstructured.Unstructured {
	d.mu.Lock()
	defer d.mu.Unlock()
	if u, ok := d.known[decodingKey{string(value), revision}]; ok {
		return u
	}
	var u *unstructured.Unstructured
	if content, err := contentOf(value); err == nil {
		u = &unstructured.Unstructured{Object: content}
		u.SetResourceVersion(strconv.FormatInt(revision, 10))
	}
	if d.known == nil || len(d.known) >= maxDecodings {
		d.known = map[decodingKey]*unstructured.Unstructured{}
	}
	d.known[decodingKey{string(value), revision}] = u
	return u
}

// contentOf decodes what the store holds: custom resources are JSON, built-in kinds
// are protobuf of their storage version.
func contentOf(value []byte) (map[string]any, error) {
	if len(value) > 0 && value[0] == '{' {
		u := &unstructured.Unstructured{}
		err := u.UnmarshalJSON(value)
		return u.Object, err
	}
	obj, _, err := scheme.Codecs.UniversalDeserializer().Decode(value, nil, nil)
	if err != nil {
		return nil, err
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return nil, err
	}
	kinds, _, err := scheme.Scheme.ObjectKinds(obj)
	if err == nil && len(kinds) > 0 {
		content["apiVersion"], content["kind"] = kinds[0].GroupVersion().String(), kinds[0].Kind
	}
	return content, nil
}
