package simtest_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/sim"
	"github.com/rehearse-k8s/rehearse/invariant"
	"github.com/rehearse-k8s/rehearse/simtest"
)

// TestFurtherFaults: for each request after a first fault there is one further fault that acts on that request, and each further fault of an event acts.
// The record has no step for a request that a crash prevented from being served or for an event that the end of its stream dropped, and the step of a
// deposed leader's write comes late, but the faults of a run count all of them when they arrive: a search that counts steps names the wrong request or
// event, or takes a request for the one on which the first fault acted and tries none.
func TestFurtherFaults(t *testing.T) {
	for _, text := range []string{
		"crash-before actor=runner verb=update resource=pods/status object=default/p1 nth=1",
		"time-travel actor=runner verb=update resource=pods/status object=default/p1 nth=1",
		"deposed-write actor=runner verb=update resource=pods/status object=default/p0 nth=1 for=5s",
		"overlap actor=runner verb=update resource=pods/status object=default/p0 nth=1 for=20s",
		"crash-after actor=runner verb=update resource=pods/status object=default/p2 nth=1",
		"crash-after actor=runner verb=update resource=pods/status object=default/p0 nth=1",
		"disconnect actor=runner resource=pods object=default/p0 nth=2",
	} {
		t.Run(text, func(t *testing.T) {
			first, err := fault.ParseAll([]string{text})
			must(t, err)
			play := func(more ...fault.Fault) *history.Run {
				return simtest.Play(t, simtest.Options{}, sim.Plan{Seed: 7, Faults: append(slices.Clone(first), more...)}, func(w *simtest.World) {
					podTest(3)(w)
					w.Settle()
					for _, name := range []string{"p0", "p1", "p2"} { // further events of the same objects
						w.Patch(pod(name), types.MergePatchType, `{"metadata":{"labels":{"seen":"again"}}}`)
					}
					w.Create(pod("p3"))
					w.Eventually(time.Minute, invariant.Field("pods", "default", "p3", "status.phase", "Running"))
				}).Run
			}
			run := play()
			var requests, acted []int
			for n := range run.Steps {
				s := &run.Steps[n]
				if s.Kind == history.Request && strings.HasPrefix(s.Actor, "runner") && !strings.HasPrefix(s.Fault, string(fault.KindDeposedWrite)) {
					requests = append(requests, n)
				}
			}
			for _, f := range sim.Candidates(run, []fault.Fault{fault.Of(fault.KindError)}, sim.Virtual) {
				with := play(f)
				at := slices.IndexFunc(with.Steps, func(s history.Step) bool { return s.Fault == f.String() })
				if at < 0 {
					t.Errorf("%s never acts", f)
				}
				acted = append(acted, at)
			}
			for _, f := range sim.Candidates(run, []fault.Fault{fault.Of(fault.KindRepeatEvent)}, sim.Virtual) {
				with := play(f)
				if !slices.ContainsFunc(with.Steps, func(s history.Step) bool { return s.Kind == history.Frame && s.Fault == f.String() }) {
					t.Errorf("%s never acts", f)
				}
			}
			if slices.Sort(acted); !slices.Equal(acted, requests) {
				t.Errorf("further faults act at steps %v; the requests are at %v", acted, requests)
			}
		})
	}
}

// TestWithdrawnRequest: a request that its client withdraws, because it waits too long, has arrived: a fault of the repeated request names the second one.
func TestWithdrawnRequest(t *testing.T) {
	impatient := func(ctx context.Context, config *rest.Config) error {
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			return err
		}
		for range 2 {
			soon, cancel := context.WithTimeout(ctx, 5*time.Second)
			_, err = client.CoreV1().ConfigMaps("default").Create(soon, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, metav1.CreateOptions{})
			cancel()
			if err == nil {
				break
			}
		}
		<-ctx.Done()
		return nil
	}
	const late = "late-request actor=impatient verb=create resource=configmaps object=default/a nth=1 for=20s"
	actsOnSecond(t, late, fault.KindLostAnswer, func(w *simtest.World) { w.Controller("impatient", impatient) })
}

// TestAbandonedWatch: an event that waits on a watch that its client ends has arrived: a fault of the same event on the next watch names the second one.
func TestAbandonedWatch(t *testing.T) {
	watcher := func(ctx context.Context, config *rest.Config) error {
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			return err
		}
		for range 2 {
			soon, cancel := context.WithTimeout(ctx, 5*time.Second)
			w, err := client.CoreV1().ConfigMaps("default").Watch(soon, metav1.ListOptions{ResourceVersion: "0"})
			if err == nil {
				for range w.ResultChan() {
				}
			}
			cancel()
		}
		_, _ = client.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "b"}}, metav1.CreateOptions{})
		<-ctx.Done()
		return nil
	}
	const late = "lag actor=watcher resource=configmaps object=default/a nth=1 for=20s"
	actsOnSecond(t, late, fault.KindRepeatEvent, func(w *simtest.World) {
		w.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}})
		w.Controller("watcher", watcher)
	})
}

// actsOnSecond checks that after a first fault there is one further fault of a kind, that it names the second request or event at its place, and that it
// acts.
func actsOnSecond(t *testing.T, first string, kind fault.Kind, test func(*simtest.World)) {
	t.Helper()
	faults, err := fault.ParseAll([]string{first})
	must(t, err)
	run := simtest.Play(t, simtest.Options{}, sim.Plan{Seed: 7, Faults: faults}, test).Run
	found := sim.Candidates(run, []fault.Fault{fault.Of(kind)}, sim.Virtual)
	if len(found) != 1 || found[0].Nth != 2 {
		t.Fatalf("further faults: %v", fault.Strings(found))
	}
	with := simtest.Play(t, simtest.Options{}, sim.Plan{Seed: 7, Faults: append(faults, found[0])}, test).Run
	if !slices.ContainsFunc(with.Steps, func(s history.Step) bool { return s.Fault == found[0].String() }) {
		t.Errorf("%s never acts", found[0])
	}
}

// TestPartitionBlocksRetry: the timed partition that a search tries lasts longer than its client waits for the first answer. The shorter one that it
// replaced blocked this write only, as a timeout does.
func TestPartitionBlocksRetry(t *testing.T) {
	play := func(faults ...fault.Fault) *history.Run {
		return passed(t, simtest.Play(t, simtest.Options{}, sim.Plan{Seed: 7, Faults: faults}, podTest(1)))
	}
	tried := 0
	for _, f := range sim.Candidates(play(), []fault.Fault{fault.Of(fault.KindPartition)}, sim.Virtual) {
		if f.For == 0 {
			continue
		}
		tried++
		var blocked []string
		for _, s := range play(f).Steps {
			if s.Kind == history.Request && s.Fault == f.String() {
				blocked = append(blocked, s.Verb+" "+s.Key())
			}
		}
		if len(blocked) < 2 || blocked[0] != blocked[1] {
			t.Errorf("%s blocks %q: its client does not repeat a write while it lasts", f, blocked)
		}
	}
	if tried == 0 {
		t.Error("no timed partition is tried")
	}
}
