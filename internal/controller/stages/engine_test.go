package stages

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"go.uber.org/goleak"

	"github.com/rehearse-k8s/rehearse/stage"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestDispatch checks, in virtual time, that every key is dispatched exactly when it is due, also a key that
// is set to an earlier time while the dispatcher waits.
func TestDispatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tab := newTable(testSet(t, testStages), 1, func(*corev1.Node) bool { return true })
		wake := make(chan struct{}, 1)
		tab.wake = func() { notify(wake) }
		ctx, cancel := context.WithCancel(t.Context())
		due := make(chan types.UID)
		var running sync.WaitGroup
		running.Go(func() { dispatch(ctx, clock.RealClock{}, tab.pop, wake, due) })
		var mu sync.Mutex
		late := map[string]time.Duration{}
		for range 3 {
			running.Go(func() {
				for uid := range due {
					j, ok := tab.begin(time.Now(), uid)
					if !ok {
						continue
					}
					mu.Lock()
					late[j.key.name] = time.Since(j.decision.Due)
					mu.Unlock()
					tab.done(time.Now(), j, outcome{kind: played})
				}
			})
		}
		tab.observe(time.Now(), testNode(1), false)
		for i := range 100 {
			p := testPod(2, []string{"go", "other"}[i%2])
			p.Name, p.UID = fmt.Sprint(i), types.UID(fmt.Sprint(i))
			tab.observe(time.Now(), p, false)
			time.Sleep(37 * time.Millisecond)
		}
		time.Sleep(time.Minute)
		cancel()
		running.Wait()
		if len(late) != 100 {
			t.Errorf("%d of 100 were played", len(late))
		}
		for name, by := range late {
			if by != 0 {
				t.Errorf("%s was %s late", name, by)
			}
		}
	})
}

// TestOneFailureStarvesNoOther checks that an object whose writes always fail does not block the others, even
// with a single worker.
func TestOneFailureStarvesNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tab := newTable(testSet(t, testStages), 1, func(*corev1.Node) bool { return true })
		wake := make(chan struct{}, 1)
		tab.wake = func() { notify(wake) }
		ctx, cancel := context.WithCancel(t.Context())
		due := make(chan types.UID)
		var running sync.WaitGroup
		running.Go(func() { dispatch(ctx, clock.RealClock{}, tab.pop, wake, due) })
		var mu sync.Mutex
		attempts := map[string]int{}
		running.Go(func() {
			for uid := range due {
				j, ok := tab.begin(time.Now(), uid)
				if !ok {
					continue
				}
				mu.Lock()
				attempts[j.key.name]++
				mu.Unlock()
				time.Sleep(10 * time.Millisecond)
				o := outcome{kind: played}
				if j.key.name == "bad" {
					o.kind = failed
				}
				tab.done(time.Now(), j, o)
			}
		})
		tab.observe(time.Now(), testNode(1), false)
		for _, name := range []string{"bad", "a", "b", "c"} {
			p := testPod(2, "other")
			p.Name, p.UID = name, types.UID(name)
			tab.observe(time.Now(), p, false)
		}
		time.Sleep(11 * time.Second)
		mu.Lock()
		if attempts["a"] != 1 || attempts["b"] != 1 || attempts["c"] != 1 || attempts["bad"] < 2 {
			t.Errorf("attempts: %v", attempts)
		}
		mu.Unlock()
		time.Sleep(10 * time.Minute)
		cancel()
		running.Wait()
		if attempts["bad"] < 10 || attempts["bad"] > 40 {
			t.Errorf("%d attempts at what always fails", attempts["bad"])
		}
	})
}

type unreachable struct{}

func (unreachable) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, errors.New("connection refused")
}

// TestRunEnds checks that, with an unreachable API, Run keeps trying, and returns when its context ends, after
// everything that it has started.
func TestRunEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, err := NewStageEngine(&rest.Config{Host: "http://unreachable.invalid", Transport: unreachable{}}, StageOptions{Stages: testSet(t, testStages)})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- e.Run(ctx) }()
		time.Sleep(5 * time.Minute)
		select {
		case err := <-done:
			t.Fatalf("gave up: %v", err)
		case <-e.Synced():
			t.Fatal("synced without a list")
		default:
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestOptions(t *testing.T) {
	set := testSet(t, testStages)
	for want, o := range map[string]StageOptions{
		"stage engine: no stages":                                        {},
		"stage engine: lease duration 1ms is under a second":             {Stages: set, LeaseDuration: time.Millisecond},
		"stage engine: -1 workers":                                       {Stages: set, Workers: -1},
		`stage engine: node address: ParseAddr("x"): unable to parse IP`: {Stages: set, NodeIP: "x"},
		`stage engine: node range: netip.ParsePrefix("x"): no '/'`:       {Stages: set, NodeCIDR: "x"},
		`stage engine: pod range: netip.ParsePrefix("x"): no '/'`:        {Stages: set, PodCIDR: "x"},
	} {
		if _, err := NewStageEngine(&rest.Config{}, o); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestNodeFilter(t *testing.T) {
	n := func(annotations, labels map[string]string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Annotations: annotations, Labels: labels}}
	}
	fake := map[string]string{"kwok.x-k8s.io/node": "fake"}
	ab := map[string]string{"a": "b"}
	for text, want := range map[string][4]bool{ // fake, annotated a=b, labelled a=b, none
		"all":                                {true, true, true, true},
		"annotation:kwok.x-k8s.io/node=fake": {true, false, false, false},
		"annotation:a=b":                     {false, true, false, false},
		"label:a=b":                          {false, false, true, false},
		"label:a=":                           {false, false, false, false},
		"annotation:a=b=c":                   {false, false, false, false},
		"label:a":                            {false, false, true, false},
		"label:!a":                           {true, true, false, true},
		"label:a in (b,c),!x":                {false, false, true, false},
		"label:a=b,c=d":                      {false, false, false, false},
		"annotation:a notin (b)":             {true, false, true, true},
		"annotation:a=b,!x":                  {false, true, false, false},
	} {
		f, err := ParseNodeFilter(text)
		if err != nil || f.String() != text {
			t.Errorf("%s: %v, %v", text, f, err)
		}
		got := [4]bool{f.Matches(n(fake, nil)), f.Matches(n(ab, nil)), f.Matches(n(nil, ab)), f.Matches(n(nil, nil))}
		if got != want {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
	if zero := (NodeFilter{}); zero.String() != "annotation:kwok.x-k8s.io/node=fake" || !zero.Matches(n(fake, nil)) || zero.Matches(n(ab, ab)) {
		t.Error("the zero filter must match exactly the nodes that are annotated as simulated")
	}
	for _, bad := range []string{"", "none", "label:", "annotation", "label:a=b=c", "label:a in b", "annotation:a in b", "label:=b", "annotation:a b=c", "node:a=b"} {
		if _, err := ParseNodeFilter(bad); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}

// TestDeletes checks that every form in which an informer delivers a delete reaches the table.
func TestDeletes(t *testing.T) {
	e, err := NewStageEngine(&rest.Config{Host: "http://unreachable.invalid"}, StageOptions{Stages: testSet(t, testStages), LeaseDuration: -1})
	if err != nil {
		t.Fatal(err)
	}
	known := func() int { n, _ := e.table.size(); return n }
	for name, o := range map[string]any{
		"the object":       testPod(3),
		"last known state": cache.DeletedFinalStateUnknown{Key: "default/p", Obj: testPod(3)},
		"only the name":    cache.DeletedFinalStateUnknown{Key: "default/p"},
	} {
		e.observe(testPod(2, "go"), false)
		if known() != 1 {
			t.Fatalf("%s: %d known", name, known())
		}
		e.deleted(stage.KindPod, o)
		if known() != 0 {
			t.Errorf("%s: %d known afterwards", name, known())
		}
	}
}

func TestWithoutManagedFields(t *testing.T) {
	p := testPod(1)
	p.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "x"}}
	dropManagedFields(p)
	if p.ManagedFields != nil {
		t.Errorf("%v: it must be nil, an empty list would reset them", p.ManagedFields)
	}
}
