package apiserver

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
)

// DecodeStored decodes the bytes that the API server stores into the JSON form of the object: custom
// resources are stored as JSON, built-in kinds as protobuf of their storage version.
func DecodeStored(value []byte) (map[string]any, error) {
	if len(value) > 0 && value[0] == '{' {
		u := &unstructured.Unstructured{}
		err := u.UnmarshalJSON(value)
		return u.Object, err
	}
	object, _, err := scheme.Codecs.UniversalDeserializer().Decode(value, nil, nil)
	if err != nil {
		return nil, err
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil, err
	}
	kinds, _, err := scheme.Scheme.ObjectKinds(object)
	if err == nil && len(kinds) > 0 {
		content["apiVersion"], content["kind"] = kinds[0].GroupVersion().String(), kinds[0].Kind
	}
	return content, nil
}
