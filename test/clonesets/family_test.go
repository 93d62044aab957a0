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

// How many cases and runs a test searches.
var (
	from  = flag.Int("clonesets.from", 1, "the seed of the first case of the family")
	cases = flag.Int("clonesets.cases", 5, "how many cases of the family are searched")
	runs  = flag.Int("clonesets.runs", 25, "how many runs each case has")
)

// TestOurFamily searches CloneSets of the family under all legal faults, except two concurrent instances,
// which leader election prevents.
func TestOurFamily(t *testing.T) {
	found, played := clonesets.Rehearse(t, ours, clonesets.Draws(*from, *cases), *runs)
	t.Logf("%d runs of %d cases", played, *cases)
	for _, f := range found {
		t.Error(f)
	}
}

// TestFedFamily searches the first cases with pods that come through a shared cache: a late, interrupted or
// expired watch of the cache must not mislead the controller. The cases after those of TestOurFamily are
// searched with relists only.
func TestFedFamily(t *testing.T) {
	found, played := clonesets.Rehearse(t, fed, clonesets.Draws(*from, (*cases+1)/2), *runs)
	relisted, more := clonesets.Rehearse(t, fed, clonesets.Draws(*from+*cases, (*cases+1)/2), *runs, family.Relists(clonesets.Actor)...)
	t.Logf("%d runs of %d cases, and %d of as many others with relists", played, (*cases+1)/2, more)
	for _, f := range append(found, relisted...) {
		t.Error(f)
	}
}

// TestFound runs the cases again in which the search has found a defect. The history of workload/cloneset and
// its found_test.go describe the defects and their fixes.
func TestFound(t *testing.T) {
	var found []clonesets.Case
	for _, seed := range []int{
		20,  // preNormal was skipped; the message of a condition stayed
		49,  // the status of a paused set was written every second
		166, // pods were updated in place beyond the partition
		239, // a deletion was cancelled, and another pod created for the same place
		260, // a pod was created for surge, and another one updated in place for it
		// In this case the invariant was too strict: it required an update of a pod that the partition keeps,
		// while another pod waited for its preDelete hook.
		2015,
	} {
		found = append(found, clonesets.DrawBase(seed))
	}
	for _, seed := range []int{
		13, // a container that crashed and was restarted from the old spec counted as updated
		17, // a resize without a restart took a pod out of traffic
		// The first reported container, which ran the old image, ended an update in place that had started
		// before any container.
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

// TestFoundWithFaults repeats cases with the fault that the search needed to find a defect.
func TestFoundWithFaults(t *testing.T) {
	for _, found := range []struct {
		c     clonesets.Case
		fault string
	}{
		// A claim is created and the answer is lost. Its pod must get the same name: under another name, with
		// another claim, this claim would be left behind.
		{clonesets.DrawBase(9722), "lost-answer actor=cloneset verb=create resource=persistentvolumeclaims object=default/data-web-z9h9r4t6 nth=2"},
		// A write hangs for so long that the template changes. A pod that was to be deleted keeps running,
		// because no other pod is available, and must keep its claim.
		{clonesets.DrawBase(9722), "timeout actor=cloneset verb=patch resource=pods/status object=default/web-qm9sbngk nth=1"},
		// The new set adopts the pods of its predecessor late, beyond its replicas. With OnDelete and surge, maxUnavailable
		// was rounded up, and an available pod was deleted.
		{clonesets.Draw(33195), "relist actor=cloneset resource=pods object=default/web-qm9sbngk nth=4"},
	} {
		faults, err := fault.ParseAll([]string{found.fault})
		if err != nil {
			t.Fatal(err)
		}
		if r := simtest.Explore(t, clonesets.Options().Seeds(5), found.c.Test(ours, faults...)); r.Failure != nil {
			t.Errorf("%s", said(r.Failure))
		}
	}
}

// TestDraw checks that a seed always gives the same case, and that a family of some size contains everything
// that a CloneSet can have.
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
			"claims": c.Spec.VolumeClaimTemplates != nil, "claims not reused": c.Spec.ScaleStrategy.DisablePVCReuse,
			"preDelete": l != nil && l.PreDelete != nil, "inPlaceUpdate": l != nil && l.InPlaceUpdate != nil, "preNormal": l != nil && l.PreNormal != nil,
			"late kubelet": c.Notice+c.Kill+c.Report > 0, "crashes": c.Crash > 0, "crashes on a change": c.CrashOnChange > 0, "resources": c.Spec.Template.Spec.Containers[0].ResizePolicy != nil,
			"launch order": c.Spec.Template.Annotations[kruise.AnnotationLaunchPriority] != "", "created again": slices.ContainsFunc(c.Changes, func(c clonesets.Change) bool { return c.Recreate }),
			"never ready": c.Unready > 0, "no node": c.Unbound > 0, "ignored by hooks": c.Never > 0,
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
