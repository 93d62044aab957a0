package simtest_test

import (
	"flag"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/sim"
	"github.com/rehearse-k8s/rehearse/simtest"
)

var repeatFlag = flag.Int("repeats", 100, "how often TestSameSeedSameHash executes each plan")

// TestSameSeedSameHash executes several plans in turns, many times: state that one run leaves in
// the process would change the steps of the next.
func TestSameSeedSameHash(t *testing.T) {
	var plans []sim.Plan
	for _, lines := range [][]string{
		{},
		{"crash-after actor=runner verb=update resource=pods/status nth=2"},
		{"relist actor=runner resource=pods nth=2 for=3s", "lost-answer actor=runner nth=1"},
		{"lag actor=runner resource=pods nth=1 for=40s", "conflict actor=runner nth=1", "crash-before actor=runner nth=3 for=10s"},
		{"timeout actor=runner verb=list resource=pods nth=1", "pause actor=runner nth=2 for=20s", "overlap actor=runner nth=1 for=30s"},
	} {
		faults, err := fault.ParseAll(lines)
		must(t, err)
		plans = append(plans, sim.Plan{Seed: 7, Faults: faults})
		if len(faults) < 3 {
			plans = append(plans, sim.Plan{Seed: 7, Faults: faults, Schedule: history.Schedule{Seed: 3, Depth: 1 + len(faults), Choices: 60}})
		}
	}
	first := make([]*history.Run, len(plans))
	differing := 0
	for n := range *repeatFlag {
		for i, plan := range plans {
			run := simtest.Play(t, simtest.Options{}, plan, podTest(3)).Run
			if first[i] == nil {
				first[i] = run
				continue
			}
			if step, diverged := history.Diverged(first[i], run); diverged {
				differing++
				t.Logf("repeat %d of plan %d differs at step %d: %s", n, i, step, line(&run.Steps[min(step, len(run.Steps)-1)]))
			}
		}
	}
	hashes := map[history.Hash]bool{}
	for _, run := range first {
		hashes[run.Hash()] = true
	}
	if len(hashes) != len(plans) {
		t.Errorf("%d different plans have %d different hashes", len(plans), len(hashes))
	}
	total := *repeatFlag * len(plans)
	t.Logf("%d of %d runs differ", differing, total)
	// The Go runtime still decides some things at random (the order of timers of the same instant,
	// select): allow one run in a thousand.
	if differing > total/1000 {
		t.Errorf("%d of %d runs of the same seed have different steps", differing, total)
	}
}

// TestDifferentSeeds checks that generated names and UIDs depend on the seed.
func TestDifferentSeeds(t *testing.T) {
	uids := func(seed uint64) (all []string) {
		for _, s := range simtest.Play(t, simtest.Options{}, sim.Plan{Seed: seed}, podTest(2)).Run.Steps {
			if s.UID != "" && !slices.Contains(all, s.UID) {
				all = append(all, s.UID)
			}
		}
		return all
	}
	a, b := uids(1), uids(2)
	if len(a) != 2 || len(b) != 2 || slices.Contains(b, a[0]) {
		t.Errorf("UIDs with seed 1: %v, with seed 2: %v", a, b)
	}
}

// TestBookmarks checks that watches receive bookmarks while time passes, and that a fault can drop
// one.
func TestBookmarks(t *testing.T) {
	test := func(w *simtest.World) {
		w.Controller("runner", runner)
		w.Create(pod("p0"))
		w.Settle()
		w.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "elsewhere"}})
		w.Advance(2 * time.Minute)
		w.Create(pod("p1"))
	}
	bookmarks := func(faults ...fault.Fault) (replies []string) {
		run := passed(t, simtest.Play(t, simtest.Options{}, sim.Plan{Faults: faults}, test))
		for _, s := range run.Steps {
			if s.Type == "BOOKMARK" {
				replies = append(replies, s.Reply)
			}
		}
		return replies
	}
	if got := bookmarks(); !slices.Equal(got, []string{""}) {
		t.Errorf("bookmarks: %q", got)
	}
	if got := bookmarks(fault.Of(fault.KindDropBookmark)); len(got) == 0 || got[0] != "lost" {
		t.Errorf("bookmarks, the first of which is lost: %q", got)
	}
}
