package apiserver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/rehearse-k8s/rehearse/internal/apiserver"
	"github.com/rehearse-k8s/rehearse/internal/store"
)

// frame is one line of a watch stream.
type frame struct {
	Type   string
	Object struct {
		metav1.TypeMeta
		Metadata metav1.ObjectMeta
		Code     int
		Reason   string
		Details  *metav1.StatusDetails
		Data     map[string]string
	}
}

func (f frame) String() string {
	if f.Type == "ERROR" {
		return fmt.Sprintf("ERROR %d %s", f.Object.Code, f.Object.Reason)
	}
	text := f.Type + " " + f.Object.Metadata.Name
	if f.Object.Metadata.Annotations[metav1.InitialEventsAnnotationKey] == "true" {
		text += "initial events end"
	}
	return text
}

func (f frame) revision(t *testing.T) int64 {
	t.Helper()
	rv, err := strconv.ParseInt(f.Object.Metadata.ResourceVersion, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return rv
}

// frames reads a watch stream over a socket.
type frames struct {
	t       *testing.T
	status  int
	decoder *json.Decoder
}

// openWatch sends a watch request; query is that of its URL.
func openWatch(t *testing.T, config *rest.Config, path, query string) *frames {
	t.Helper()
	transport, err := rest.TransportFor(config)
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, config.Host+path+"?watch=true&"+query, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := transport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	return &frames{t, resp.StatusCode, json.NewDecoder(resp.Body)}
}

// next reads a frame; ok is false at the end of the stream.
func (f *frames) next() (one frame, ok bool) {
	f.t.Helper()
	err := f.decoder.Decode(&one)
	if err != nil && err != io.EOF {
		f.t.Fatal(err)
	}
	return one, err == nil
}

// want reads frames and compares them with the wanted ones; it returns the last.
func (f *frames) want(want ...string) (last frame) {
	f.t.Helper()
	var got []string
	for range want {
		var ok bool
		if last, ok = f.next(); !ok {
			break
		}
		got = append(got, last.String())
	}
	if f.status != http.StatusOK || !slices.Equal(got, want) {
		f.t.Fatalf("HTTP %d, frames %q, want 200 and %q", f.status, got, want)
	}
	return last
}

// wantEnd checks that no further frame follows.
func (f *frames) wantEnd() {
	f.t.Helper()
	if one, ok := f.next(); ok {
		f.t.Errorf("after what should be the last frame came %s", one)
	}
}

const initialEvents = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"

// TestWatchOfAnOldRevision: a watch from a revision that is too old is answered HTTP 200 with one ERROR
// frame, 410, whether the resource has a watch cache (whose history begins when it was filled) or none
// (Events; the store was compacted). A list at an exact revision is answered 410.
func TestWatchOfAnOldRevision(t *testing.T) {
	worlds := store.New(store.Options{})
	for i := range 10 {
		worlds.World("").RawPut(fmt.Sprintf("/configmaps/default/m-%d", i),
			fmt.Appendf(nil, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"default","name":"m-%d","uid":"u-%d"}}`, i, i), 0)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s, err := start(ctx, t.TempDir(), apiserver.Memory{Worlds: worlds})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	if err := worlds.World("").Compact(worlds.World("").Revision()); err != nil {
		t.Fatal(err)
	}
	config := outside(t, s, "admin", "system:masters")
	for _, path := range []string{"/api/v1/configmaps", "/api/v1/events"} {
		w := openWatch(t, config, path, "resourceVersion=3")
		w.want("ERROR 410 Expired")
		w.wantEnd()
	}
	c, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	exact := metav1.ListOptions{ResourceVersion: "3", ResourceVersionMatch: metav1.ResourceVersionMatchExact}
	if _, err := c.CoreV1().ConfigMaps("").List(ctx, exact); !apierrors.IsResourceExpired(err) {
		t.Errorf("list at an exact revision that is compacted: %v, want 410 Expired", err)
	}
	if _, err := c.CoreV1().Events("").List(ctx, exact); !apierrors.IsResourceExpired(err) {
		t.Errorf("list of Events at an exact revision that is compacted: %v, want 410 Expired", err)
	}
}

// TestWatchOfAFutureRevision: a list not older than a future revision is answered 504 with its cause and a
// time to wait; a watch-list receives the same as an ERROR frame.
func TestWatchOfAFutureRevision(t *testing.T) {
	config := outside(t, shared, "admin", "system:masters")
	future := strconv.FormatInt(1<<40, 10)
	w := openWatch(t, config, "/api/v1/configmaps", initialEvents+"&resourceVersion="+future)
	failed := w.want("ERROR 504 Timeout")
	w.wantEnd()
	if d := failed.Object.Details; d == nil || d.RetryAfterSeconds < 1 || len(d.Causes) != 1 || d.Causes[0].Type != metav1.CauseTypeResourceVersionTooLarge {
		t.Errorf("details %+v", d)
	}
	err := client(t, shared).CoreV1().RESTClient().Get().Resource("configmaps").Param("resourceVersion", future).
		Param("resourceVersionMatch", "NotOlderThan").MaxRetries(0).Do(t.Context()).Error()
	if seconds, ok := apierrors.SuggestsClientDelay(err); !apierrors.IsTimeout(err) || !ok || seconds < 1 || !apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge) {
		t.Errorf("list: %v", err)
	}
}

// TestWatchStarts: the events with which a watch starts, for each combination of options.
func TestWatchStarts(t *testing.T) {
	config, maps := outside(t, shared, "admin", "system:masters"), client(t, shared).CoreV1().ConfigMaps("default")
	for _, name := range []string{"start-b", "start-a"} {
		m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"test": "start"}}}
		if _, err := maps.Create(t.Context(), m, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	const path, selected = "/api/v1/namespaces/default/configmaps", "labelSelector=test%3Dstart"
	name := "fieldSelector=" + url.QueryEscape("metadata.name=start-b")
	all := openWatch(t, config, path, selected+"&"+initialEvents)
	end := all.want("ADDED start-a", "ADDED start-b", "BOOKMARK initial events end")
	watches := map[string]*frames{
		"with initial events": all,
		"of one object":       openWatch(t, config, path, name+"&"+initialEvents),
		"from any revision":   openWatch(t, config, path, selected+"&resourceVersion=0"),
		"without a revision":  openWatch(t, config, path, selected),
		"not older":           openWatch(t, config, path, selected+"&"+initialEvents+"&resourceVersion="+end.Object.Metadata.ResourceVersion),
		"without bookmarks":   openWatch(t, config, path, selected+"&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"),
		"from now on":         openWatch(t, config, path, selected+"&sendInitialEvents=false&resourceVersionMatch=NotOlderThan"),
		"after a revision":    openWatch(t, config, path, selected+"&resourceVersion="+end.Object.Metadata.ResourceVersion),
	}
	watches["of one object"].want("ADDED start-b", "BOOKMARK initial events end")
	watches["from any revision"].want("ADDED start-a", "ADDED start-b")
	watches["without a revision"].want("ADDED start-a", "ADDED start-b")
	watches["not older"].want("ADDED start-a", "ADDED start-b", "BOOKMARK initial events end")
	watches["without bookmarks"].want("ADDED start-a", "ADDED start-b")
	if _, err := maps.Patch(t.Context(), "start-b", types.MergePatchType, []byte(`{"data":{"changed":"yes"}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	for name, w := range watches {
		if f := w.want("MODIFIED start-b"); f.revision(t) <= end.revision(t) || f.Object.Data["changed"] != "yes" {
			t.Errorf("%s: %+v", name, f)
		}
	}
}

// TestWatchOfASelector: an object that enters the selection is ADDED; one that leaves it is DELETED with its
// old contents and the new revision, as if it were deleted; changes outside of the selection are not
// delivered. Events have no watch cache; the store selects them.
func TestWatchOfASelector(t *testing.T) {
	config := outside(t, shared, "admin", "system:masters")
	c, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	for _, resource := range []string{"configmaps", "events"} {
		t.Run(resource, func(t *testing.T) {
			objects := c.Resource(schema.GroupVersionResource{Version: "v1", Resource: resource}).Namespace("default")
			o := &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "v1", "kind": map[string]string{"configmaps": "ConfigMap", "events": "Event"}[resource],
				"metadata": map[string]any{"name": "selected"},
			}}
			if resource == "events" {
				o.Object["involvedObject"] = map[string]any{"kind": "Pod", "namespace": "default", "name": "p"}
			}
			patch := func(color string) (revision string) {
				t.Helper()
				o, err := objects.Patch(t.Context(), "selected", types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"labels":{"color":%q}}}`, color), metav1.PatchOptions{})
				if err != nil {
					t.Fatal(err)
				}
				return o.GetResourceVersion()
			}
			created, err := objects.Create(t.Context(), o, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			w := openWatch(t, config, "/api/v1/namespaces/default/"+resource, "labelSelector=color%3Dred&resourceVersion="+created.GetResourceVersion())
			is := func(f frame, revision, color string) {
				t.Helper()
				if f.Object.Metadata.ResourceVersion != revision || f.Object.Metadata.Labels["color"] != color {
					t.Errorf("%s has revision %s and labels %v, want %s and %s", f, f.Object.Metadata.ResourceVersion, f.Object.Metadata.Labels, revision, color)
				}
			}
			patch("blue")
			entered, left := patch("red"), patch("green")
			is(w.want("ADDED selected"), entered, "red")
			is(w.want("DELETED selected"), left, "red")
			patch("blue")
			last := patch("red")
			is(w.want("ADDED selected"), last, "red")
			if err := objects.Delete(t.Context(), "selected", metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			f := w.want("DELETED selected")
			if before, _ := strconv.ParseInt(last, 10, 64); f.revision(t) <= before {
				t.Errorf("the deletion has revision %d, the last write before %d", f.revision(t), before)
			}
			is(f, f.Object.Metadata.ResourceVersion, "red")
		})
	}
}

// TestBookmarkBeforeTheDeadline: a watch with bookmarks receives one before its timeout, after all events;
// then its stream ends without an error.
// (It comes two seconds before the timeout: the create has eight seconds, on a busy machine too.)
func TestBookmarkBeforeTheDeadline(t *testing.T) {
	config, maps := outside(t, shared, "admin", "system:masters"), client(t, shared).CoreV1().ConfigMaps("default")
	list, err := maps.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w := openWatch(t, config, "/api/v1/namespaces/default/configmaps", "allowWatchBookmarks=true&timeoutSeconds=10&labelSelector=test%3Dbookmark&resourceVersion="+list.ResourceVersion)
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "bookmarked", Labels: map[string]string{"test": "bookmark"}}}
	m, err = maps.Create(t.Context(), m, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w.want("ADDED bookmarked")
	b := w.want("BOOKMARK ")
	if rv, _ := strconv.ParseInt(m.ResourceVersion, 10, 64); b.revision(t) < rv {
		t.Errorf("the bookmark has revision %d, behind the event before it, %d", b.revision(t), rv)
	}
	for {
		f, ok := w.next()
		if !ok {
			return
		}
		if f.Type != "BOOKMARK" {
			t.Fatalf("the watch ended with %s", f)
		}
	}
}

// TestWatchListOfACustomResource: objects without a Go type are maps that the watch cache shares; each event
// has its own copy.
func TestWatchListOfACustomResource(t *testing.T) {
	config := outside(t, shared, "admin", "system:masters")
	c, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	crd := &unstructured.Unstructured{}
	if err := json.Unmarshal([]byte(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"watched.example.com"},
		"spec":{"group":"example.com","scope":"Cluster","names":{"plural":"watched","singular":"watched","kind":"Watched"},
		"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}`), crd); err != nil {
		t.Fatal(err)
	}
	definitions := c.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	if _, err := definitions.Create(t.Context(), crd, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	objects := c.Resource(schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "watched"})
	for _, name := range []string{"b", "a"} {
		o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Watched", "metadata": map[string]any{"name": name}}}
		await(t, "the kind is known", func() error {
			_, err := objects.Create(t.Context(), o, metav1.CreateOptions{})
			return err
		})
	}
	for range 2 {
		w := openWatch(t, config, "/apis/example.com/v1/watched", initialEvents)
		first, _ := w.next()
		if first.String() != "ADDED a" || first.Object.Kind != "Watched" || first.Object.APIVersion != "example.com/v1" {
			t.Errorf("first frame: %s of %+v", first, first.Object.TypeMeta)
		}
		end := w.want("ADDED b", "BOOKMARK initial events end")
		if end.Object.Kind != "Watched" {
			t.Errorf("the bookmark is of %+v", end.Object.TypeMeta)
		}
	}
}
