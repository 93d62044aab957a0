package wire_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/streaming"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	restwatch "k8s.io/client-go/rest/watch"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/inject"
	"github.com/rehearse-k8s/rehearse/internal/wire"
)

func streamType(mediaType string) string { return mediaType + ";stream=watch" }

// split takes a stream apart in one go.
func split(t testing.TB, contentType string, stream []byte) (frames [][]byte) {
	t.Helper()
	s, err := wire.NewSplitter(contentType)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := s.Write(stream); err != nil || n != len(stream) {
		t.Fatalf("Write: %d of %d bytes, %v", n, len(stream), err)
	}
	for {
		f, ok := s.Next()
		if !ok {
			return frames
		}
		frames = append(frames, f)
	}
}

func bookmark(rv string, initialEnd bool) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{ResourceVersion: rv}}
	if initialEnd {
		p.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
	}
	return p
}

func TestDescribeEvent(t *testing.T) {
	a := history.Object{Namespace: "default", Name: "a", UID: uidA}
	events := []watch.Event{
		{Type: watch.Added, Object: pod("a", uidA, "5")},
		{Type: watch.Bookmark, Object: bookmark("6", true)},
		{Type: watch.Modified, Object: pod("a", uidA, "7")},
		{Type: watch.Deleted, Object: pod("a", uidA, "9")},
		{Type: watch.Bookmark, Object: bookmark("12", false)},
		{Type: watch.Error, Object: &metav1.Status{Code: 410, Reason: metav1.StatusReasonExpired,
			Details: &metav1.StatusDetails{Kind: "pods"}}},
	}
	want := []wire.Event{
		{Type: "ADDED", Object: a, Revision: 5},
		{Type: "BOOKMARK", Revision: 6, InitialEnd: true},
		{Type: "MODIFIED", Object: a, Revision: 7},
		{Type: "DELETED", Object: a, Revision: 9},
		{Type: "BOOKMARK", Revision: 12},
		{Type: "ERROR", Code: 410},
	}
	for _, mediaType := range []string{jsonType, protobufType} {
		var got []wire.Event
		whole := stream(t, mediaType, events...)
		frames := split(t, streamType(mediaType), whole)
		for _, f := range frames {
			e, err := wire.DescribeEvent(streamType(mediaType), f)
			if err != nil {
				t.Fatalf("%s: %v\n%q", mediaType, err, f)
			}
			if len(e.Digest) != 16 {
				t.Errorf("%s: digest %q", mediaType, e.Digest)
			}
			e.Digest = ""
			got = append(got, e)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s (-want +got)\n%s", mediaType, d)
		}
		if joined := bytes.Join(frames, nil); !bytes.Equal(joined, whole) {
			t.Errorf("%s: the frames together are not the stream", mediaType)
		}
	}
}

// TestOtherForms has what a server writes when a client asks for another form of the objects.
func TestOtherForms(t *testing.T) {
	partial := &metav1.PartialObjectMetadata{ObjectMeta: pod("a", uidA, "5").ObjectMeta}
	partial.SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind("PartialObjectMetadata"))
	want := history.Object{Namespace: "default", Name: "a", UID: uidA}

	for _, mediaType := range []string{jsonType, protobufType} {
		var buf bytes.Buffer
		info := serializer(t, mediaType)
		codec := scheme.Codecs.EncoderForVersion(info.StreamSerializer.Serializer, corev1.SchemeGroupVersion)
		enc := restwatch.NewEncoder(streaming.NewEncoder(info.StreamSerializer.Framer.NewFrameWriter(&buf), codec), info.Serializer)
		if err := enc.Encode(&watch.Event{Type: watch.Added, Object: partial}); err != nil {
			t.Fatal(err)
		}
		frames := split(t, mediaType, buf.Bytes())
		e, err := wire.DescribeEvent(mediaType, frames[0])
		if err != nil || e.Object != want || e.Revision != 5 {
			t.Errorf("%s: %+v, %v", mediaType, e, err)
		}
	}

	table := metav1.Table{
		TypeMeta:          metav1.TypeMeta{Kind: "Table", APIVersion: "meta.k8s.io/v1"},
		ListMeta:          metav1.ListMeta{ResourceVersion: "5"},
		ColumnDefinitions: []metav1.TableColumnDefinition{{Name: "Name", Type: "string"}},
		Rows:              []metav1.TableRow{{Cells: []any{"a", []any{"]"}}, Object: runtime.RawExtension{Raw: mustJSON(t, partial)}}},
	}
	for _, rv := range []string{"5", ""} {
		table.ResourceVersion = rv
		e, err := wire.DescribeEvent(jsonType, fmt.Appendf(nil, `{"type":"ADDED","object":%s}`, mustJSON(t, table)))
		if err != nil || e.Object != want || e.Revision != 5 {
			t.Errorf("Table: %+v, %v", e, err)
		}
	}
	table.Rows = nil
	if e, err := wire.DescribeEvent(jsonType, fmt.Appendf(nil, `{"type":"ADDED","object":%s}`, mustJSON(t, table))); err != nil || e.Name != "" {
		t.Errorf("empty Table: %+v, %v", e, err)
	}
	// Keys in an order that no server uses.
	e, err := wire.DescribeEvent(jsonType, fmt.Appendf(nil, ` {"object": {"spec":{}, "metadata": {"n\u0061me":"\u0061", "resourceVersion": "x"}, "kind":"Pod", "z":1} , "type" : "ADDED"}`))
	if err != nil || e.Name != "a" || e.Revision != 0 {
		t.Errorf("other order: %+v, %v", e, err)
	}
}

func TestInvalidEvents(t *testing.T) {
	for _, tc := range []struct{ contentType, frame, want string }{
		{jsonType, ``, "well-formed JSON"},
		{jsonType, `[]`, "well-formed JSON"},
		{jsonType, `{"type":"ADDED","object":{"metadata":{"name":"a`, "well-formed JSON"},
		{jsonType, `{}`, "the type is missing"},
		{protobufType, "", "length"},
		{protobufType, "\x00\x00\x00\x05ab", "length"},
		{protobufType, "\x00\x00\x00\x01\xff", "well-formed protobuf"},
		{"application/cbor-seq", "\xff", "CBOR"},
		{"text/html; charset=utf-8", "", `unsupported content type "text/html; charset=utf-8"`},
	} {
		if _, err := wire.DescribeEvent(tc.contentType, []byte(tc.frame)); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s %q: got %v, want %q in it", tc.contentType, tc.frame, err, tc.want)
		}
	}
}

func TestEventItem(t *testing.T) {
	e := wire.Event{Type: "MODIFIED", Object: history.Object{Namespace: "n", Name: "a"}}
	want := fault.Item{Class: fault.Event, Actor: "job", Resource: "pods", Object: "n/a", Type: "MODIFIED"}
	if got := e.Item("job", "pods", false); got != want {
		t.Errorf("got %+v", got)
	}
	end := wire.Event{Type: "BOOKMARK", InitialEnd: true}
	if fault.Of(fault.KindDropBookmark).Matches(end.Item("job", "pods", false)) {
		t.Error("the end of the initial events may be dropped")
	}
}

func TestAnswers(t *testing.T) {
	c := describe(t, "PUT", "/apis/batch/v1/namespaces/n/jobs/j", nil)
	for _, tc := range []struct {
		name    string
		answer  wire.Answer
		is      func(error) bool
		code    int
		message string
	}{
		{"over quota", wire.Rejection(c, inject.Rejection{Code: 403, Quota: true}), apierrors.IsForbidden, 403,
			`jobs.batch "j" is forbidden: exceeded quota: rehearse, requested: count/jobs.batch=1, used: count/jobs.batch=0, limited: count/jobs.batch=0`},
		{"denied", wire.Rejection(c, inject.Rejection{Code: 403}), apierrors.IsForbidden, 403,
			`admission webhook "deny.rehearse-k8s.github.io" denied the request: a fault denied update jobs.batch n/j`},
		{"throttled", wire.Throttled(1500 * time.Millisecond), apierrors.IsTooManyRequests, 429, "Too many requests, please try again later."},
		{"unavailable", wire.Rejection(c, inject.Rejection{Code: 503}), apierrors.IsServiceUnavailable, 503, "no API server is ready"},
		{"storage timeout", wire.Rejection(c, inject.Rejection{Code: 500, Unknown: true}), func(err error) bool { return apierrors.ReasonForError(err) == "" }, 500, "etcdserver: request timed out"},
		{"internal error", wire.InternalError(c), apierrors.IsInternalError, 500, "Internal error occurred: a fault rejected update jobs.batch n/j"},
	} {
		o, _, err := scheme.Codecs.UniversalDeserializer().Decode(tc.answer.Body, nil, nil)
		if err != nil {
			t.Errorf("%s: %v\n%s", tc.name, err, tc.answer.Body)
			continue
		}
		status := apierrors.FromObject(o)
		if tc.answer.Code != tc.code || !tc.is(status) || status.Error() != tc.message {
			t.Errorf("%s: %d %v", tc.name, tc.answer.Code, status)
		}
		if tc.answer.Header.Get("Content-Type") != jsonType || tc.answer.Header.Get("Content-Length") != fmt.Sprint(len(tc.answer.Body)) {
			t.Errorf("%s: header %v", tc.name, tc.answer.Header)
		}
	}
	for after, want := range map[time.Duration]string{0: "1", time.Second: "1", 1500 * time.Millisecond: "2", time.Minute: "60"} {
		if got := wire.Throttled(after).Header.Get("Retry-After"); got != want {
			t.Errorf("Retry-After for %s: %s", after, got)
		}
	}
}

func TestExpiredFrame(t *testing.T) {
	for _, mediaType := range []string{jsonType, protobufType} {
		f, err := wire.ExpiredFrame(streamType(mediaType))
		if err != nil {
			t.Fatal(err)
		}
		if frames := split(t, mediaType, f); len(frames) != 1 || !bytes.Equal(frames[0], f) {
			t.Errorf("%s: %d frames", mediaType, len(frames))
		}
		e, err := wire.DescribeEvent(mediaType, f)
		if err != nil || e.Type != "ERROR" || e.Code != 410 {
			t.Errorf("%s: %+v, %v", mediaType, e, err)
		}
		// As a client reads it.
		info := serializer(t, mediaType)
		codec := scheme.Codecs.DecoderToVersion(info.StreamSerializer.Serializer, corev1.SchemeGroupVersion)
		frames := info.StreamSerializer.Framer.NewFrameReader(readCloser{bytes.NewReader(f)})
		decoder := restwatch.NewDecoder(streaming.NewDecoder(frames, codec), scheme.Codecs.UniversalDeserializer())
		typ, o, err := decoder.Decode()
		if err != nil || typ != watch.Error || !apierrors.IsResourceExpired(apierrors.FromObject(o)) {
			t.Errorf("%s: a client reads %s %v, %v", mediaType, typ, o, err)
		}
	}
	if _, err := wire.ExpiredFrame("text/plain"); err == nil {
		t.Error("text: no error")
	}
}

type readCloser struct{ *bytes.Reader }

func (readCloser) Close() error { return nil }

func TestReadAnswer(t *testing.T) {
	a := history.Object{Namespace: "default", Name: "a", UID: uidA}
	for _, tc := range []struct {
		name     string
		body     runtime.Object
		want     history.Object
		revision int64
	}{
		{"pod", pod("a", uidA, "5"), a, 5},
		{"list", &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "8"}, Items: []corev1.Pod{*pod("a", uidA, "5")}}, history.Object{}, 8},
		{"empty list", &appsv1.DeploymentList{ListMeta: metav1.ListMeta{ResourceVersion: "8"}}, history.Object{}, 8},
		{"deleted", &metav1.Status{Status: "Success", Details: &metav1.StatusDetails{Name: "a", Kind: "pods", UID: uidA}}, history.Object{Name: "a", UID: uidA}, 0},
		{"bound", &metav1.Status{Status: "Success", Code: 201}, history.Object{}, 0},
	} {
		for _, mediaType := range []string{jsonType, protobufType} {
			got, revision, err := wire.ReadAnswer(mediaType, encode(t, mediaType, tc.body))
			if err != nil || got != tc.want || revision != tc.revision {
				t.Errorf("%s in %s: %+v at %d, %v", tc.name, mediaType, got, revision, err)
			}
		}
	}
	list := &unstructured.UnstructuredList{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "WidgetList",
		"metadata": map[string]any{"resourceVersion": "8"}}}
	if got, revision, err := wire.ReadAnswer(jsonType, mustJSON(t, list)); err != nil || got != (history.Object{}) || revision != 8 {
		t.Errorf("custom list: %+v at %d, %v", got, revision, err)
	}
	for _, body := range []string{"", "<html>", `{"metadata":`, "k8s\x00\x0a\xff"} {
		if _, _, err := wire.ReadAnswer(jsonType, []byte(body)); err == nil {
			t.Errorf("%q: no error", body)
		}
	}
}
