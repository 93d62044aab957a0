package simtest_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/verdict"
	"github.com/rehearse-k8s/rehearse/invariant"
	"github.com/rehearse-k8s/rehearse/simtest"
)

// counter counts its starts in a ConfigMap, so that a crash changes the final state.
func counter(ctx context.Context, config *rest.Config) error {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	maps := client.CoreV1().ConfigMaps("default")
	o, err := maps.Get(ctx, "starts", metav1.GetOptions{})
	if err != nil {
		_, _ = maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "starts"}, Data: map[string]string{"example.com.starts": "1"}}, metav1.CreateOptions{})
	} else {
		o.Data["example.com.starts"] += "1"
		_, _ = maps.Update(ctx, o, metav1.UpdateOptions{})
	}
	<-ctx.Done()
	return nil
}

// TestSwitches: a difference of final states names the switch that accepts it, and that switch does.
func TestSwitches(t *testing.T) {
	crash := fault.Fault{Kind: fault.KindCrashAfter, Actor: "counter"}
	for name, c := range map[string]struct {
		accept func(*simtest.World)
		fails  bool
	}{
		"nothing":        {func(*simtest.World) {}, true},
		"another field":  {func(w *simtest.World) { w.Ignore("configmaps", "data.other") }, true},
		"the field":      {func(w *simtest.World) { w.Ignore("configmaps", "data[example.com.starts]") }, false},
		"the resource":   {func(w *simtest.World) { w.Ignore("configmaps") }, false},
		"the invariant":  {func(w *simtest.World) { w.Disable("EndState") }, false},
		"another fault":  {func(w *simtest.World) { w.Except(fault.Fault{Kind: fault.KindCrashBefore}) }, true},
		"the fault":      {func(w *simtest.World) { w.Except(fault.Fault{Kind: fault.KindCrashAfter, Actor: "counter"}) }, false},
		"the controller": {func(w *simtest.World) { w.Trust("counter") }, false},
	} {
		r := simtest.Explore(t, simtest.Seeds(10), func(w *simtest.World) {
			w.Faults(crash, fault.Fault{Kind: fault.KindCrashAfter, Actor: "once"})
			c.accept(w)
			w.Controller("counter", counter)
			w.Controller("once", once)
		})
		if (r.Failure != nil) != c.fails {
			t.Errorf("%s: %+v", name, r.Failure)
			continue
		}
		if r.Failure != nil {
			want := history.Failure{Oracle: verdict.BaselineOracle, Resource: "configmaps", Path: "data[example.com.starts]"}
			f := r.Failure.Run.Failure
			if f.Oracle != want.Oracle || f.Resource != want.Resource || f.Path != want.Path || !strings.HasPrefix(f.Switch, `w.Ignore("configmaps", "data[example.com.starts]")`) {
				t.Errorf("%s: %+v", name, f)
			}
		}
	}
}

// TestTrusted: the search injects no fault at the requests of a trusted controller.
func TestTrusted(t *testing.T) {
	for _, trusted := range []bool{false, true} {
		r := simtest.Explore(t, simtest.Seeds(20), func(w *simtest.World) {
			w.AllowDifferentOutcomes()
			if trusted {
				w.Trust("counter")
			}
			w.Controller("counter", counter)
		})
		if got := r.SystematicTotal == 0; got != trusted {
			t.Errorf("trusted %t: %d single faults", trusted, r.SystematicTotal)
		}
	}
}

// TestUnknownNames: a test that names an invariant, a path or a controller that does not exist fails.
func TestUnknownNames(t *testing.T) {
	for name, c := range map[string]struct {
		test func(*simtest.World)
		says string
	}{
		"an invariant": {func(w *simtest.World) { w.Disable("quiet") }, `Disable("quiet"): unknown invariant; want one of EndState, `},
		"a resource":   {func(w *simtest.World) { w.Ignore("") }, `Ignore(""): want a resource`},
		"a path":       {func(w *simtest.World) { w.Ignore("pods", "status..x") }, `Ignore("pods"): path "status..x"`},
		"a controller": {func(w *simtest.World) { w.Trust("counter") }, `Trust("counter"): the test starts no controller of that name`},
	} {
		r := simtest.Explore(t, simtest.Seeds(1), c.test)
		if r.Failure == nil || !strings.Contains(r.Failure.Run.Failure.Message, c.says) {
			t.Errorf("%s: %+v", name, r.Failure)
		}
	}
}

// TestDisabledQuiescence: a controller that never stops writing passes if the test says so, and the other
// invariants are still checked.
func TestDisabledQuiescence(t *testing.T) {
	busy := func(ctx context.Context, config *rest.Config) error {
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			return err
		}
		maps := client.CoreV1().ConfigMaps("default")
		for n := 1; ctx.Err() == nil; n = n%7 + 1 {
			// The intervals differ, so the writes are not periodic.
			_ = maps.Delete(ctx, "a", metav1.DeleteOptions{})
			_, _ = maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, metav1.CreateOptions{})
			select {
			case <-time.After(time.Duration(n) * time.Second):
			case <-ctx.Done():
			}
		}
		return nil
	}
	for _, disabled := range [][]string{nil, {"Quiescence"}} {
		r := simtest.Explore(t, simtest.Seeds(3), func(w *simtest.World) {
			w.Faults()
			w.Disable(disabled...)
			w.Controller("busy", busy)
		})
		failed := r.Failure != nil && r.Failure.Run.Failure.Oracle == verdict.QuiescenceOracle
		if failed != !slices.Contains(disabled, "Quiescence") {
			t.Errorf("disabled %v: %+v", disabled, r.Failure)
		}
		if failed && r.Failure.Run.Failure.Switch != `w.Disable("Quiescence")` {
			t.Errorf("the switch is %q", r.Failure.Run.Failure.Switch)
		}
	}
}

// TestAllowOverlap: two instances at once are tried only for controllers that run without leader election.
func TestAllowOverlap(t *testing.T) {
	explore := func(more func(*simtest.World)) (places int, twice bool) {
		r := simtest.Explore(t, simtest.Seeds(200), func(w *simtest.World) {
			w.AllowDifferentOutcomes()
			w.Sometimes(invariant.Func("two instances run at once", func(v invariant.View) error {
				running := map[string]bool{}
				for _, s := range v.Run().Steps {
					switch s.Kind {
					case history.Start:
						running[s.Actor] = true
					case history.Crash:
						delete(running, s.Actor)
					}
				}
				if len(running) < 2 {
					return errors.New("one runs")
				}
				return nil
			}))
			more(w)
			w.Controller("counter", counter)
		})
		if r.Failure != nil {
			t.Error(r.Failure.Run.Failure)
		}
		return r.SystematicTotal, r.Seen["two instances run at once"]
	}
	without, twice := explore(func(*simtest.World) {})
	if twice {
		t.Error("two instances ran at once although the controller may use leader election")
	}
	if with, twice := explore(func(w *simtest.World) { w.AllowOverlap("counter") }); with <= without || !twice {
		t.Errorf("%d places with overlap, %d without; two instances: %t", with, without, twice)
	}
}
