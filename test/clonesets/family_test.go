package clonesets_test

import (
	"flag"
	"reflect"
	"slices"
	"testing"

	"github.com/rehearse-k8s/rehearse/api/kruise"
	"github.com/rehearse-k8s/rehearse/api/kruise/v1alpha1"
	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/simtest"
	"github.com/rehearse-k8s/rehearse/test/clonesets"
	"github.com/rehearse-k8s/rehearse/test/family"
)

// How much of the family a test searches.
var (
	from  = flag.Int("clonesets.from", 1, "the seed of the first case of the family")
	cases = flag.Int("clonesets.cases", 5, "how many cases of the family are searched")
	runs  = flag.Int("clonesets.runs", 25, "how many runs each case has")
)

// TestOurFamily searches CloneSets of the family under all legal faults; two instances at
// once apart, which leader election is there to prevent.
func TestOurFamily(t *testing.T) {
	found, played := clonesets.Rehearse(t, ours, clonesets.Draws(*from, *cases), *runs)
	t.Logf("%d runs of %d cases", played, *cases)
	for _, f := range found {
		t.Error(f)
	}
}

// TestFedFamily searches the first of them with pods that come through a feed: what the feed
// does when its watch is late, breaks off or has expired fools the controller as little. The cases
// after those of TestOurFamily are searched with relists alone.
func TestFedFamily(t *testing.T) {
	found, played := clonesets.Rehearse(t, fed, clonesets.Draws(*from, (*cases+1)/2), *runs)
	relisted, more := clonesets.Rehearse(t, fed, clonesets.Draws(*from+*cases, (*cases+1)/2), *runs, family.Relists(clonesets.Actor)...)
	t.Logf("%d runs of %d cases, and %d of as many others with relists", played, (*cases+1)/2, more)
	for _, f := range append(found, relisted...) {
		t.Error(f)
	}
}

// TestFound plays the cases again that something was wrong in: what it was, and that it is
// mended, stands in the history of workload/cloneset and in its found_test.go.
func TestFound(t *testing.T) {
	var found []clonesets.Case
	for _, seed := range []int{
		20,  // preNormal was passed over; a condition's message stayed
		49,  // the status of a paused set was written every second
		166, // pods were updated in place beyond the partition
		239, // a pod was taken back, and another one made for it
		260, // a pod was made by surge, and another one updated in place for it
		// In this one the promise asked for too much: a pod beside one that waits for its
		// preDelete hook was to be updated although the partition keeps it.
		2015,
	} {
		found = append(found, clonesets.DrawBase(seed))
	}
	for _, seed := range []int{
		13, // a container that crashed and was restarted from the old spec counted as updated
		17, // a resize without a restart took a pod out of traffic
		// The first container that was reported, of the image before, ended an update in place that had begun
		// before any container was.
		30041,
		46, // a pod returned from PreparingDelete although its hooks mark pods not ready
	} {
		found = append(found, clonesets.Draw(seed))
	}
	again, _ := clonesets.Rehearse(t, ours, found, 5)
	for _, f := range again {
		t.Error(f)
	}
}

// TestClaimsFound plays what the search has found about claims.
func TestClaimsFound(t *testing.T) {
	for _, found := range []string{
		// A claim is made and the answer is lost. Its pod comes under the same name: under another one,
		// with another claim, this one would be left for good.
		"lost-answer actor=cloneset verb=create resource=persistentvolumeclaims object=default/data-web-z9h9r4t6 nth=2",
		// A write hangs for so long that the template changes. The claim of a pod that was to be
		// deleted, and that runs on because no other does, is not taken from it.
		"timeout actor=cloneset verb=patch resource=pods/status object=default/web-qm9sbngk nth=1",
	} {
		faults, err := fault.ParseAll([]string{found})
		if err != nil {
			t.Fatal(err)
		}
		if r := simtest.Explore(t, clonesets.Options().Seeds(5), clonesets.DrawBase(9722).Test(ours, faults...)); r.Failure != nil {
			t.Errorf("%s", said(r.Failure))
		}
	}
}

// TestDraw: a case is the same each time it is drawn, and a family of some size has
// everything that a CloneSet can have.
func TestDraw(t *testing.T) {
	seen := map[string]int{}
	for _, c := range clonesets.Draws(1, 300) {
		if again := clonesets.Draw(c.Seed); !reflect.DeepEqual(c, again) {
			t.Fatalf("drawn twice:\n%s\n%s", c, again)
		}
		u, l := &c.Spec.UpdateStrategy, c.Spec.Lifecycle
		is := map[string]bool{
			"ReCreate": u.Type == v1alpha1.ReCreate, "InPlaceIfPossible": u.Type == v1alpha1.InPlaceIfPossible,
			"InPlaceOnly": u.Type == v1alpha1.InPlaceOnly, "OnDelete": u.Type == v1alpha1.OnDelete,
			"partition": u.Partition != nil, "maxSurge": u.MaxSurge != nil, "paused": u.Paused,
			"grace period": u.InPlaceUpdateStrategy != nil, "priority": u.PriorityStrategy != nil, "scatter": u.ScatterStrategy != nil,
			"minReadySeconds": c.Spec.MinReadySeconds > 0, "deadline": c.Spec.ProgressDeadlineSeconds != nil,
			"scaleStrategy.maxUnavailable": c.Spec.ScaleStrategy.MaxUnavailable != nil, "excludes": c.Excludes,
			"claims": c.Spec.VolumeClaimTemplates != nil, "claims not used again": c.Spec.ScaleStrategy.DisablePVCReuse,
			"preDelete": l != nil && l.PreDelete != nil, "inPlaceUpdate": l != nil && l.InPlaceUpdate != nil, "preNormal": l != nil && l.PreNormal != nil,
			"late kubelet": c.Notice+c.Kill+c.Report > 0, "crashes": c.Crash > 0, "crashes on a change": c.CrashOnChange > 0, "resources": c.Spec.Template.Spec.Containers[0].ResizePolicy != nil,
			"launch order": c.Spec.Template.Annotations[kruise.AnnotationLaunchPriority] != "", "created again": slices.ContainsFunc(c.Changes, func(c clonesets.Change) bool { return c.Recreate }),
			"never ready": c.Unready > 0, "no node": c.Unbound > 0, "forgotten by hooks": c.Never > 0,
		}
		for _, change := range c.Changes {
			is["change of the set"] = is["change of the set"] || change.Pod == ""
			if change.Pod != "" {
				is[change.Pod] = true
			}
		}
		for what, so := range is {
			if so {
				seen[what]++
			} else {
				seen[what] += 0
			}
		}
	}
	for what, n := range seen {
		if n < 5 {
			t.Errorf("%s: %d of 300 cases", what, n)
		}
	}
	t.Log(seen)
}
