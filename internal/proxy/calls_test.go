package proxy_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/proxy"
)

// create creates a ConfigMap; client-go does not repeat the request.
func create(ctx context.Context, client kubernetes.Interface, ns, name string) error {
	return client.CoreV1().RESTClient().Post().MaxRetries(0).Namespace(ns).Resource("configmaps").Body(configMap(name)).Do(ctx).Error()
}

func exists(t *testing.T, ns, name string) bool {
	t.Helper()
	_, err := direct.CoreV1().ConfigMaps(ns).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	return err == nil
}

// TestRejections: a rejected request has no effect, the client receives the answer that a server
// would send, and the second request is served.
func TestRejections(t *testing.T) {
	for text, heard := range map[string]func(error) bool{
		"throttle c verb=create configmaps": apierrors.IsTooManyRequests,
		"error c verb=create configmaps":    apierrors.IsInternalError,
	} {
		p := newProxy(t)
		c, ns := through(t, p, "c", admin), namespace(t)
		r := begin(t, p, proxy.Hooks{}, faultText(t, text))
		if err := create(t.Context(), c, ns, "a"); !heard(err) {
			t.Errorf("%s: %v", text, err)
		}
		if exists(t, ns, "a") {
			t.Errorf("%s: it had effect", text)
		}
		must(t, create(t.Context(), c, ns, "a"))
		steps := r.End().Steps
		if len(steps) != 2 || steps[0].Fault == "" || steps[0].Code < 400 || steps[1].Code != 201 || !steps[1].Wrote() || steps[1].Name != "a" {
			t.Errorf("%s: steps %+v", text, steps)
		}
	}
}

// faultText is the text form of a fault that a test writes as "kind actor verb=… resource".
func faultText(t *testing.T, text string) string {
	t.Helper()
	var f fault.Fault
	for i, word := range strings.Fields(text) {
		verb, isVerb := strings.CutPrefix(word, "verb=")
		switch {
		case i == 0:
			f.Kind = fault.Kind(word)
		case i == 1:
			f.Actor = word
		case isVerb:
			f.Verb = verb
		default:
			f.Resource = word
		}
	}
	return f.String()
}

// TestConflict: another user writes the object right before the first write that carries a resourceVersion,
// and the API answers that write 409. No other write is answered so: neither a create, nor a patch without a
// resourceVersion, nor a delete with a UID.
func TestConflict(t *testing.T) {
	p := newProxy(t)
	c, ns := through(t, p, "c", admin), namespace(t)
	maps := c.CoreV1().ConfigMaps(ns)
	must(t, create(t.Context(), c, ns, "a"))
	interfered := 0
	r := begin(t, p, proxy.Hooks{Interfere: func(f fault.Fault, o history.Object) bool {
		interfered++
		return interfere(t, f, o)
	}}, faultText(t, "conflict c configmaps"))
	must(t, create(t.Context(), c, ns, "b"))
	_, err := maps.Patch(t.Context(), "b", types.MergePatchType, []byte(`{"data":{"k":"v"}}`), metav1.PatchOptions{})
	must(t, err)
	b, err := maps.Get(t.Context(), "b", metav1.GetOptions{})
	must(t, err)
	must(t, maps.Delete(t.Context(), "b", metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(b.UID))}))
	if interfered != 0 {
		t.Error("another user has written before a write without a resourceVersion")
	}
	a, err := maps.Get(t.Context(), "a", metav1.GetOptions{})
	must(t, err)
	a.Data = map[string]string{"k": "v"}
	if _, err := maps.Update(t.Context(), a, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("the update: %v", err)
	}
	a, err = maps.Get(t.Context(), "a", metav1.GetOptions{})
	must(t, err)
	if a.Annotations[fault.InterferenceKey] == "" {
		t.Error("the conflict has no cause: no other user has written the object")
	}
	_, err = maps.Update(t.Context(), a, metav1.UpdateOptions{})
	must(t, err)
	if interfered != 1 {
		t.Errorf("another user has written %d times", interfered)
	}
	for _, s := range r.End().Steps {
		if (s.Fault != "") != (s.Code == http.StatusConflict) {
			t.Errorf("step %d: code %d, fault %q", s.N, s.Code, s.Fault)
		}
	}
}

// TestLostAnswer: the write has an effect, and the client receives no answer.
func TestLostAnswer(t *testing.T) {
	p := newProxy(t)
	c, ns := through(t, p, "c", admin), namespace(t)
	r := begin(t, p, proxy.Hooks{}, faultText(t, "lost-answer c verb=create configmaps"))
	if err := create(t.Context(), c, ns, "a"); err == nil || apierrors.ReasonForError(err) != metav1.StatusReasonUnknown {
		t.Errorf("the client received %v", err)
	}
	if !exists(t, ns, "a") {
		t.Error("it had no effect")
	}
	if s := r.End().Steps[0]; s.Reply != "lost" || !s.Wrote() {
		t.Errorf("step %+v", s)
	}
}

// TestTimeout: the write has no effect and no answer until the client times out.
func TestTimeout(t *testing.T) {
	p := newProxy(t)
	c, ns := through(t, p, "c", admin), namespace(t)
	begin(t, p, proxy.Hooks{}, faultText(t, "timeout c verb=create configmaps"))
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := create(ctx, c, ns, "a"); err == nil {
		t.Error("the client received an answer")
	}
	if exists(t, ns, "a") {
		t.Error("it had effect")
	}
}

// TestLate: a late request has effect after a later one.
func TestLate(t *testing.T) {
	p := newProxy(t)
	c, ns := through(t, p, "c", admin), namespace(t)
	f := fault.Fault{Kind: fault.KindLateRequest, Actor: "c", Verb: "create", Resource: "configmaps", Object: ns + "/first", For: time.Hour}
	r := begin(t, p, proxy.Hooks{}, f.String())
	w := follow(t, c, ns)
	done := make(chan error, 1)
	go func() { done <- create(t.Context(), c, ns, "first") }()
	acted(t, r)
	must(t, create(t.Context(), c, ns, "second"))
	seen := events(t, w, 1)
	r.End()
	must(t, <-done)
	if seen = append(seen, events(t, w, 1)...); !slices.Equal(seen, []string{"ADDED second", "ADDED first"}) {
		t.Errorf("observed %q", seen)
	}
}

// TestLateAnswer: the event of a write is delivered before its answer.
func TestLateAnswer(t *testing.T) {
	p := newProxy(t)
	c, ns := through(t, p, "c", admin), namespace(t)
	f := fault.Fault{Kind: fault.KindLateAnswer, Actor: "c", Verb: "create", Resource: "configmaps", Object: ns + "/a", Writes: 1}
	r := begin(t, p, proxy.Hooks{}, f.String())
	w, err := c.CoreV1().ConfigMaps(ns).Watch(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=a"})
	must(t, err)
	defer w.Stop()
	done := make(chan error, 1)
	go func() { done <- create(t.Context(), c, ns, "a") }()
	events(t, w, 1)
	select {
	case err := <-done:
		t.Fatalf("the answer was not held: %v", err)
	default:
	}
	must(t, create(t.Context(), c, ns, "b"))
	must(t, <-done)
	kinds := []history.Kind{}
	for _, s := range r.End().Steps {
		if s.Name == "a" {
			kinds = append(kinds, s.Kind)
		}
	}
	if !slices.Equal(kinds, []history.Kind{history.Request, history.Frame, history.Answer}) {
		t.Errorf("steps about it: %q", kinds)
	}
}

// TestHooks: the hooks are called at the right moment.
func TestHooks(t *testing.T) {
	for _, c := range []struct {
		kind   fault.Kind
		effect bool // of the write
		heard  bool // an answer
	}{
		{fault.KindCrashBefore, false, false},
		{fault.KindCrashAfter, true, false},
		{fault.KindDelete, true, true},
		{fault.KindOverlap, true, true},
	} {
		p := newProxy(t)
		client, ns := through(t, p, "c", admin), namespace(t)
		asked := make(chan bool, 1) // whether the write had had effect by then
		note := func() { asked <- exists(t, ns, "a") }
		hooks := proxy.Hooks{
			Crash:     func(string, fault.Fault) { note() },
			Overlap:   func(string, fault.Fault) { note() },
			Interfere: func(fault.Fault, history.Object) bool { note(); return true },
		}
		begin(t, p, hooks, fault.Fault{Kind: c.kind, Actor: "c", Resource: "configmaps"}.String())
		err := create(t.Context(), client, ns, "a")
		if (err == nil) != c.heard || exists(t, ns, "a") != c.effect {
			t.Errorf("%s: heard %v, effect %t", c.kind, err, exists(t, ns, "a"))
		}
		if had := <-asked; had != c.effect {
			t.Errorf("%s: the hook was called with effect %t", c.kind, had)
		}
	}
}

// TestPause: a paused client sends and receives nothing; other clients continue.
func TestPause(t *testing.T) {
	p := newProxy(t)
	c, other, ns := through(t, p, "c", admin), through(t, p, "other", admin), namespace(t)
	r := begin(t, p, proxy.Hooks{}, fault.Fault{Kind: fault.KindPause, Actor: "c", Resource: "configmaps", Object: ns + "/a", For: time.Hour}.String())
	w := follow(t, direct, ns)
	done := make(chan error, 1)
	go func() { done <- create(t.Context(), c, ns, "a") }()
	acted(t, r)
	must(t, create(t.Context(), other, ns, "b"))
	seen := events(t, w, 1)
	r.End()
	must(t, <-done)
	if seen = append(seen, events(t, w, 1)...); !slices.Equal(seen, []string{"ADDED b", "ADDED a"}) {
		t.Errorf("observed %q", seen)
	}
}
