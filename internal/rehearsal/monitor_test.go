//go:build unix

package rehearsal

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/apiserver"
	"github.com/rehearse-k8s/rehearse/internal/proxy"
	"github.com/rehearse-k8s/rehearse/internal/store"
	"github.com/rehearse-k8s/rehearse/internal/verdict"
	"github.com/rehearse-k8s/rehearse/scenario"
)

// testRun is a run without an API server and without processes. Its writes go into a store.
type testRun struct {
	*run
	t     *testing.T
	world *store.World
	// sourceErr, if set, is the error of reading the writes.
	sourceErr error
	// late is a resource whose writes the source returns only after it is set to "", and held are these writes.
	late string
	held []store.Change
}

// inRun calls do with a run of a scenario, on the clock of a bubble.
func inRun(t *testing.T, text string, do func(r *testRun)) {
	t.Helper()
	s, err := scenario.Read("copies.yaml", []byte(text), nil)
	if err != nil {
		t.Fatal(err)
	}
	unreachable := roundTripper(func(*http.Request) (*http.Response, error) { return nil, errors.New("no API server") })
	p, err := proxy.New(&rest.Config{Transport: unreachable}) // outside of the bubble: certificates are made on the machine's clock
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		worlds := store.New(store.Options{})
		r := &testRun{t: t, world: worlds.World("run"), run: &run{
			harness: &Harness{o: Options{Scenario: s}, timeouts: defaultTimeouts, mapper: kinds()},
			proxy:   p, started: time.Now(), clients: map[string]*client{}, dir: t.TempDir(),
		}}
		r.ctx, r.cancel = context.WithCancel(t.Context())
		defer r.cancel()
		r.run.world = &runWorld{drop: func(*history.Run, map[string][]write) {}}
		if r.record, err = p.Begin(history.Header{Test: "copies.yaml"}, nil, proxy.Hooks{}); err != nil {
			t.Fatal(err)
		}
		defer r.record.End()
		of, err := newFollower(failingSource{storeSource{worlds, r.world}, r}, verdict.ObjectsOptions{
			Decodings: verdict.NewDecodings(apiserver.DecodeStored), Now: time.Now, Elapsed: r.elapsed, Run: r.record.Record,
		})
		if err != nil {
			t.Fatal(err)
		}
		r.monitor = newMonitor(r.run, of)
		do(r)
		r.cancel()
		r.watchers.Wait()
	})
}

// failingSource is a source that fails, or is late, while its run says so.
type failingSource struct {
	source
	run *testRun
}

func (s failingSource) changes(cursor int64) ([]store.Change, int64, error) {
	if err := s.run.sourceErr; err != nil {
		return nil, cursor, err
	}
	changes, next, err := s.source.changes(cursor)
	if s.run.late == "" {
		changes = append(s.run.held, changes...)
		s.run.held = nil
		return changes, next, err
	}
	isLate := func(c store.Change) bool { return strings.HasPrefix(c.Key, "/"+s.run.late+"/") }
	for _, c := range changes {
		if isLate(c) {
			s.run.held = append(s.run.held, c)
		}
	}
	return slices.DeleteFunc(slices.Clone(changes), isLate), next, err
}

// Directory knows every resource of the core group.
func (s failingSource) Directory(resource schema.GroupResource) string { return directoryOf(resource) }

func (s failingSource) ResourceOf(key string) (schema.GroupResource, bool) {
	name, _, _ := strings.Cut(strings.TrimPrefix(key, "/"), "/")
	return schema.ParseGroupResource(name), true
}

// write writes a Secret or a ConfigMap as an actor; without an actor, the write is not recorded.
func (r *testRun) write(actor, resource, name string) {
	r.t.Helper()
	key := "/" + resource + "/default/" + name
	_, before, _, _, _ := r.world.RawGet(key)
	kind := map[string]string{"secrets": "Secret", "configmaps": "ConfigMap", "leases": "Lease"}[resource]
	object := fmt.Sprintf(`{"apiVersion":"v1","kind":%q,"metadata":{"namespace":"default","name":%q,"annotations":{"at":%q}}}`, kind, name, r.elapsed())
	revision, ok := r.world.RawPut(key, []byte(object), before)
	if !ok {
		r.t.Fatalf("%s is not written", key)
	}
	if actor != "" {
		r.record.Add(history.Step{Kind: history.Request, Actor: actor, Verb: "create", Code: 201, Revision: revision, Truth: revision,
			Object: history.Object{Resource: resource, Namespace: "default", Name: name}})
	}
}

// pass lets time pass and polls.
func (r *testRun) pass(d time.Duration) {
	<-time.After(d)
	r.monitor.poll()
}

// TestCountedWrites: a write of any actor postpones the end of a run, except for bookkeeping and for objects that do not
// belong to the run.
func TestCountedWrites(t *testing.T) {
	inRun(t, copyScenario, func(r *testRun) {
		r.run.world.unrecorded = func(key string) bool { return strings.HasSuffix(key, "/theirs") }
		for n, c := range []struct {
			resource, name string
			counts         bool
		}{
			{"configmaps", "copy-a", true}, {"leases", "leader", false}, {"configmaps", "theirs", false}, {"secrets", "copy-a", true},
		} {
			before := r.monitor.writes
			r.write("user", c.resource, c.name)
			r.pass(time.Second)
			equal(t, c.resource+" "+c.name, c.counts, r.monitor.writes > before)
			equal(t, c.resource+" "+c.name+" is the last write", c.counts, r.monitor.quietFor(r.run.elapsed(), time.Hour) == 0)
			equal(t, "changes", n+1, len(r.monitor.changes))
		}
	})
}

// TestUnreadableWorld: a run whose writes cannot be read has no other verdict.
func TestUnreadableWorld(t *testing.T) {
	inRun(t, copyScenario, func(r *testRun) {
		r.pass(time.Second)
		r.sourceErr = errors.New("watch pods: the watch ended")
		r.pass(time.Second)
		want := &history.Failure{Oracle: "the record is whole", Message: "watch pods: the watch ended", At: 2 * time.Second}
		equal(t, "failure", want, r.monitor.failure)
		if _, err := r.monitor.await(time.Second, func() bool { return true }); !errors.Is(err, errRunOver) {
			t.Errorf("a step of the run gives %v", err)
		}
	})
}

// TestViolatedDuringRun: an invariant is checked at each step of the record, at most every checkInterval, and not beyond
// a write whose answer is still missing.
func TestViolatedDuringRun(t *testing.T) {
	inRun(t, copyScenario, func(r *testRun) {
		r.write("user", "configmaps", "copy-a")
		r.pass(pollInterval)
		pending := r.record.Add(history.Step{Kind: history.Request, Actor: "copier", Verb: "patch", Object: history.Object{Resource: "secrets", Namespace: "default", Name: "x"}})
		r.write("copier", "secrets", "alone")
		r.pass(2 * checkInterval)
		if r.monitor.failure != nil {
			t.Errorf("a violation after a write without an answer: %+v", r.monitor.failure)
		}
		x := r.monitor.evaluate(true)
		if x.failure == nil || x.failure.Step != pending+1 || x.failure.Oracle != "a copy is never without its original" {
			t.Errorf("over the whole record: %+v", x.failure)
		}
	})
	inRun(t, copyScenario, func(r *testRun) {
		r.pass(pollInterval) // the first check
		r.write("copier", "secrets", "alone")
		r.pass(checkInterval - pollInterval)
		if r.monitor.failure != nil {
			t.Error("checked again before checkInterval")
		}
		r.pass(pollInterval)
		if f := r.monitor.failure; f == nil || f.Oracle != "a copy is never without its original" || f.At != checkInterval+pollInterval {
			t.Errorf("%+v", f)
		}
	})
}

// TestEvaluateOnce: the whole record is evaluated again only if a step or a change was added.
func TestEvaluateOnce(t *testing.T) {
	inRun(t, copyScenario, func(r *testRun) {
		r.write("user", "configmaps", "copy-a")
		r.pass(time.Second)
		first := r.monitor.evaluate(true)
		if r.monitor.evaluate(true) != first {
			t.Error("evaluated again without a change")
		}
		if r.monitor.evaluate(false) == first || r.monitor.evaluate(true) != first {
			t.Error("an evaluation during the run replaces that of the whole run")
		}
		r.record.Add(history.Step{Kind: history.Start, Actor: "copier"})
		second := r.monitor.evaluate(true)
		r.write("", "secrets", "copy-a")
		r.pass(time.Second)
		if third := r.monitor.evaluate(true); second == first || third == second {
			t.Error("not evaluated after a step or a change")
		}
	})
}

// TestAwaitExtended: the time during which faults delay something extends the limit of a step, twice.
func TestAwaitExtended(t *testing.T) {
	for name, c := range map[string]struct {
		held, want time.Duration
	}{
		"no fault":            {0, 2 * time.Second},
		"a fault for 500 ms":  {500 * time.Millisecond, 3 * time.Second},
		"a fault for 3 s":     {3 * time.Second, 8 * time.Second},
		"a fault for a while": {time.Minute, 122 * time.Second},
	} {
		inRun(t, copyScenario, func(r *testRun) {
			if c.held > 0 {
				r.afterFault(fault.Fault{For: c.held}, func() {})
			}
			go r.monitor.follow(r.ctx)
			held, err := r.monitor.await(2*time.Second, func() bool { return false })
			if took := r.elapsed(); held || err != nil || took < c.want-4*pollInterval || took > c.want+4*pollInterval {
				t.Errorf("%s: %t, %v after %s, want %s", name, held, err, took, c.want)
			}
		})
	}
}

// TestAwaitHolds: a condition that holds ends a step at the next poll; an interrupted run has no verdict.
func TestAwaitHolds(t *testing.T) {
	inRun(t, copyScenario, func(r *testRun) {
		held, err := r.monitor.await(time.Minute, func() bool { return r.elapsed() >= time.Second })
		if !held || err != nil || r.elapsed() != time.Second {
			t.Errorf("%t, %v after %s", held, err, r.elapsed())
		}
		time.AfterFunc(time.Second, r.cancel)
		if _, err := r.monitor.await(time.Minute, func() bool { return false }); !errors.Is(err, context.Canceled) || r.elapsed() != 2*time.Second {
			t.Errorf("%v after %s", err, r.elapsed())
		}
	})
}
