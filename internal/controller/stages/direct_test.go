package stages

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// directTo returns a direct whose server is a function.
func directTo(t *testing.T, host string, round wireFunc) *direct {
	t.Helper()
	d, err := newDirect(&rest.Config{Host: host, UserAgent: "us", Transport: round})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestDirectErrors checks that the errors of answers are the same as client-go's.
func TestDirectErrors(t *testing.T) {
	leases := schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}
	status := func(err *apierrors.StatusError) (int, []byte, []byte) {
		s := err.Status()
		s.Kind, s.APIVersion = "Status", "v1"
		inJSON, _ := json.Marshal(&s)
		inProtobuf, _ := encode("v1", "Status", &s)
		return int(s.Code), inJSON, inProtobuf
	}
	delay := func(err error) bool { seconds, ok := apierrors.SuggestsClientDelay(err); return ok && seconds == 7 }
	for name, c := range map[string]struct {
		err *apierrors.StatusError
		is  func(error) bool
	}{
		"conflict": {apierrors.NewConflict(leases, "n", errors.New("changed")), apierrors.IsConflict},
		"gone":     {apierrors.NewNotFound(leases, "n"), apierrors.IsNotFound},
		"busy":     {apierrors.NewTooManyRequests("wait", 7), delay},
	} {
		code, inJSON, inProtobuf := status(c.err)
		for _, body := range [][]byte{inJSON, inProtobuf} {
			d := directTo(t, "http://x", func(*http.Request) (*http.Response, error) {
				return &http.Response{StatusCode: code, ContentLength: int64(len(body)), Body: io.NopCloser(bytes.NewReader(body))}, nil
			})
			if _, err := d.send(t.Context(), call{method: http.MethodPut, path: leasesPath, body: []byte("x")}); !c.is(err) || err.Error() != c.err.Error() {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	d := directTo(t, "http://x", func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 503, ContentLength: -1, Header: http.Header{"Retry-After": {"7"}}, Body: io.NopCloser(bytes.NewBufferString("a proxy's page"))}, nil
	})
	if _, err := d.send(t.Context(), call{method: http.MethodPut, path: leasesPath, body: []byte("x")}); !apierrors.IsServiceUnavailable(err) || !delay(err) {
		t.Errorf("from a proxy: %v", err)
	}
	d = directTo(t, "http://x", func(*http.Request) (*http.Response, error) { return nil, context.Canceled })
	var reached *url.Error
	if _, err := d.send(t.Context(), call{method: http.MethodPut, path: leasesPath}); !errors.Is(err, context.Canceled) || !errors.As(err, &reached) {
		t.Errorf("no answer: %v", err)
	}
	// An answer that breaks off is an error.
	d = directTo(t, "http://x", func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 200, ContentLength: 10, Body: io.NopCloser(bytes.NewBufferString("half"))}, nil
	})
	if _, err := d.send(t.Context(), call{method: http.MethodPut, path: leasesPath}); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("half an answer: %v", err)
	}
}

// TestDirectRequests checks a server behind a path prefix, and answers in JSON.
func TestDirectRequests(t *testing.T) {
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "n", ResourceVersion: "7"}}
	var sent *http.Request
	var body []byte
	d := directTo(t, "https://proxy.example/k8s/one/", func(r *http.Request) (*http.Response, error) {
		sent = r
		body, _ = io.ReadAll(r.Body)
		return &http.Response{StatusCode: 200, ContentLength: -1, Body: io.NopCloser(bytes.NewBufferString(
			`{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"n","resourceVersion":"8"}}`))}, nil
	})
	text, err := encode(leaseVersion, leaseKind, lease)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := d.send(t.Context(), call{method: http.MethodPut, path: leasesPath + "/n", query: "a=b", body: text})
	if err != nil {
		t.Fatal(err)
	}
	if sent.URL.String() != "https://proxy.example/k8s/one"+leasesPath+"/n?a=b" || sent.UserAgent() != "us" || sent.Method != http.MethodPut {
		t.Errorf("sent %s %s by %s", sent.Method, sent.URL, sent.UserAgent())
	}
	var got coordinationv1.Lease
	if ok, err := decodeInto(body, leaseVersion, leaseKind, &got); err != nil || !ok || got.ResourceVersion != "7" || got.Name != "n" {
		t.Errorf("sent %+v, %v", got.ObjectMeta, err)
	}
	if ok, err := decodeInto(answer, leaseVersion, leaseKind, &got); err != nil || !ok || got.ResourceVersion != "8" {
		t.Errorf("answered %+v, %v", got.ObjectMeta, err)
	}
	for _, other := range [][]byte{body, answer} {
		if ok, err := decodeInto(other, "v1", "Status", &metav1.Status{}); err != nil || ok {
			t.Errorf("a lease is decoded as a status: %v", err)
		}
	}
}
