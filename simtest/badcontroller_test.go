package simtest_test

import (
	"context"
	"flag"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/internal/verdict"
	"github.com/rehearse-k8s/rehearse/invariant"
	"github.com/rehearse-k8s/rehearse/simtest"
)

// outside is a channel created outside of all bubbles.
var outside = make(chan struct{})

// culprit is in the stack of each goroutine that is at fault below, so that the test can check that
// the failure names it.
func culprit(wait func()) { wait() }

// TestBadControllers checks that the search reports each faulty controller by its name or its
// stack, and does not hang.
func TestBadControllers(t *testing.T) {
	must(t, flag.Set("simtest.stuck", "500ms"))
	t.Cleanup(func() { must(t, flag.Set("simtest.stuck", "10s")) })
	over := make(chan struct{})
	t.Cleanup(func() { close(over) })

	for _, c := range []struct {
		name       string
		controller simtest.Constructor
		oracle     string
		says       []string
	}{
		{"waits for a mutex", func(ctx context.Context, _ *rest.Config) error {
			var mu sync.Mutex
			mu.Lock()
			go func() { <-over; mu.Unlock() }()
			culprit(mu.Lock)
			return nil
		}, "every goroutine makes progress", []string{"culprit"}},
		{"waits for a channel created outside", func(context.Context, *rest.Config) error {
			culprit(func() {
				select {
				case <-outside:
				case <-over:
				}
			})
			return nil
		}, "every goroutine makes progress", []string{"culprit"}},
		{"waits for a socket", func(context.Context, *rest.Config) error {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				return err
			}
			go func() { <-over; _ = l.Close() }()
			culprit(func() { _, _ = l.Accept() })
			return nil
		}, "every goroutine makes progress", []string{"culprit"}},
		{"leaves a goroutine behind", func(ctx context.Context, _ *rest.Config) error {
			go culprit(func() { select {} })
			<-ctx.Done()
			return nil
		}, "controllers leave nothing behind", []string{"culprit"}},
		{"does not end with its context", func(context.Context, *rest.Config) error {
			culprit(func() { time.Sleep(24 * time.Hour) })
			return nil
		}, "controllers end when their context ends", []string{"bad"}},
		{"returns an error", func(context.Context, *rest.Config) error {
			return context.DeadlineExceeded
		}, "controllers run until their context ends", []string{"bad", "deadline exceeded"}},
		{"panics", func(context.Context, *rest.Config) error {
			panic("no pods")
		}, "nothing panics", []string{"bad panicked", "no pods"}},
		{"panics under HandleCrash", func(ctx context.Context, _ *rest.Config) error {
			go func() {
				defer utilruntime.HandleCrashWithContext(ctx)
				culprit(func() { panic("no nodes") })
			}()
			<-ctx.Done()
			return nil
		}, "nothing panics", []string{"no nodes", "culprit"}},
		{"writes forever", func(ctx context.Context, config *rest.Config) error {
			client, err := kubernetes.NewForConfig(config)
			if err != nil {
				return err
			}
			for n := 0; ctx.Err() == nil; n++ {
				cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "more-"}}
				if _, err := client.CoreV1().ConfigMaps("default").Create(ctx, cm, metav1.CreateOptions{}); err != nil && ctx.Err() == nil {
					return err
				}
			}
			return nil
		}, verdict.QuiescenceOracle, []string{"bad sent"}},
		{"computes forever", func(ctx context.Context, _ *rest.Config) error {
			go culprit(func() {
				for n := 0; ; n++ {
					if n%1024 == 0 {
						select {
						case <-over:
							return
						default:
						}
					}
				}
			})
			<-ctx.Done()
			return nil
		}, "every goroutine makes progress", []string{"culprit", "500ms"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := simtest.Explore(t, simtest.Seeds(5), func(w *simtest.World) { w.Controller("bad", c.controller) })
			if r.Failure == nil {
				t.Fatal("no failure was found")
			}
			f := r.Failure.Run.Failure
			if !strings.Contains(f.Oracle, c.oracle) {
				t.Errorf("violated: %s: %s", f.Oracle, f.Message)
			}
			for _, want := range c.says {
				if !strings.Contains(f.Message, want) {
					t.Errorf("the message does not contain %q: %s", want, f.Message)
				}
			}
		})
	}
}

// TestViolationBeforeTestReturns checks that a violation that happens while the test function still
// runs is confirmed like any other.
func TestViolationBeforeTestReturns(t *testing.T) {
	r := simtest.Explore(t, simtest.Seeds(5), func(w *simtest.World) {
		w.Always(invariant.Gone("pods", "default", "p"))
		w.Advance(time.Second)
		w.Create(pod("p"))
		w.Advance(time.Hour)
	})
	if r.Failure == nil || r.Failure.Same != 3 {
		t.Errorf("got %+v", r.Failure)
	}
}

// callCount keeps its value from run to run, which TestPackageVariables reports.
var callCount int

// TestPackageVariables checks that a controller that keeps state from run to run is reported.
func TestPackageVariables(t *testing.T) {
	r := simtest.Explore(t, simtest.Seeds(8), func(w *simtest.World) {
		w.Controller("bad", func(ctx context.Context, config *rest.Config) error {
			client, err := kubernetes.NewForConfig(config)
			if err != nil {
				return err
			}
			callCount++
			cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "count"}, Data: map[string]string{"many": strconv.FormatBool(callCount > 3)}}
			if _, err := client.CoreV1().ConfigMaps("default").Create(ctx, cm, metav1.CreateOptions{}); err != nil && ctx.Err() == nil {
				<-ctx.Done()
			}
			<-ctx.Done()
			return nil
		})
		w.Faults()
	})
	if r.Failure != nil {
		t.Fatal(r.Failure.Run.Failure)
	}
	if r.Drift == nil || !r.Drift.Same {
		t.Errorf("drift: %+v", r.Drift)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestInvalidTests checks that an error of the test itself is reported in one line, after one run.
func TestInvalidTests(t *testing.T) {
	idle := func(ctx context.Context, _ *rest.Config) error { <-ctx.Done(); return nil }
	for _, c := range []struct {
		name string
		test func(*simtest.World)
		says string
	}{
		{"invalid object", func(w *simtest.World) { w.Create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}}) }, "spec.containers"},
		{"missing namespace", func(w *simtest.World) {
			p := pod("p")
			p.Namespace = "nowhere"
			w.Create(p)
		}, `namespaces "nowhere" not found`},
		{"duplicate controller name", func(w *simtest.World) { w.Controller("a", idle); w.Controller("a", idle) }, "the name is taken"},
		{"a controller name with a blank", func(w *simtest.World) { w.Controller("a b", idle) }, "a b"},
		{"an unknown fault kind", func(w *simtest.World) { w.Faults(fault.Fault{Kind: "lagg"}) }, "lagg"},
		{"zero duration", func(w *simtest.World) { w.Advance(0) }, "Advance"},
		{"fatal", func(w *simtest.World) { w.Fatalf("enough: %d", 3) }, "enough: 3"},
		{"panic", func(*simtest.World) { panic("oh") }, "oh"},
		{"an invariant that panics", func(w *simtest.World) {
			w.Always(invariant.Func("mine", func(invariant.View) error { panic("ah") }))
			w.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}})
		}, `invariant "mine" panicked: ah`},
		{"an invariant without a check", func(w *simtest.World) {
			w.Always(invariant.Invariant{Name: "empty"})
			w.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}})
		}, `invariant "empty" has no Check`},
		{"a test that does not return", func(w *simtest.World) {
			for {
				w.Advance(time.Second)
			}
		}, "the test function has not returned"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := simtest.Explore(t, simtest.Seeds(5), c.test)
			if r.Failure == nil || !strings.Contains(r.Failure.Run.Failure.Message, c.says) {
				t.Fatalf("want %q, got %+v", c.says, r.Failure)
			}
			if r.Runs != 1 {
				t.Errorf("there were %d runs, want 1", r.Runs)
			}
		})
	}
}
