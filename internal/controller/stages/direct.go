package stages

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// direct sends the frequent requests: those to known paths, with answers in protobuf. client-go's request
// builder costs more CPU for such a request than the rest of the engine: it builds the path twice, once for
// metrics that are not used, and looks up a decoder for each answer. Authentication, limits and metrics are in
// transports, and direct uses the same ones.
type direct struct {
	round http.RoundTripper
	base  url.URL
	agent []string
}

func newDirect(cfg *rest.Config) (*direct, error) {
	base, _, err := rest.DefaultServerUrlFor(cfg)
	if err != nil {
		return nil, err
	}
	round, err := rest.TransportFor(cfg)
	if err != nil {
		return nil, err
	}
	base.Path = strings.TrimRight(base.Path, "/")
	return &direct{round: round, base: *base, agent: []string{cfg.UserAgent}}, nil
}

// The content types of requests and answers.
var (
	asProtobuf = []string{runtime.ContentTypeProtobuf}
	accepted   = []string{runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON}
)

// call is one request. Its body is in protobuf unless contentType is set.
type call struct {
	method, path, query string
	encoding            string
	body                []byte
}

// send sends one request and returns the body of the answer. The errors are the same as client-go's.
func (d *direct) send(ctx context.Context, c call) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, c.method, "", bytes.NewReader(c.body))
	if err != nil {
		return nil, err
	}
	target := d.base
	target.Path += c.path
	target.RawQuery = c.query
	r.URL, r.Host = &target, target.Host
	r.Header["Accept"], r.Header["User-Agent"] = accepted, d.agent
	switch {
	case c.encoding != "":
		r.Header["Content-Type"] = []string{c.encoding}
	case c.body != nil:
		r.Header["Content-Type"] = asProtobuf
	}
	answer, err := d.round.RoundTrip(r)
	if err == nil {
		defer func() { _ = answer.Body.Close() }()
		var body []byte
		if body, err = readBody(answer); err == nil {
			return body, failure(c.method, answer, body)
		}
	}
	return nil, &url.Error{Op: c.method, URL: target.String(), Err: err}
}

// readBody reads the whole answer, so that its connection can be reused.
func readBody(answer *http.Response) ([]byte, error) {
	if answer.ContentLength <= 0 || answer.ContentLength > 1<<20 {
		return io.ReadAll(answer.Body)
	}
	body := make([]byte, answer.ContentLength)
	if _, err := io.ReadFull(answer.Body, body); err != nil {
		return nil, err
	}
	_, err := answer.Body.Read(nil) // read the EOF
	if err == io.EOF {
		err = nil
	}
	return body, err
}

// failure returns the error of an answer: the Status in it or, for an answer of a proxy in between, an error
// from the status code.
func failure(method string, answer *http.Response, body []byte) error {
	if answer.StatusCode >= 200 && answer.StatusCode < 300 {
		return nil
	}
	if object, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil); err == nil {
		if status, ok := object.(*metav1.Status); ok && status.Status != metav1.StatusSuccess {
			return apierrors.FromObject(status)
		}
	}
	wait, _ := strconv.Atoi(answer.Header.Get("Retry-After"))
	text := strings.TrimSpace(string(body[:min(len(body), 2048)]))
	return apierrors.NewGenericServerResponse(answer.StatusCode, method, schema.GroupResource{}, "", text, wait, true)
}

// protobufPrefix begins every object in protobuf; a runtime.Unknown follows.
var protobufPrefix = []byte("k8s\x00")

// message is an object that can be encoded in protobuf.
type message interface {
	runtime.Object
	Marshal() ([]byte, error)
	Unmarshal([]byte) error
}

// encode encodes an object in protobuf. The kind is an argument, because objects from caches have none.
func encode(apiVersion, kind string, o message) ([]byte, error) {
	raw, err := o.Marshal()
	if err != nil {
		return nil, err
	}
	object := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: apiVersion, Kind: kind}, Raw: raw}
	body := make([]byte, len(protobufPrefix)+object.Size())
	n, err := object.MarshalTo(body[copy(body, protobufPrefix):])
	return body[:len(protobufPrefix)+n], err
}

// decodeInto decodes an answer in protobuf or JSON. It reports whether the answer is of this kind; if it is
// not, o is unchanged.
func decodeInto(body []byte, apiVersion, kind string, o message) (bool, error) {
	rest, ok := bytes.CutPrefix(body, protobufPrefix)
	if !ok {
		var what metav1.TypeMeta
		if err := json.Unmarshal(body, &what); err != nil || what.APIVersion != apiVersion || what.Kind != kind {
			return false, err
		}
		return true, json.Unmarshal(body, o)
	}
	var object runtime.Unknown
	if err := object.Unmarshal(rest); err != nil || object.APIVersion != apiVersion || object.Kind != kind {
		return false, err
	}
	return true, o.Unmarshal(object.Raw)
}
