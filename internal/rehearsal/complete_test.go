//go:build unix

package rehearsal

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"

	"github.com/rehearse-k8s/rehearse/internal/verdict"
)

// copyInvariant is the invariant of copyScenario.
const copyInvariant = "a copy is never without its original"

// isLate is the error of a run that is not judged.
const isLate = "a run seems to fail, but its watch is late: the cluster is overloaded, or a watch does not work"

// failureOf returns the violated invariant of a run that has stopped, or the error.
func failureOf(r *testRun) (failure, err string) {
	out, e := r.outcome(r.t.Context())
	if e != nil {
		return "", e.Error()
	}
	if f := out.Run.Failure; f != nil {
		failure = f.Oracle
	}
	return failure, ""
}

// TestLateWatch: if the watch of the originals is late, the copies seem to exist without them. That is no violation:
// before the verdict, the monitor waits for the writes of all watches. Without the wait (a source that is never behind),
// the run fails.
func TestLateWatch(t *testing.T) {
	for name, c := range map[string]struct {
		waits        bool
		unknown      error
		copies       string
		failure, err string
	}{
		"the original is late":          {waits: true, copies: "copy-a"},
		"without the wait":              {copies: "copy-a", failure: copyInvariant},
		"there is no original":          {waits: true, copies: "alone", failure: copyInvariant},
		"the watch delivers no writes":  {waits: true, unknown: errors.New("its watch is late"), copies: "copy-a", err: isLate},
		"nor is it known what is there": {waits: true, unknown: errors.New("its watch is late"), copies: "alone", err: isLate},
	} {
		t.Run(name, func(t *testing.T) {
			inRun(t, copyScenario, func(r *testRun) {
				r.late = "configmaps"
				waits := 0
				if c.waits {
					waiting := false
					r.run.world.complete = func(ctx context.Context) error {
						if waiting {
							t.Error("waits twice at once")
						}
						waiting = true
						waits++
						defer func() { waiting = false }()
						select {
						case <-time.After(time.Second):
						case <-ctx.Done():
							return ctx.Err()
						}
						if c.unknown == nil {
							r.monitor.mu.Lock()
							defer r.monitor.mu.Unlock()
							r.late = ""
						}
						return c.unknown
					}
				}
				r.write("user", "configmaps", "copy-a")
				r.write("user", "configmaps", "copy-b")
				r.write("copier", "secrets", c.copies)
				for range 10 {
					r.pass(checkInterval)
				}
				failed := func() string {
					if f := r.monitor.failure; f != nil {
						return f.Oracle
					}
					return ""
				}
				equal(t, "failure during the run", c.failure, failed())
				if c.waits {
					equal(t, "waits, also of a cluster that is overloaded", 1, waits)
				}
				if c.failure == "" && c.err == "" {
					r.write("copier", "secrets", "copy-b")
					r.pass(2 * checkInterval)
					equal(t, "failure of a later check", "", failed())
				}
				last := int64(0)
				for _, change := range r.monitor.changes {
					if change.Revision < last {
						t.Errorf("revision %d after %d", change.Revision, last)
					}
					last = change.Revision
				}
				if c.failure == "" && c.err == "" {
					var arrived []string
					for _, timed := range r.monitor.timed {
						arrived = append(arrived, r.monitor.changes[timed.index].Key)
					}
					equal(t, "in the order of their arrival", []string{"/secrets/default/copy-a", "/configmaps/default/copy-a", "/configmaps/default/copy-b", "/secrets/default/copy-b"}, arrived)
				}
				r.cancel()
				r.watchers.Wait()
				got, err := failureOf(r)
				equal(t, "error", c.err, err)
				equal(t, "failure of the run", c.failure, got)
			})
		})
	}
}

// TestLateAtTheEnd: nor does a run fail at its end because a watch is late. The copy of an original is missing, until the
// writes of all watches are known.
func TestLateAtTheEnd(t *testing.T) {
	for name, c := range map[string]struct {
		late    string
		unknown error
		// afterwards: the writes are known when the run has stopped. It may have stopped too early, so it has not passed.
		afterwards bool
	}{
		"known":            {late: "secrets"},
		"unknown":          {late: "secrets", unknown: errors.New("its watch is late")},
		"known afterwards": {late: "configmaps", unknown: errors.New("its watch is late"), afterwards: true},
	} {
		t.Run(name, func(t *testing.T) {
			inRun(t, copyScenario, func(r *testRun) {
				r.late = c.late
				r.run.world.complete = func(context.Context) error {
					<-time.After(5 * time.Second)
					r.monitor.mu.Lock()
					defer r.monitor.mu.Unlock()
					if c.unknown == nil || c.afterwards && r.ctx.Err() != nil {
						r.late = ""
						return nil
					}
					return c.unknown
				}
				r.write("user", "configmaps", "copy-b")
				r.write("copier", "secrets", "copy-b")
				go r.monitor.follow(r.ctx)
				r.awaitEnd()
				if end := r.elapsed(); end > 40*time.Second {
					t.Errorf("the run ends after %s: the wait for writes counted as the time of a check", end)
				}
				if f := r.monitor.failure; f != nil {
					t.Errorf("during the run: %+v", f)
				}
				r.cancel()
				r.watchers.Wait()
				want := ""
				if c.unknown != nil {
					want = isLate
				}
				got, err := failureOf(r)
				equal(t, "error", want, err)
				equal(t, "failure of the run", "", got)
			})
		})
	}
}

// TestLateAfterTheEnd: nor does a run fail for a violation that only the last evaluation finds, unless it stays.
func TestLateAfterTheEnd(t *testing.T) {
	for copied, want := range map[string]string{"copy-a": "", "alone": copyInvariant} {
		inRun(t, copyScenario, func(r *testRun) {
			r.late = "configmaps"
			r.run.world.complete = func(context.Context) error {
				r.late = ""
				return nil
			}
			r.write("user", "configmaps", "copy-a")
			r.write("copier", "secrets", copied)
			got, err := failureOf(r)
			equal(t, copied, want+" ", got+" "+err)
		})
	}
}

// TestMissing: a list shows which writes and deletes a watch has not delivered.
func TestMissing(t *testing.T) {
	m := newMirror(time.Now)
	observe(m, configMaps, watch.Added, "a", 5)
	observe(m, configMaps, watch.Added, "b", 7)
	observe(m, secrets, watch.Added, "a", 20)
	for name, c := range map[string]struct {
		at    string
		items string // name and revision
		want  string
	}{
		"all":                                 {"9", "a 5, b 7", ""},
		"a newer write":                       {"9", "a 5, b 8", "the write of b at revision 8"},
		"a write older than the newest known": {"9", "a 6, b 7", ""}, // the watch delivers revisions in their order
		"a new object":                        {"12", "a 5, b 7, c 12", "the write of c at revision 12"},
		"a delete":                            {"9", "b 7", "the delete of default/a"},
		"the watch is newer than the list":    {"6", "a 5", ""},
		"a list without a revision":           {"", "", ""},
	} {
		list := &unstructured.UnstructuredList{}
		list.SetResourceVersion(c.at)
		for item := range strings.SplitSeq(c.items, ", ") {
			if object, revision, ok := strings.Cut(item, " "); ok {
				o := unstructured.Unstructured{}
				o.SetNamespace("default")
				o.SetName(object)
				o.SetResourceVersion(revision)
				list.Items = append(list.Items, o)
			}
		}
		equal(t, name, c.want, m.missing(configMaps, list))
	}
}

// gated is a client whose watches deliver their events only while open is closed.
type gated struct {
	dynamic.ResourceInterface
	open chan struct{}
}

func (g gated) Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	w, err := g.ResourceInterface.Watch(ctx, o)
	if err != nil {
		return nil, err
	}
	return watch.Filter(w, func(e watch.Event) (watch.Event, bool) {
		<-g.open
		return e, true
	}), nil
}

// TestComplete: complete returns when a late watch of a real API server has delivered a create and a delete, and not before.
func TestComplete(t *testing.T) {
	config, _ := existingCluster(t)
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	resource := schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	late := gated{client.Resource(resource).Namespace("elsewhere"), make(chan struct{})}
	open := sync.OnceFunc(func() { close(late.open) })
	t.Cleanup(open) // the watch ends only then
	m := newMirror(time.Now)
	if err := m.follow(t.Context(), t.Context(), resource, late); err != nil {
		t.Fatal(err)
	}
	_, _, cursor, err := m.current()
	if err != nil {
		t.Fatal(err)
	}
	if err := m.complete(t.Context()); err != nil {
		t.Errorf("with nothing to wait for: %v", err)
	}
	if err := late.Delete(t.Context(), "mine", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	created := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "new"}}}
	if _, err := late.Create(t.Context(), created, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	err = m.complete(short)
	if err == nil || !strings.Contains(err.Error(), "the writes of configmaps are not all known: its watch has not delivered the write of new at revision ") {
		t.Errorf("while the watch is late: %v", err)
	}
	open()
	if err := m.complete(t.Context()); err != nil {
		t.Error(err)
	}
	changes, _, err := m.changes(cursor)
	if err != nil || len(changes) != 2 || changes[0].Value != nil || changes[0].Key != "/configmaps/elsewhere/mine" || changes[1].Key != "/configmaps/elsewhere/new" {
		t.Errorf("%v, %v", changes, err)
	}
}

// TestCompleteIsInterrupted: an interrupt while complete waits for the last writes to be sorted is an error: changes does not
// return them yet.
func TestCompleteIsInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(orderDelay/2, cancel)
		if err := newMirror(time.Now).complete(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
	})
}

// TestIsGone: a resource that is not served any more has no writes to wait for.
func TestIsGone(t *testing.T) {
	for _, c := range []struct {
		err  error
		want bool
	}{
		{nil, false}, {errors.New("unreachable"), false}, {apierrors.NewTimeoutError("", 0), false},
		{apierrors.NewNotFound(configMaps, ""), true}, {apierrors.NewMethodNotSupported(configMaps, "list"), true}, {apierrors.NewServiceUnavailable(""), true},
	} {
		if got := isGone(c.err); got != c.want {
			t.Errorf("%v: %v", c.err, got)
		}
	}
}

// TestPlace: late changes come before those with a higher revision. Changes that another API server stores stay where they
// arrived.
func TestPlace(t *testing.T) {
	for arrived, want := range map[string]string{
		"1 2 3": "1 2 3", "1 3 2": "1 2 3", "3 2 1": "1 2 3", "2 f9 3": "2 f9 3", "f9 1 2": "f9 1 2", "1 3 f9 2": "1 2 3 f9", "5 f1 6": "5 f1 6", "5 f1 4": "4 5 f1",
	} {
		j := newMonitor(&run{started: time.Now(), world: &runWorld{aggregated: func(key string) bool { return key == "f" }}}, nil)
		var placed []string
		for word := range strings.FieldsSeq(arrived) {
			key := strings.TrimRight(word, "0123456789")
			revision, err := strconv.ParseInt(strings.TrimPrefix(word, key), 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			j.place(verdict.Change{Key: key, Revision: revision})
		}
		for _, c := range j.changes {
			placed = append(placed, c.Key+strconv.FormatInt(c.Revision, 10))
		}
		equal(t, arrived, want, strings.Join(placed, " "))
	}
}

// TestAggregated: an object is of an aggregated API if the APIService of its version names a Service.
func TestAggregated(t *testing.T) {
	g := &externalCluster{mirror: newMirror(time.Now)}
	for name, spec := range map[string]map[string]any{"v1.local.example.com": {}, "v1.aggregated.example.com": {"service": map[string]any{"name": "server"}}} {
		o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "spec": spec}}
		o.SetName(name)
		o.SetResourceVersion("1")
		g.mirror.handle(apiServices, watch.Event{Type: watch.Added, Object: o})
	}
	for group, want := range map[string]bool{"local.example.com": false, "aggregated.example.com": true, "": false} {
		resource := schema.GroupResource{Group: group, Resource: "things"}
		g.mirror.resources[resource] = resource.WithVersion("v1")
		equal(t, group, want, g.aggregated(keyOf(resource, "default", "a")))
	}
}
