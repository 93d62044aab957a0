package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"

	metainternalversionscheme "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"
)

// OnlyUID adds a precondition on the UID to the body of a delete and returns the body in JSON. The
// options of a delete without a body are in its query.
func OnlyUID(body []byte, query url.Values, uid types.UID) ([]byte, error) {
	options, err := deleteOptions(body, query)
	if err != nil {
		return nil, fmt.Errorf("read DeleteOptions: %w", err)
	}
	if options.Preconditions == nil {
		options.Preconditions = &metav1.Preconditions{}
	}
	if had := options.Preconditions.UID; had == nil || *had == uid {
		options.Preconditions.UID = &uid
	} // else the object was already replaced
	options.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "DeleteOptions"}
	return json.Marshal(options)
}

func deleteOptions(body []byte, query url.Values) (*metav1.DeleteOptions, error) {
	options := &metav1.DeleteOptions{}
	switch {
	case len(body) == 0:
		return options, metainternalversionscheme.ParameterCodec.DecodeParameters(query, metav1.SchemeGroupVersion, options)
	case bytes.HasPrefix(body, cborMagic):
		return options, direct.Unmarshal(body, options)
	case bytes.HasPrefix(body, protobufMagic):
		var outer runtime.Unknown
		if err := outer.Unmarshal(body[len(protobufMagic):]); err != nil {
			return nil, err
		}
		return options, options.Unmarshal(outer.Raw)
	}
	return options, yaml.Unmarshal(body, options) // JSON is YAML
}
