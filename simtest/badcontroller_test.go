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

// outside is a channel that no bubble made.
var outside = make(chan struct{})

// culprit is in every controller's stack below, so that the test can see that the
// right one is named.
func culprit(wait func()) { wait() }

// TestBadControllers: each is found and named, none hangs.
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
		}, "everything comes to rest", []string{"culprit"}},
		{"waits for a channel made outside", func(context.Context, *rest.Config) error {
			culprit(func() {
				select {
				case <-outside:
				case <-over:
				}
			})
			return nil
		}, "everything comes to rest", []string{"culprit"}},
		{"waits for a socket", func(context.Context, *rest.Config) error {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				return err
			}
			go func() { <-over; _ = l.Close() }()
			culprit(func() { _, _ = l.Accept() })
			return nil
		}, "everything comes to rest", []string{"culprit"}},
		{"leaves a goroutine behind", func(ctx context.Context, _ *rest.Config) error {
			go culprit(func() { select {} })
			<-ctx.Done()
			return nil
		}, "controllers leave nothing behind", []string{"culprit"}},
		{"does not end with its context", func(context.Context, *rest.Config) error {
			culprit(func() { time.Sleep(24 * time.Hour) })
			return nil
		}, "controllers end when their context ends", []string{"bad"}},
		{"gives up", func(context.Context, *rest.Config) error {
			return context.DeadlineExceeded
		}, "controllers run until their context ends", []string{"bad", "deadline exceeded"}},
		{"panics", func(context.Context, *rest.Config) error {
			panic("no pods")
		}, "nothing panics", []string{"bad panicked", "no pods"}},
		{"panics where apimachinery looks", func(ctx context.Context, _ *rest.Config) error {
			go func() {
				defer utilruntime.HandleCrashWithContext(ctx)
				culprit(func() { panic("no nodes") })
			}()
			<-ctx.Done()
			return nil
		}, "nothing panics", []string{"no nodes", "culprit"}},
		{"writes for ever", func(ctx context.Context, config *rest.Config) error {
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
		{"computes for ever", func(ctx context.Context, _ *rest.Config) error {
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
		}, "everything comes to rest", []string{"culprit", "500ms"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := simtest.Explore(t, simtest.Seeds(5), func(w *simtest.World) { w.Controller("bad", c.controller) })
			if r.Failure == nil {
				t.Fatal("nothing was found")
			}
			f := r.Failure.Run.Failure
			if !strings.Contains(f.Oracle, c.oracle) {
				t.Errorf("broken: %s: %s", f.Oracle, f.Message)
			}
			for _, want := range c.says {
				if !strings.Contains(f.Message, want) {
					t.Errorf("the message does not say %q: %s", want, f.Message)
				}
			}
		})
	}
}

// TestNobodyRests: a controller that writes every other second is to blame for a story
// that waits for rest, not the story.
func TestNobodyRests(t *testing.T) {
	r := simtest.Explore(t, simtest.Seeds(5), func(w *simtest.World) {
		w.Controller("bad", func(ctx context.Context, config *rest.Config) error {
			client, err := kubernetes.NewForConfig(config)
			if err != nil {
				return err
			}
			tick := time.NewTicker(2 * time.Second)
			defer tick.Stop()
			for n := 0; ; n++ {
				cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "beat"}, Data: map[string]string{"n": strconv.Itoa(n)}}
				maps := client.CoreV1().ConfigMaps("default")
				if _, err := maps.Create(ctx, cm, metav1.CreateOptions{}); err != nil {
					_, _ = maps.Update(ctx, cm, metav1.UpdateOptions{})
				}
				select {
				case <-tick.C:
				case <-ctx.Done():
					return nil
				}
			}
		})
		w.Settle()
	})
	if r.Failure == nil {
		t.Fatal("nothing was found")
	}
	if f := r.Failure.Run.Failure; f.Oracle != verdict.QuiescenceOracle || !strings.Contains(f.Message, "bad sent") {
		t.Errorf("broken: %s: %s", f.Oracle, f.Message)
	}
}

// TestBrokenInMidStory: a promise that is broken while the story is still being told is
// confirmed like any other.
func TestBrokenInMidStory(t *testing.T) {
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

// remembered outlives every run, which is what TestPackageVariables is about.
var remembered int

// TestPackageVariables: a controller that keeps something from run to run is noticed.
func TestPackageVariables(t *testing.T) {
	r := simtest.Explore(t, simtest.Seeds(8), func(w *simtest.World) {
		w.Controller("bad", func(ctx context.Context, config *rest.Config) error {
			client, err := kubernetes.NewForConfig(config)
			if err != nil {
				return err
			}
			remembered++
			cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "count"}, Data: map[string]string{"many": strconv.FormatBool(remembered > 3)}}
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

// TestBadStories: what a story gets wrong is said in one line.
func TestBadStories(t *testing.T) {
	idle := func(ctx context.Context, _ *rest.Config) error { <-ctx.Done(); return nil }
	for _, c := range []struct {
		name  string
		story func(*simtest.World)
		says  string
	}{
		{"invalid object", func(w *simtest.World) { w.Create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}}) }, "spec.containers"},
		{"no such namespace", func(w *simtest.World) {
			p := pod("p")
			p.Namespace = "nowhere"
			w.Create(p)
		}, `namespaces "nowhere" not found`},
		{"twice the same name", func(w *simtest.World) { w.Controller("a", idle); w.Controller("a", idle) }, "the name is taken"},
		{"a name that faults could not say", func(w *simtest.World) { w.Controller("a b", idle) }, "a b"},
		{"a fault that is none", func(w *simtest.World) { w.Faults(fault.Fault{Kind: "lagg"}) }, "lagg"},
		{"no time", func(w *simtest.World) { w.Advance(0) }, "Advance"},
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
		{"without end", func(w *simtest.World) {
			for {
				w.Advance(time.Second)
			}
		}, "the test function has not returned"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := simtest.Explore(t, simtest.Seeds(5), c.story)
			if r.Failure == nil || !strings.Contains(r.Failure.Run.Failure.Message, c.says) {
				t.Fatalf("want %q, got %+v", c.says, r.Failure)
			}
			if r.Runs != 1 {
				t.Errorf("it took %d runs", r.Runs)
			}
		})
	}
}
