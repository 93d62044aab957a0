package controller

import (
	"bytes"
	"context"
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

// direct sends requests that are made by the thousand, in protobuf, to paths that
// are known. client-go's builder spends more on such a request than all the rest
// of the engine: it builds the path twice, once for metrics that nobody reads,
// and finds a decoder for each answer. What guards, counts and authenticates
// requests are transports, and those are the same here.
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

// What is sent, and what is understood.
var (
	asProtobuf = []string{runtime.ContentTypeProtobuf}
	accepted   = []string{runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON}
)

// send sends one request with an object in protobuf as its body, if any, and
// returns the body of the answer. The errors are those that client-go makes.
func (d *direct) send(ctx context.Context, method, path string, body []byte) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, method, "", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	target := d.base
	target.Path += path
	r.URL, r.Host = &target, target.Host
	r.Header["Accept"], r.Header["User-Agent"] = accepted, d.agent
	if body != nil {
		r.Header["Content-Type"] = asProtobuf
	}
	answer, err := d.round.RoundTrip(r)
	if err == nil {
		defer func() { _ = answer.Body.Close() }()
		if body, err = readBody(answer); err == nil {
			return body, failure(method, answer, body)
		}
	}
	return nil, &url.Error{Op: method, URL: target.String(), Err: err}
}

// readBody reads all of an answer, which frees its connection.
func readBody(answer *http.Response) ([]byte, error) {
	if answer.ContentLength <= 0 || answer.ContentLength > 1<<20 {
		return io.ReadAll(answer.Body)
	}
	body := make([]byte, answer.ContentLength)
	if _, err := io.ReadFull(answer.Body, body); err != nil {
		return nil, err
	}
	_, err := answer.Body.Read(nil) // the end itself
	if err == io.EOF {
		err = nil
	}
	return body, err
}

// failure is the error that an answer tells of: the Status in it, or what can be
// said of one that comes from something between us and the API server.
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

// message is an object that has a form in protobuf.
type message interface {
	runtime.Object
	Marshal() ([]byte, error)
	Unmarshal([]byte) error
}

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

// decodeInto reads an answer, also one in JSON.
func decodeInto(body []byte, o message) error {
	rest, ok := bytes.CutPrefix(body, protobufPrefix)
	if !ok {
		_, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, o)
		return err
	}
	var object runtime.Unknown
	if err := object.Unmarshal(rest); err != nil {
		return err
	}
	return o.Unmarshal(object.Raw)
}
