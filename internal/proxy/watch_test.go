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

// mine leaves out what the cluster makes by itself.
var mine = metav1.ListOptions{FieldSelector: "metadata.name!=kube-root-ca.crt"}

// follow begins a watch from now.
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

// TestLag holds the second event until two more writes: it and what follows come then, in
// order, and other clients' streams go on meanwhile.
func TestLag(t *testing.T) {
	p := newProxy(t)
	for name, c := range clients(t, p) {
		ns := namespace(t)
		r := begin(t, p, proxy.Hooks{}, fault.Fault{Kind: fault.KindLag, Actor: name, Resource: "configmaps", Nth: 2, Writes: 2}.String())
		other := through(t, p, "other", admin)
		late, prompt := follow(t, c, ns), follow(t, other, ns)
		must(t, create(t.Context(), other, ns, "a"))
		must(t, create(t.Context(), other, ns, "b"))
		if told := events(t, late, 1); !slices.Equal(told, []string{"ADDED a"}) {
			t.Errorf("%s: told %q", name, told)
		}
		must(t, create(t.Context(), other, ns, "c"))
		_ = events(t, prompt, 3)
		select {
		case e := <-late.ResultChan():
			t.Fatalf("%s: %s was not held", name, e.Type)
		default:
		}
		must(t, create(t.Context(), other, ns, "d"))
		if told := events(t, late, 3); !slices.Equal(told, []string{"ADDED b", "ADDED c", "ADDED d"}) {
			t.Errorf("%s: told %q", name, told)
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

// framesOf are the events of an object that a record has.
func framesOf(run *history.Run, name string) (frames []history.Step) {
	for _, s := range run.Steps {
		if s.Kind == history.Frame && s.Name == name {
			frames = append(frames, s)
		}
	}
	return frames
}

// TestUntilQuiet: a hold without an end is over when nothing else happens.
func TestUntilQuiet(t *testing.T) {
	p := newProxy(t)
	c, ns := through(t, p, "c", admin), namespace(t)
	r := begin(t, p, proxy.Hooks{}, fault.Fault{Kind: fault.KindLag, Actor: "c", Resource: "configmaps"}.String())
	w := follow(t, c, ns)
	must(t, create(t.Context(), c, ns, "a"))
	if told := events(t, w, 1); told[0] != "ADDED a" {
		t.Errorf("told %q", told)
	}
	if frames := framesOf(r.End(), "a"); len(frames) != 1 || frames[0].Fault == "" || frames[0].At < proxy.Quiet {
		t.Errorf("it was not held: %+v", frames)
	}
}

// TestRelist: what was held is gone, the watch ends, and the next from a revision is told
// that it has expired, once.
func TestRelist(t *testing.T) {
	p := newProxy(t)
	for name, c := range clients(t, p) {
		ns := namespace(t)
		r := begin(t, p, proxy.Hooks{}, fault.Fault{Kind: fault.KindRelist, Actor: name, Resource: "configmaps", Writes: 1}.String())
		w := follow(t, c, ns)
		must(t, create(t.Context(), c, ns, "a"))
		must(t, create(t.Context(), c, ns, "b"))
		if told := events(t, w, 1); told[0] != "end" {
			t.Errorf("%s: told %q", name, told)
		}
		o := mine
		o.ResourceVersion = "1"
		if _, err := c.CoreV1().ConfigMaps(ns).Watch(t.Context(), o); !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) {
			t.Errorf("%s: the next watch: %v", name, err)
		}
		w = follow(t, c, ns)
		must(t, create(t.Context(), c, ns, "c"))
		if told := events(t, w, 1); told[0] != "ADDED c" {
			t.Errorf("%s: told %q", name, told)
		}
		w.Stop()
		r.End()
	}
}

// TestStreamsAltered: a watch that is cut, an event that is lost, one that comes twice.
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
		if told := events(t, w, len(want)); !slices.Equal(told, want) {
			t.Errorf("%s: told %q, want %q", kind, told, want)
		}
	}
}

// TestEndOfRun: what is held when a run ends arrives, and the next run knows nothing of it.
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
	if told := events(t, w, 1); told[0] != "ADDED a" {
		t.Errorf("told %q", told)
	}
	begin(t, p, proxy.Hooks{})
	must(t, create(t.Context(), c, ns, "b"))
	if told := events(t, w, 1); told[0] != "ADDED b" {
		t.Errorf("told %q", told)
	}
}
