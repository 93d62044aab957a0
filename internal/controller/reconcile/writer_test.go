package reconcile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/rehearse-k8s/rehearse/internal/workload"
)

// answers is a transport that returns prepared answers in order, and records the requests.
type answers struct {
	left []answer
	sent []string
}

// answer is a response; without a code, no answer arrives.
type answer struct {
	code int
	body any
}

// RoundTrip implements http.RoundTripper.
func (a *answers) RoundTrip(r *http.Request) (*http.Response, error) {
	body := []byte{}
	if r.Body != nil {
		body, _ = io.ReadAll(r.Body)
	}
	a.sent = append(a.sent, strings.TrimSpace(r.Method+" "+r.URL.Path+" "+string(body)))
	if len(a.left) == 0 {
		return nil, errors.New("the test has no answer for this request")
	}
	next := a.left[0]
	a.left = a.left[1:]
	if next.code == 0 {
		return nil, errors.New("connection reset")
	}
	text, err := json.Marshal(next.body)
	return &http.Response{
		StatusCode: next.code, Header: http.Header{"Content-Type": {"application/json"}, "Retry-After": {"1"}},
		Body: io.NopCloser(strings.NewReader(string(text))), Request: r,
	}, err
}

func status(code int, reason metav1.StatusReason) answer {
	return answer{code, metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Code: int32(code), Reason: reason}}
}

func podAt(revision string, change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a", UID: "uid-a", ResourceVersion: revision, Finalizers: []string{"f"}},
	}
	for _, c := range change {
		c(p)
	}
	return p
}

// TestWriter checks, for each write and each answer of the API, what the method returns, what it sends, and
// what the Memory waits for afterwards.
func TestWriter(t *testing.T) {
	const (
		settled = ""
		lost    = "the result of this write is not known yet"
		wrote9  = "last own write at 9"
		touched = "as it was before"
	)
	patch := &workload.Action{Verb: workload.Patch, Object: podAt("5"), PatchType: types.MergePatchType, Patch: json.RawMessage(`{"metadata":{"labels":{"x":"y"}}}`)}
	exact := *patch
	exact.Exact = true
	remove := &workload.Action{Verb: workload.Delete, Object: podAt("5"), Exact: true}
	ours := func(workload.Object) (bool, error) { return true, nil }
	theirs := func(workload.Object) (bool, error) { return false, nil }
	otherUID := func(p *corev1.Pod) { p.UID = "uid-b" }
	terminating := func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: time.Unix(9, 0)} }
	released := func(p *corev1.Pod) { p.Finalizers = nil }

	type result struct {
		done   bool // created, deleted, or patched to an object
		stale  bool
		failed bool // a WriteError
		waits  string
		verbs  string // of the requests
	}
	create := func(isOurs func(workload.Object) (bool, error)) func(*Writer, *Memory) (bool, error) {
		return func(w *Writer, m *Memory) (bool, error) { return w.Create(t.Context(), m, podAt(""), isOurs) }
	}
	change := func(a *workload.Action, whole workload.Object) func(*Writer, *Memory) (bool, error) {
		return func(w *Writer, m *Memory) (bool, error) {
			o, err := w.Patch(t.Context(), m, a, whole)
			return o != nil, err
		}
	}
	del := func(w *Writer, m *Memory) (bool, error) { return w.Delete(t.Context(), m, remove) }
	update := func(w *Writer, m *Memory) (bool, error) { return false, w.UpdateStatus(t.Context(), m, podAt("5")) }

	for name, c := range map[string]struct {
		write   func(*Writer, *Memory) (bool, error)
		answers []answer
		want    result
	}{
		"created":                     {create(ours), []answer{{201, podAt("9")}}, result{done: true, waits: wrote9, verbs: "POST"}},
		"create: exists, ours":        {create(ours), []answer{status(409, metav1.StatusReasonAlreadyExists), {200, podAt("9")}}, result{waits: wrote9, verbs: "POST GET"}},
		"create: exists, theirs":      {create(theirs), []answer{status(409, metav1.StatusReasonAlreadyExists), {200, podAt("9")}}, result{stale: true, verbs: "POST GET"}},
		"create: existed":             {create(ours), []answer{status(409, metav1.StatusReasonAlreadyExists), status(404, metav1.StatusReasonNotFound)}, result{stale: true, verbs: "POST GET"}},
		"create: rejected":            {create(ours), []answer{status(403, metav1.StatusReasonForbidden)}, result{failed: true, verbs: "POST"}},
		"create: throttled":           {create(ours), []answer{status(429, metav1.StatusReasonTooManyRequests)}, result{failed: true, verbs: "POST"}},
		"create: lost":                {create(ours), []answer{{}}, result{failed: true, waits: lost, verbs: "POST"}},
		"create: server error":        {create(ours), []answer{status(500, metav1.StatusReasonInternalError)}, result{failed: true, waits: lost, verbs: "POST"}},
		"patched":                     {change(patch, nil), []answer{{200, podAt("9")}}, result{done: true, waits: wrote9, verbs: "PATCH"}},
		"patch: terminating":          {change(patch, nil), []answer{{200, podAt("9", terminating)}}, result{done: true, verbs: "PATCH"}},
		"patch: finalizer removed":    {change(patch, nil), []answer{{200, podAt("9", terminating, released)}}, result{done: true, waits: touched, verbs: "PATCH"}},
		"patch: absent":               {change(patch, nil), []answer{status(404, metav1.StatusReasonNotFound)}, result{waits: touched, verbs: "PATCH"}},
		"patch: another object":       {change(patch, nil), []answer{status(422, metav1.StatusReasonInvalid), {200, podAt("7", otherUID)}}, result{waits: touched, verbs: "PATCH GET"}},
		"patch: invalid":              {change(patch, nil), []answer{status(422, metav1.StatusReasonInvalid), {200, podAt("7")}}, result{failed: true, verbs: "PATCH GET"}},
		"patch: another version":      {change(&exact, nil), []answer{status(409, metav1.StatusReasonConflict)}, result{stale: true, verbs: "PATCH"}},
		"patch: lost":                 {change(patch, nil), []answer{{}}, result{failed: true, waits: lost, verbs: "PATCH"}},
		"whole":                       {change(&exact, podAt("5")), []answer{{200, podAt("9")}}, result{done: true, waits: wrote9, verbs: "PUT"}},
		"whole: another version":      {change(&exact, podAt("5")), []answer{status(409, metav1.StatusReasonConflict)}, result{stale: true, verbs: "PUT"}},
		"deleted":                     {del, []answer{{200, podAt("9", terminating)}}, result{done: true, waits: touched, verbs: "DELETE"}},
		"delete: absent":              {del, []answer{status(404, metav1.StatusReasonNotFound)}, result{waits: touched, verbs: "DELETE"}},
		"delete: another version":     {del, []answer{status(409, metav1.StatusReasonConflict)}, result{stale: true, verbs: "DELETE"}},
		"delete: rejected":            {del, []answer{status(403, metav1.StatusReasonForbidden)}, result{failed: true, verbs: "DELETE"}},
		"delete: lost":                {del, []answer{{}}, result{failed: true, waits: lost, verbs: "DELETE"}},
		"status updated":              {update, []answer{{200, podAt("9")}}, result{waits: wrote9, verbs: "PUT"}},
		"status: another version":     {update, []answer{status(409, metav1.StatusReasonConflict)}, result{stale: true, verbs: "PUT"}},
		"status: the owner is gone":   {update, []answer{status(404, metav1.StatusReasonNotFound)}, result{stale: true, verbs: "PUT"}},
		"recheck: the same version":   {recheck(t, podAt("5")), []answer{{200, podAt("5")}}, result{verbs: "GET"}},
		"recheck: another version":    {recheck(t, podAt("5")), []answer{{200, podAt("6")}}, result{stale: true, verbs: "GET"}},
		"recheck: another object":     {recheck(t, podAt("5")), []answer{{200, podAt("5", otherUID)}}, result{stale: true, verbs: "GET"}},
		"recheck: absent":             {recheck(t, podAt("5")), []answer{status(404, metav1.StatusReasonNotFound)}, result{stale: true, verbs: "GET"}},
		"an old decision is not sent": {old(create(ours)), nil, result{stale: true}},
		"an old patch is not sent":    {old(change(patch, nil)), nil, result{stale: true}},
		"an old delete is not sent":   {old(del), nil, result{stale: true}},
		"an old status is not sent":   {old(update), nil, result{stale: true}},
	} {
		t.Run(name, func(t *testing.T) {
			api := &answers{left: c.answers}
			w := podWriter(t, api, nil)
			m := &Memory{}
			m.Decided(time.Now())
			var got result
			var err error
			got.done, err = c.write(w, m)
			var failed *WriteError
			got.failed, got.stale = errors.As(err, &failed), errors.Is(err, ErrStale)
			if err != nil && !got.failed && !got.stale {
				t.Errorf("error %v", err)
			}
			got.verbs = verbs(api.sent)
			_, got.waits, _ = m.Behind(time.Now(), "default", shows(t, "5", podAt("5")))
			if c.want.waits != settled && strings.Contains(got.waits, c.want.waits) {
				got.waits = c.want.waits
			}
			if got != c.want {
				t.Errorf("got %+v, %v, want %+v", got, err, c.want)
			}
		})
	}
}

func recheck(t *testing.T, o workload.Object) func(*Writer, *Memory) (bool, error) {
	return func(w *Writer, _ *Memory) (bool, error) { return false, w.Recheck(t.Context(), o) }
}

func old(write func(*Writer, *Memory) (bool, error)) func(*Writer, *Memory) (bool, error) {
	return func(w *Writer, m *Memory) (bool, error) {
		m.Decided(time.Now().Add(-2 * maxAge))
		return write(w, m)
	}
}

func verbs(sent []string) string {
	var all []string
	for _, s := range sent {
		verb, _, _ := strings.Cut(s, " ")
		all = append(all, verb)
	}
	return strings.Join(all, " ")
}

func podWriter(t *testing.T, api http.RoundTripper, count func(resource, verb string, err error)) *Writer {
	client, err := kubernetes.NewForConfig(&rest.Config{Host: "http://x", Transport: api})
	if err != nil {
		t.Fatal(err)
	}
	return NewWriter(count, Resource{
		Name: pods, Kind: "pod", Client: client.CoreV1().RESTClient(), Finalizer: "f", New: func() workload.Object { return &corev1.Pod{} },
	})
}

// TestWriterPreconditions checks that each write contains the UID, and the resourceVersion if it is Exact, and
// is counted once with its result.
func TestWriterPreconditions(t *testing.T) {
	var counted []string
	api := &answers{left: []answer{{200, podAt("6")}, {200, podAt("7")}, {200, podAt("8")}, status(409, metav1.StatusReasonConflict)}}
	w := podWriter(t, api, func(resource, verb string, err error) {
		counted = append(counted, fmt.Sprint(resource, " ", verb, " ", Result(err)))
	})
	m := &Memory{}
	m.Decided(time.Now())
	a := &workload.Action{Object: podAt("5"), PatchType: types.MergePatchType, Patch: json.RawMessage(`{"metadata":{"labels":{"x":"y"}}}`)}
	ctx := context.Background()
	for _, exact := range []bool{false, true} {
		a.Exact = exact
		if _, err := w.Patch(ctx, m, a, nil); err != nil {
			t.Fatal(err)
		}
	}
	a.Subresource, a.Patch = "resize", json.RawMessage(`{"metadata":{"uid":"named","x":1}}`)
	if _, err := w.Patch(ctx, m, a, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Delete(ctx, m, a); !errors.Is(err, ErrStale) {
		t.Errorf("error %v, want ErrStale", err)
	}
	for i, want := range []string{
		`PATCH /api/v1/namespaces/default/pods/a {"metadata":{"uid":"uid-a","labels":{"x":"y"}}}`,
		`PATCH /api/v1/namespaces/default/pods/a {"metadata":{"uid":"uid-a","resourceVersion":"5","labels":{"x":"y"}}}`,
		`PATCH /api/v1/namespaces/default/pods/a/resize {"metadata":{"uid":"named","x":1}}`,
		`"preconditions":{"uid":"uid-a","resourceVersion":"5"}`,
	} {
		if !strings.Contains(api.sent[i], want) {
			t.Errorf("request %d: %s, want %s", i, api.sent[i], want)
		}
	}
	if want := []string{"pods patch success", "pods patch success", "pods patch success", "pods delete Conflict"}; !slices.Equal(counted, want) {
		t.Errorf("counted %q, want %q", counted, want)
	}
}
