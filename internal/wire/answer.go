package wire

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"

	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/inject"
)

// Answer is a complete response.
type Answer struct {
	Code   int
	Header http.Header
	Body   []byte
}

// Rejection is the answer by which a fault rejects a request.
func Rejection(c Call, r inject.Rejection) Answer {
	switch {
	case r.Code == http.StatusTooManyRequests:
		return Throttled(r.RetryAfter)
	case r.Code == http.StatusServiceUnavailable:
		return Unavailable()
	case r.Code == http.StatusForbidden && r.Quota:
		return OverQuota(c)
	case r.Code == http.StatusForbidden:
		return Denied(c)
	case r.Code == http.StatusGone:
		return ExpiredPage(c.Continue)
	case r.Unknown:
		return StorageTimeout()
	}
	return InternalError(c)
}

// OverQuota returns the answer to a create for which a ResourceQuota has no room.
func OverQuota(c Call) Answer {
	resource := "count/" + c.Resource
	if c.Resource == "pods" {
		resource = c.Resource
	}
	return Failure(apierrors.NewForbidden(c.group(), c.Name,
		fmt.Errorf("exceeded quota: rehearse, requested: %s=1, used: %[1]s=0, limited: %[1]s=0", resource)))
}

// Denied returns the answer to a write that an admission webhook denies.
func Denied(c Call) Answer {
	err := apierrors.NewForbidden(c.group(), c.Name, nil)
	err.ErrStatus.Message = fmt.Sprintf("admission webhook %q denied the request: a fault denied %s %s", webhook, c.Verb, c.Object)
	return Failure(err)
}

// webhook is the name of the admission webhook that denies writes.
const webhook = "deny.rehearse-k8s.github.io"

// Throttled returns the answer of an overloaded server. Retry-After has whole seconds, at least
// one.
func Throttled(retryAfter time.Duration) Answer {
	seconds := max(1, int((retryAfter+time.Second-1)/time.Second))
	a := Failure(apierrors.NewTooManyRequests("Too many requests, please try again later.", seconds))
	a.Header.Set("Retry-After", strconv.Itoa(seconds))
	return a
}

// InternalError returns the answer of a server that failed to process a request.
func InternalError(c Call) Answer {
	return Failure(apierrors.NewInternalError(fmt.Errorf("a fault rejected %s %s", c.Verb, c.Object)))
}

// Unavailable returns the answer while no API server is ready. Without Retry-After, client-go does not repeat the request.
func Unavailable() Answer {
	return Failure(apierrors.NewServiceUnavailable("no API server is ready"))
}

// StorageTimeout returns the answer of a server whose etcd did not answer in time: the write may have taken effect.
// kube-apiserver gives such an error no reason and no Retry-After, so client-go does not repeat the request.
func StorageTimeout() Answer {
	return Failure(&apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Message: "etcdserver: request timed out",
	}})
}

// ExpiredPage returns the answer to a request for a further page of a list whose state is no longer available: 410, with a token
// with which the client may get the rest of the list in its current state.
func ExpiredPage(token string) Answer {
	err := apierrors.NewResourceExpired("The provided continue parameter is too old to display a consistent list result. " +
		"Start a new list without the continue parameter, or use the token of this answer to get the rest of the list as it is now.")
	err.ErrStatus.ListMeta.Continue = currentToken(token)
	return Failure(err)
}

// currentToken returns the continue token for the rest of the list that token asks for, in its current state; empty if token has an
// unknown form. The revision of such a token is -1 (apiserver pkg/storage/continue.go).
func currentToken(token string) string {
	raw, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil {
		return ""
	}
	var t struct {
		APIVersion string `json:"v"`
		Revision   int64  `json:"rv"`
		Start      string `json:"start"`
	}
	if json.Unmarshal(raw, &t) != nil {
		return ""
	}
	t.Revision = -1
	if raw, err = json.Marshal(t); err != nil {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(raw)
}

// Expired returns the answer to a watch from a revision that the server no longer knows: status 200, and one
// ERROR frame with a Status of code 410 (kube-apiserver reports a watch's error on its stream). accept is the
// Accept header of the request.
func Expired(accept string) Answer {
	mediaType, _, _ := strings.Cut(accept, ",")
	frame, err := ExpiredFrame(mediaType)
	if err != nil { // an encoding that is unknown here: every client reads JSON
		mediaType = "application/json"
		if frame, err = ExpiredFrame(mediaType); err != nil {
			panic(err) // a Status can always be encoded
		}
	}
	return Answer{
		Code:   http.StatusOK,
		Header: http.Header{"Cache-Control": {"no-cache, private"}, "Content-Type": {mediaType}},
		Body:   frame,
	}
}

func expired() *apierrors.StatusError {
	return apierrors.NewResourceExpired("The resourceVersion for the provided watch is too old.")
}

// group returns the resource as errors contain it.
func (c *Call) group() schema.GroupResource { return schema.ParseGroupResource(c.Resource) }

// Failure encodes an error in JSON, which every client can read whatever encoding it accepts.
func Failure(err *apierrors.StatusError) Answer {
	status := statusOf(err)
	body, encodeErr := json.Marshal(status)
	if encodeErr != nil {
		panic(encodeErr) // a Status can always be encoded
	}
	return Answer{
		Code: int(status.Code),
		Header: http.Header{
			"Cache-Control":  {"no-cache, private"},
			"Content-Type":   {"application/json"},
			"Content-Length": {strconv.Itoa(len(body) + 1)},
		},
		Body: append(body, '\n'),
	}
}

func statusOf(err *apierrors.StatusError) *metav1.Status {
	status := err.Status()
	status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	return &status
}

// ExpiredFrame returns the frame that ends a watch because its revision is no longer available
// (410), in the encoding of the stream.
func ExpiredFrame(contentType string) ([]byte, error) {
	encoding, err := encodingOf(contentType)
	if err != nil {
		return nil, err
	}
	status := statusOf(expired())
	if encoding == jsonEncoding {
		raw, err := json.Marshal(status)
		if err != nil {
			return nil, err
		}
		frame, err := json.Marshal(metav1.WatchEvent{Type: "ERROR", Object: runtime.RawExtension{Raw: raw}})
		return append(frame, '\n'), err
	}
	if encoding == cborEncoding {
		return direct.Marshal(struct {
			Type   string         `json:"type"`
			Object *metav1.Status `json:"object"`
		}{"ERROR", status})
	}
	raw, err := status.Marshal()
	if err != nil {
		return nil, err
	}
	unknown := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: "v1", Kind: "Status"}, Raw: raw}
	envelope, err := unknown.Marshal()
	if err != nil {
		return nil, err
	}
	event := metav1.WatchEvent{Type: "ERROR", Object: runtime.RawExtension{Raw: append(protobufMagic[:len(protobufMagic):len(protobufMagic)], envelope...)}}
	message, err := event.Marshal()
	if err != nil {
		return nil, err
	}
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(message))), message...), nil
}

// ReadAnswer reads the name, namespace, UID and revision of the object in a successful answer; for
// a list, only the list's revision. The body must not be compressed.
func ReadAnswer(contentType string, body []byte) (history.Object, int64, error) {
	if _, err := encodingOf(contentType); err != nil {
		return history.Object{}, 0, err
	}
	o, err := readObject(body)
	if err != nil {
		return history.Object{}, 0, fmt.Errorf("read answer of %d bytes: %w", len(body), err)
	}
	if strings.HasSuffix(o.kind, "List") && o.name == "" {
		return history.Object{}, o.revision(), nil
	}
	return o.named(), o.revision(), nil
}
