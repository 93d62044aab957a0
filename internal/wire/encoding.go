package wire

import (
	"errors"
	"fmt"
	"strings"
)

var errProtobuf = errors.New("wire: the message is not well-formed protobuf")

// encoding is the encoding of the objects of a body or stream.
type encoding int

const (
	jsonEncoding encoding = iota
	protobufEncoding
	cborEncoding
)

// encodingOf reads a Content-Type. An empty one means JSON, as for the API server.
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
	return 0, fmt.Errorf("wire: unsupported content type %q: want JSON, Kubernetes protobuf or CBOR", contentType)
}
