package wire

import (
	"errors"
	"fmt"
	"strings"
)

var errProtobuf = errors.New("wire: the message is not well-formed protobuf")

// encoding is how the objects of a body or stream are written.
type encoding int

const (
	jsonEncoding encoding = iota
	protobufEncoding
	cborEncoding
)

// encodingOf reads a Content-Type. An empty one is JSON, as the API server has it.
func encodingOf(contentType string) (encoding, error) {
	media, _, _ := strings.Cut(contentType, ";")
	switch media := strings.TrimSpace(media); {
	case media == "" || strings.EqualFold(media, "application/json"):
		return jsonEncoding, nil
	case strings.EqualFold(media, "application/vnd.kubernetes.protobuf"):
		return protobufEncoding, nil
	case strings.EqualFold(media, "application/cbor"), strings.EqualFold(media, "application/cbor-seq"):
		return cborEncoding, nil
	}
	return 0, fmt.Errorf("wire: content type %q is neither JSON nor Kubernetes protobuf nor CBOR; let the client accept one of them", contentType)
}
