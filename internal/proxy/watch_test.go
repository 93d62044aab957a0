package proxy_test

import (
	"slices"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/proxy"
)

// mine leaves out what the cluster creates by itself.
var mine = metav1.ListOptions{FieldSelector: "metadata.name!=kube-root-ca.crt"}

// follow starts a watch from now.
func follow(t *testing.T, c kubernetes.Interface, ns string) watch.Interface {
	t.Helper()
	list, err := direct.CoreV1().ConfigMaps(ns).List(t.Context(), metav1.ListOptions{})
	must(t, err)
	o := mine
	o.ResourceVersion = list.ResourceVersion
	w, err := c.CoreV1().ConfigMaps(ns).Watch(t.Context(), o)
	must(t, err)
	t.Cleanup(w.Stop)
	return w
}

// clients are one that asks for JSON and one that asks for protobuf.
func clients(t *testing.T, p *proxy.Proxy) map[string]kubernetes.Interface {
	binary := rest.CopyConfig(admin)
	binary.ContentType, binary.AcceptContentTypes = "application/vnd.kubernetes.protobuf", "application/vnd.kubernetes.protobuf"
	return map[string]kubernetes.Interface{"json": through(t, p, "json", admin), "protobuf": through(t, p, "protobuf", binary)}
}

// TestLag holds the second event until two more writes: then it and the following events are
// delivered in order. The streams of other clients continue meanwhile.
func TestLag(t *testing.T) {
	p := newProxy(t)
	for name, c := range clients(t, p) {
		ns := namespace(t)
		r := begin(t, p, proxy.Hooks{}, fault.Fault{Kind: fault.KindLag, Actor: name, Resource: "configmaps", Nth: 2, Writes: 2}.String())
		other := through(t, p, "other", admin)
		late, prompt := follow(t, c, ns), follow(t, other, ns)
		must(t, create(t.Context(), other, ns, "a"))
		must(t, create(t.Context(), other, ns, "b"))
		if seen := events(t, late, 1); !slices.Equal(seen, []string{"ADDED a"}) {
			t.Errorf("%s: observed %q", name, seen)
		}
		must(t, create(t.Context(), other, ns, "c"))
		_ = events(t, prompt, 3)
		select {
		case e := <-late.ResultChan():
			t.Fatalf("%s: %s was not held", name, e.Type)
		default:
		}
		must(t, create(t.Context(), other, ns, "d"))
		if seen := events(t, late, 3); !slices.Equal(seen, []string{"ADDED b", "ADDED c", "ADDED d"}) {
			t.Errorf("%s: observed %q", name, seen)
		}
		late.Stop()
		prompt.Stop()
		run := r.End()
		causes := 0
		for _, s := range run.Steps {
			if s.Kind == history.Frame && s.Actor == name && len(s.Causes) == 1 && run.Steps[s.Causes[0]].Name == s.Name {
				causes++
			}
		}
		if causes != 4 {
			t.Errorf("%s: %d events have the write that caused them", name, causes)
		}
	}
}

// framesOf returns the events of an object in a record.
func framesOf(run *history.Run, name string) (frames []history.Step) {
	for _, s := range run.Steps {
		if s.Kind == history.Frame && s.Name == name {
			frames = append(frames, s)
		}
	}
	return frames
}

// TestUntilQuiet: a hold without a limit ends when nothing else happens.
func TestUntilQuiet(t *testing.T) {
	p := newProxy(t)
	c, ns := through(t, p, "c", admin), namespace(t)
	r := begin(t, p, proxy.Hooks{}, fault.Fault{Kind: fault.KindLag, Actor: "c", Resource: "configmaps"}.String())
	w := follow(t, c, ns)
	must(t, create(t.Context(), c, ns, "a"))
	if seen := events(t, w, 1); seen[0] != "ADDED a" {
		t.Errorf("observed %q", seen)
	}
	if frames := framesOf(r.End(), "a"); len(frames) != 1 || frames[0].Fault == "" || frames[0].At < proxy.Quiet {
		t.Errorf("it was not held: %+v", frames)
	}
}

// TestRelist: the held events are lost, the watch ends, and the next watch from a revision is
// answered that it has expired, once.
func TestRelist(t *testing.T) {
	p := newProxy(t)
	for name, c := range clients(t, p) {
		ns := namespace(t)
		r := begin(t, p, proxy.Hooks{}, fault.Fault{Kind: fault.KindRelist, Actor: name, Resource: "configmaps", Writes: 1}.String())
		w := follow(t, c, ns)
		must(t, create(t.Context(), c, ns, "a"))
		must(t, create(t.Context(), c, ns, "b"))
		if seen := events(t, w, 1); seen[0] != "end" {
			t.Errorf("%s: observed %q", name, seen)
		}
		o := mine
		o.ResourceVersion = "1"
		next, err := c.CoreV1().ConfigMaps(ns).Watch(t.Context(), o)
		must(t, err)
		if e := <-next.ResultChan(); e.Type != watch.Error || !apierrors.IsResourceExpired(apierrors.FromObject(e.Object)) {
			t.Errorf("%s: the next watch: %+v", name, e)
		}
		if _, more := <-next.ResultChan(); more {
			t.Errorf("%s: the stream does not end after its error", name)
		}
		w = follow(t, c, ns)
		must(t, create(t.Context(), c, ns, "c"))
		if seen := events(t, w, 1); seen[0] != "ADDED c" {
			t.Errorf("%s: observed %q", name, seen)
		}
		w.Stop()
		r.End()
	}
}

// TestStreamsAltered: a watch that ends, an event that is lost, one that is delivered twice.
func TestStreamsAltered(t *testing.T) {
	for kind, want := range map[fault.Kind][]string{
		fault.KindDisconnect:  {"ADDED a", "end"},
		fault.KindLoseEvent:   {"ADDED a", "ADDED c"},
		fault.KindRepeatEvent: {"ADDED a", "ADDED b", "ADDED b", "ADDED c"},
	} {
		p := newProxy(t)
		c, ns := through(t, p, "c", admin), namespace(t)
		begin(t, p, proxy.Hooks{}, fault.Fault{Kind: kind, Actor: "c", Resource: "configmaps", Nth: 2}.String())
		w := follow(t, c, ns)
		for _, name := range []string{"a", "b", "c"} {
			must(t, create(t.Context(), c, ns, name))
		}
		if seen := events(t, w, len(want)); !slices.Equal(seen, want) {
			t.Errorf("%s: observed %q, want %q", kind, seen, want)
		}
	}
}

// TestEndOfRun: what is held at the end of a run is delivered, and the next run is not affected.
func TestEndOfRun(t *testing.T) {
	p := newProxy(t)
	c, ns := through(t, p, "c", admin), namespace(t)
	r := begin(t, p, proxy.Hooks{}, fault.Fault{Kind: fault.KindLag, Actor: "c", Resource: "configmaps", For: 1 << 40}.String())
	w := follow(t, c, ns)
	must(t, create(t.Context(), c, ns, "a"))
	acted(t, r)
	if _, err := p.Begin(history.Header{}, nil, proxy.Hooks{}); err == nil {
		t.Error("two runs at once")
	}
	if frames := framesOf(r.End(), "a"); len(frames) != 0 {
		t.Errorf("it was not held: %+v", frames)
	}
	if seen := events(t, w, 1); seen[0] != "ADDED a" {
		t.Errorf("observed %q", seen)
	}
	begin(t, p, proxy.Hooks{})
	must(t, create(t.Context(), c, ns, "b"))
	if seen := events(t, w, 1); seen[0] != "ADDED b" {
		t.Errorf("observed %q", seen)
	}
}
