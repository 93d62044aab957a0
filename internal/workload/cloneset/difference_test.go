package cloneset

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/rehearse-k8s/rehearse/api/kruise"
	"github.com/rehearse-k8s/rehearse/api/kruise/v1alpha1"
)

// String returns the parts of a difference that are not zero.
func (d difference) String() string {
	var words []string
	for _, n := range []struct {
		name string
		n    int
	}{
		{"create", d.create}, {"createOutdated", d.createOutdated}, {"now", d.createLimit}, {"remove", d.remove}, {"removeOutdated", d.removeOutdated},
		{"spare", d.spare}, {"surge", d.surge}, {"surgeOutdated", d.surgeOutdated}, {"update", d.update}, {"most", d.unavailable},
	} {
		if n.n != 0 {
			words = append(words, fmt.Sprintf("%s=%d", n.name, n.n))
		}
	}
	return strings.Join(words, " ")
}

// setOf builds a CloneSet from words: r(eplicas), p(artition), mu (maxUnavailable), ms (maxSurge) and smu
// (scaleStrategy.maxUnavailable) with numbers or percentages, "paused", "exclude" (pods that wait for their
// preDelete hook), "rollback", or the type of update.
func setOf(words string) *v1alpha1.CloneSet {
	set := &v1alpha1.CloneSet{}
	set.Labels, set.Annotations = map[string]string{}, map[string]string{}
	u := &set.Spec.UpdateStrategy
	for _, word := range strings.Fields(words) {
		key, value, _ := strings.Cut(word, "=")
		v := intstr.Parse(value)
		switch key {
		case "r":
			n := int32(v.IntValue())
			set.Spec.Replicas = &n
		case "p":
			u.Partition = &v
		case "mu":
			u.MaxUnavailable = &v
		case "ms":
			u.MaxSurge = &v
		case "smu":
			set.Spec.ScaleStrategy.MaxUnavailable = &v
		case "paused":
			u.Paused = true
		case "exclude":
			set.Labels[kruise.LabelExcludePreparingDelete] = "true"
		case "rollback":
			set.Annotations[AnnotationPartitionRollback] = "true"
		default:
			u.Type = v1alpha1.CloneSetUpdateStrategyType(word)
		}
	}
	return set
}

// groupsOf counts pods. A word is how many (or one), o(utdated) or n(ew), and properties: d (specified for
// deletion), p (waits for the preDelete hook), - (not available), u (outdated and waits for the inPlaceUpdate
// hook: it counts as updated). inPlace: all can be updated in place.
func groupsOf(words string, inPlace bool) (outdated, updated group) {
	for _, word := range strings.Fields(words) {
		digits := len(word) - len(strings.TrimLeft(word, "0123456789"))
		n, err := strconv.Atoi(word[:digits])
		if err != nil {
			n = 1
		}
		is := word[digits:]
		g := &outdated
		if is[0] == 'n' || strings.Contains(is, "u") {
			g = &updated
		}
		g.all += n
		switch {
		case strings.Contains(is, "p"):
			g.preparing += n
			continue
		case strings.Contains(is, "d"):
			g.toDelete += n
			if strings.Contains(is, "-") {
				g.unavailableToDelete += n
			}
		case strings.ContainsAny(is, "-u"):
			g.unavailable += n
		}
		if !inPlace && !strings.Contains(is, "u") {
			g.recreated += n
		}
	}
	return outdated, updated
}

// TestDifference contains the cases of Kruise's TestCalculateDiffsWithExpectation, in its order, followed by
// other cases. The steps of one scenario are on consecutive lines.
//
// If kruise is set, Kruise expects that difference, and why explains the deviation. Otherwise it expects the
// same, except that its deleteReadyLimit (spare) is 0 unless a pod is to be deleted. kruisesDifference
// contains Kruise's formulas, and the test compares each case with it.
func TestDifference(t *testing.T) {
	const (
		gone    = "pods that are deleted in any case are not updated as well and do not count as kept"
		ways    = "while pods are created or removed, none is updated for the same purpose"
		held    = "no other pod is deleted in place of one that waits for its hook"
		wide    = "surge keeps its width until the last outdated pod is gone"
		inPlace = "updates in place need no surge"
		useless = "a pod specified for deletion counts as available only if it is"
		least   = "maxUnavailable, but at least one: a pod that is unavailable anyway can be updated"
		asked   = "a deletion that a user specified is independent of the update, also while that is paused"
	)
	for _, c := range []struct {
		name, set, pods, want string
		kruise, why           string
	}{
		{"nothing", "r=0 mu=1", "", "spare=1", "", ""},
		{"five are missing", "r=5 mu=1", "", "create=5 now=5", "", ""},
		{"none is missing", "r=5 mu=1", "5n", "spare=1", "", ""},

		{"one is specified", "r=5 mu=1", "nd 4n", "spare=1", "", ""},
		{"is gone", "r=5 mu=1", "4n", "create=1 now=1", "", ""},
		{"is replaced", "r=5 mu=1", "5n", "spare=1", "", ""},

		{"two are specified", "r=5 mu=1", "2nd 3n", "spare=1", "", ""},
		{"one is gone", "r=5 mu=1", "nd 3n", "create=1 now=1", "", ""},
		{"its place is taken", "r=5 mu=1", "nd 3n n-", "", "", ""},
		{"that one is ready", "r=5 mu=1", "nd 4n", "spare=1", "", ""},
		{"the other is gone", "r=5 mu=1", "4n", "create=1 now=1", "", ""},
		{"both are replaced", "r=5 mu=1", "5n", "spare=1", "", ""},

		{"two are specified, one is to be replaced", "r=4 mu=1", "2nd- 3n", "", "spare=2", useless},
		{"both are gone", "r=4 mu=1", "3n", "create=1 now=1", "", ""},
		{"one is replaced", "r=4 mu=1", "4n", "spare=1", "", ""},

		{"partition 3: none is updated", "r=5 p=3 mu=1", "5o", "spare=1 update=2 most=1", "", ""},
		{"partition 3: one is updated", "r=5 p=3 mu=1", "n 4o", "spare=1 update=1 most=1", "", ""},
		{"partition 3: both are updated", "r=5 p=3 mu=1", "2n 3o", "spare=1", "", ""},

		{"back to partition 4", "r=5 p=4 mu=2 rollback", "4n o", "spare=2 update=-3 most=2", "", ""},
		{"back to partition 4: two are rolled back", "r=5 p=4 mu=2 rollback", "2n 3o", "spare=2 update=-1 most=2", "", ""},
		{"back to partition 4: all are rolled back", "r=5 p=4 mu=2 rollback", "n 4o", "spare=2", "", ""},

		{"one is specified, maxUnavailable is 0", "r=5 mu=0 ms=1", "nd 4n", "create=1 now=1 surge=1", "", ""},
		{"another is created", "r=5 mu=0 ms=1", "nd 4n n-", "surge=1", "", ""},
		{"the other is ready", "r=5 mu=0 ms=1", "nd 5n", "spare=1 surge=1", "", ""},
		{"the first is gone", "r=5 mu=0 ms=1", "5n", "", "", ""},

		{"in place, with surge", "r=5 p=3 mu=1 ms=1 in-place", "5o", "spare=1 update=2 most=1", "create=1 now=1 surge=1 update=2 most=1", inPlace},
		{"in place: one was created", "r=5 p=3 mu=1 ms=1 in-place", "5o n-", "remove=1 removeOutdated=2 spare=1 update=1 most=2", "surge=1 update=1 most=2", inPlace},
		{"in place: one is updated", "r=5 p=3 mu=1 ms=1 in-place", "4o 2n-", "remove=1 removeOutdated=1", "", ""},
		{"in place: it is ready", "r=5 p=3 mu=1 ms=1 in-place", "4o n n-", "remove=1 removeOutdated=1 spare=1", "", ""},

		{"recreate, with surge", "r=5 p=3 mu=1 ms=1", "5o", "create=1 now=1 spare=1 surge=1 update=2 most=1", "", ""},
		{"recreate: one is created", "r=5 p=3 mu=1 ms=1", "5o n-", "spare=1 surge=1 update=1 most=2", "", ""},
		{"recreate: one is specified", "r=5 p=3 mu=1 ms=1", "4o od n-", "spare=1 surge=1 update=1 most=2", "spare=1 surge=1 surgeOutdated=1 update=1 most=2", wide},
		{"recreate: it is gone", "r=5 p=3 mu=1 ms=1", "4o n-", "create=1 now=1 surge=1 update=1 most=1", "", ""},
		{"recreate: another is created", "r=5 p=3 mu=1 ms=1", "4o 2n-", "surge=1 update=1 most=2", "remove=1 removeOutdated=1", wide},
		{"recreate: one is ready", "r=5 p=3 mu=1 ms=1", "4o n n-", "spare=1 surge=1 update=1 most=2", "remove=1 removeOutdated=1 spare=1", wide},
		{"recreate: the other is gone", "r=5 p=3 mu=1 ms=1", "3o 2n", "spare=1", "", ""},

		{"partition 99% is four of five", "r=5 p=99% mu=3 ms=2", "5o", "create=1 now=1 spare=3 surge=1 update=1 most=3", "", ""},
		{"one is created", "r=5 p=99% mu=3 ms=2", "5o n-", "spare=3 surge=1 update=1 most=4", "remove=1 removeOutdated=1 spare=3", wide},
		{"one is gone", "r=5 p=99% mu=3 ms=2", "4o n-", "spare=2", "", ""},
		{"percentages: 2 and 2", "r=5 p=99% mu=40% ms=30%", "5o", "create=1 now=1 spare=2 surge=1 update=1 most=2", "", ""},
		{"percentages: one is created", "r=5 p=99% mu=40% ms=30%", "5o n-", "spare=2 surge=1 update=1 most=3", "remove=1 removeOutdated=1 spare=2", wide},
		{"percentages: one is gone", "r=5 p=99% mu=40% ms=30%", "4o n-", "spare=1", "", ""},
		{"percentages: 1 and 2", "r=5 p=99% mu=30% ms=30%", "5o", "create=1 now=1 spare=1 surge=1 update=1 most=1", "", ""},
		{"percentages: one is created, again", "r=5 p=99% mu=30% ms=30%", "5o n-", "spare=1 surge=1 update=1 most=2", "remove=1 removeOutdated=1 spare=1", wide},
		{"percentages: one is gone, again", "r=5 p=99% mu=30% ms=30%", "4o n-", "", "", ""},

		{"one revision: all are of it", "r=5 mu=1 rollback same", "5n", "spare=1", "", ""},
		{"one revision: the partition does not matter", "r=5 p=3 mu=1 rollback same", "5n", "spare=1", "", ""},
		{"one revision: fewer outdated pods than the partition", "r=5 p=3 mu=1 rollback same", "2o 3n", "spare=1", "", ""},
		{"one revision: more outdated pods", "r=5 p=1 mu=1 rollback same", "3o 2n", "spare=1 update=2 most=1", "", ""},
		{"updates do not wait for pods that cannot be created", "r=5 p=1 mu=2 rollback same", "2o 2n", "create=1 now=1 spare=1 update=1 most=1", "", ""},
		{"updates do not wait for pods that cannot be removed", "r=5 p=1 mu=1 rollback same", "3o 3n", "remove=1 removeOutdated=2 spare=2 update=1 most=2", "", ""},
		{"no rollback without the annotation", "r=5 p=4 mu=1", "o 4n", "spare=1", "", ""},

		{"only two at a time", "r=5 mu=1 smu=2", "", "create=5 now=2", "", ""},
		{"only one more", "r=6 mu=1 smu=2", "2n n-", "create=3 now=1", "", ""},
		{"no more for now", "r=6 mu=1 smu=2", "n 2n-", "create=3", "", ""},

		{"hook: one is specified", "r=3 mu=1", "2n nd", "spare=1", "", ""},
		{"hook: it waits", "r=3 mu=1", "2n np", "", "", ""},
		{"hook: it is gone", "r=3 mu=1", "2n", "create=1 now=1", "", ""},
		{"hook: it is replaced", "r=3 mu=1", "2n n-", "", "", ""},
		{"exclude: one is specified", "r=3 mu=1 exclude", "2n nd", "spare=1", "", ""},
		{"exclude: it waits, and is replaced", "r=3 mu=1 exclude", "2n np", "create=1 now=1", "", ""},
		{"exclude: another is created", "r=3 mu=1 exclude", "2n np n-", "", "", ""},
		{"exclude: nothing more to do", "r=3 mu=1 exclude", "2n np n-", "", "", ""},

		{"cancelled: one is specified", "r=3 mu=1 exclude", "2n nd", "spare=1", "", ""},
		{"cancelled: it waits", "r=3 mu=1 exclude", "2n np", "create=1 now=1", "", ""},
		{"cancelled: another is created", "r=3 mu=1 exclude", "2n np n-", "", "", ""},
		{"cancelled: it stays, the other is surplus", "r=3 mu=1 exclude", "3n n-", "remove=1 spare=1", "", ""},
		{"cancelled: the initial state again", "r=3 mu=1 exclude", "3n", "spare=1", "", ""},

		{"three", "r=3 mu=1 exclude", "3n", "spare=1", "", ""},
		{"two are enough", "r=2 mu=1 exclude", "2n nd", "spare=2", "", ""},
		{"one waits", "r=2 mu=1 exclude", "2n np", "spare=1", "", ""},
		{"three again", "r=3 mu=1 exclude", "2n np", "create=1 now=1", "", ""},
		{"one is created", "r=3 mu=1 exclude", "2n np n-", "", "", ""},
		{"the first one is gone", "r=3 mu=1 exclude", "2n n-", "", "", ""},

		{"one waits for its update: the missing one is outdated", "r=4 p=90% mu=1 exclude rollback", "ou 2o", "create=1 createOutdated=1 now=1", "", ""},
		{"one waits for its update: the missing one is new", "r=4 p=2 mu=1 exclude rollback", "ou 2o", "create=1 now=1", "", ""},

		{"paused: more", "r=5 mu=0 ms=3 paused", "3o", "create=2 now=2 update=3 most=1", "create=2 now=2 update=3 most=-2", least},
		{"paused: fewer", "r=3 mu=0 ms=3 paused", "5o", "remove=2 removeOutdated=5 spare=2 update=3 most=2", "", ""},
		{"paused: surge pods are deleted", "r=5 mu=0 ms=3 paused", "5o 3n-", "remove=3 removeOutdated=5 update=2 most=3", "", ""},
		{"paused: with a partition", "r=5 p=2 mu=0 ms=3 paused", "5o 3n-", "remove=3 removeOutdated=3", "", ""},

		// Cases without an equivalent in Kruise.
		{"three wide: at the start", "r=8 mu=0 ms=3", "8o", "create=3 now=3 surge=3 update=8 most=1", "create=3 now=3 surge=3 update=8", least},
		{"three wide: three are ready", "r=8 mu=0 ms=3", "8o 3n", "spare=3 surge=3 update=5 most=3", "", ""},
		{"three wide: three are gone", "r=8 mu=0 ms=3", "5o 3n", "create=3 now=3 surge=3 update=5 most=1", "create=3 now=3 surge=3 update=5", least},
		{"three wide: six are ready", "r=8 mu=0 ms=3", "5o 6n", "spare=3 surge=3 update=2 most=3", "remove=1 removeOutdated=5 spare=3 surge=2 update=2 most=3", wide},
		{"three wide: two are gone", "r=8 mu=0 ms=3", "3o 6n", "create=2 now=2 spare=1 surge=3 update=2 most=1", "create=1 now=1 surge=2 update=2 most=1", wide},
		{"three wide: all are ready", "r=8 mu=0 ms=3", "3o 8n", "spare=3 surge=3 update=3 most=3", "remove=3 removeOutdated=3 spare=3", wide},
		{"three wide: the end", "r=8 mu=0 ms=3", "8n", "", "", ""},

		{"in place, maxUnavailable 0", "r=4 mu=0 ms=1 in-place", "4o", "create=1 now=1 surge=1 update=4 most=1", "create=1 now=1 surge=1 update=4", least},
		{"in place: one was created, and one can be updated", "r=4 mu=0 ms=1 in-place", "4o n", "spare=1 surge=1 update=3 most=1", "", ""},
		{"in place: the last one is deleted", "r=4 mu=0 ms=1 in-place", "o 4n", "remove=1 removeOutdated=1 spare=1", "", ""},
		{"in place, maxUnavailable 2", "r=4 mu=2 ms=1 in-place", "4o", "spare=2 update=4 most=2", "create=1 now=1 surge=1 update=4 most=2", inPlace},

		{"paused: one is specified, maxUnavailable 0", "r=3 mu=0 ms=1 paused", "2o od", "create=1 now=1 surge=1 surgeOutdated=1 update=2 most=1", "update=3", asked},
		{"paused: its successor exists", "r=3 mu=0 ms=1 paused", "2o od n", "spare=1 surge=1 surgeOutdated=1 update=2 most=1", "spare=1 update=2 most=1", asked},

		{"two unavailable pods are specified: no other can be deleted", "r=4 mu=1", "2od- 3o", "update=3 most=2", "spare=2 update=4 most=2", useless},
		{"an available pod is specified too", "r=4 mu=1", "2nd- nd 2n", "", "spare=2", useless},
		{"one is specified: the partition is full", "r=5 p=3 mu=1", "3o od n", "spare=1", "spare=1 update=1 most=1", gone},
		{"one is specified: the others are updated", "r=5 p=3 mu=1", "4o od", "spare=1 update=1 most=1", "spare=1 update=2 most=1", gone},
		{"one is specified: its place is for a new one", "r=5 p=4 mu=1", "5o nd", "spare=2 update=1 most=2", "spare=2", gone},
		{"an updated one is specified, others are rolled back", "r=5 p=4 mu=3 rollback", "3n nd o", "spare=3 update=-2 most=3", "spare=3 update=-3 most=3", gone},
		{"three are surplus: the partition is kept", "r=5 p=1 mu=1 ms=2", "3o 5n", "remove=1 removeOutdated=2 spare=4 surge=2 update=1 most=4", "remove=3 removeOutdated=2 spare=4", wide},
		{"too many of both revisions", "r=5 p=3 mu=1 rollback", "4o 3n", "remove=2 removeOutdated=1 spare=3", "remove=2 removeOutdated=1 spare=3 update=1 most=3", ways},
		{"too few of both revisions", "r=5 p=2 mu=1 rollback", "o n", "create=3 createOutdated=1 now=3", "create=3 createOutdated=1 now=3 update=-1 most=-2", ways},
		{"one waits, and is the surplus one", "r=5 mu=1", "5n np", "spare=1", "remove=1 spare=1", held},
		{"no pod can be created, and none is available: one is updated", "r=5 mu=1", "3o-", "create=2 now=2 update=3 most=1", "create=2 now=2 update=3 most=-1", least},
		{"maxUnavailable is larger than replicas", "r=2 mu=5", "2o", "spare=5 update=2 most=5", "", ""},
		{"maxUnavailable 0, one is not ready", "r=3 mu=0 ms=1", "2o o-", "create=1 now=1 surge=1 update=3 most=1", "create=1 now=1 surge=1 update=3", least},
	} {
		t.Run(c.name, func(t *testing.T) {
			words := strings.NewReplacer("same", "", "in-place", "").Replace(c.set)
			w, err := resolve(setOf(words))
			if err != nil {
				t.Fatal(err)
			}
			outdated, updated := groupsOf(c.pods, strings.Contains(c.set, "in-place"))
			same := strings.Contains(c.set, "same")
			d := differ(w, outdated, updated, same)
			if got := d.String(); got != c.want {
				t.Errorf("%s\nwant %s", got, c.want)
			}
			theirs := kruisesDifference(w, outdated, updated, same).String()
			switch {
			case (c.kruise == "") != (c.why == ""):
				t.Error("a deviation from Kruise needs a reason")
			case c.kruise != "" && theirs != c.kruise:
				t.Errorf("Kruise's is %s\nwant        %s", theirs, c.kruise)
			case c.kruise == "":
				if d.remove == 0 && outdated.toDelete+updated.toDelete == 0 {
					d.spare = 0
				}
				if theirs != d.String() {
					t.Errorf("Kruise's is %s", theirs)
				}
			}
		})
	}
}

// kruisesDifference computes the same numbers as Kruise 1.8.
func kruisesDifference(w wanted, outdated, updated group, same bool) (d difference) {
	sign := func(n int) int { return min(max(n, -1), 1) }
	size := func(n int) int { return max(n, -n) }
	toDelete, preparing := outdated.toDelete+updated.toDelete, outdated.preparing+updated.preparing
	all, unavailable := outdated.all+updated.all, preparing+outdated.unavailable+updated.unavailable
	oldDiff, newDiff := outdated.current()-w.partition, updated.current()-(w.replicas-w.partition)
	if same || !w.rollback {
		oldDiff, newDiff = max(oldDiff, 0), min(newDiff, 0)
	}
	if w.maxSurge > 0 && !w.still {
		forScale := min(max(unavailable+toDelete-w.maxUnavailable, 0), toDelete)
		forUpdate, ofOld := 0, 0
		if sign(oldDiff)*sign(newDiff) < 0 {
			forUpdate = min(size(oldDiff), size(newDiff))
			if oldDiff < 0 {
				ofOld = forUpdate
			}
		}
		if forScale >= forUpdate {
			forUpdate, ofOld = forScale, max(forScale-updated.toDelete, 0)
		}
		d.surge = min(w.maxSurge, forUpdate)
		d.surgeOutdated = min(d.surge, ofOld)
	}
	total, totalOld := all, outdated.all
	if w.excludePreparingDelete {
		total, totalOld = total-preparing, totalOld-outdated.preparing
	}
	if d.create = max(w.replicas+d.surge-total, 0); d.create > 0 {
		d.createOutdated = max(w.partition+d.surgeOutdated-totalOld, 0)
		d.createLimit = min(d.create, max(w.scaleMaxUnavailable-unavailable, 0))
	}
	if d.remove = max(total-toDelete-w.replicas-d.surge, 0); d.remove > 0 {
		d.removeOutdated = max(totalOld-outdated.toDelete-w.partition-d.surgeOutdated, 0)
	}
	if toDelete+d.remove > 0 {
		d.spare = max(w.maxUnavailable+all-w.replicas-unavailable, 0)
	}
	if d.update = oldDiff; size(oldDiff) > size(newDiff) {
		d.update = -newDiff
	}
	if d.update != 0 {
		d.unavailable = w.maxUnavailable + all - w.replicas
	}
	return d
}

// TestResolve checks the numbers of a spec, and the cautious value for a number that cannot be read.
func TestResolve(t *testing.T) {
	const all = math.MaxInt32
	for _, c := range []struct {
		set  string
		want wanted
		err  string
	}{
		{"", wanted{replicas: 1, maxUnavailable: 1, scaleMaxUnavailable: all}, ""},
		{"r=0", wanted{scaleMaxUnavailable: all}, ""},
		{"r=10", wanted{replicas: 10, maxUnavailable: 2, scaleMaxUnavailable: all}, ""},
		{"r=7 smu=3", wanted{replicas: 7, maxUnavailable: 2, scaleMaxUnavailable: 3}, ""},
		{"r=7 smu=20%", wanted{replicas: 7, maxUnavailable: 2, scaleMaxUnavailable: 2}, ""},

		// maxUnavailable is rounded up, but down if there is surge.
		{"r=7 mu=30%", wanted{replicas: 7, maxUnavailable: 3, scaleMaxUnavailable: all}, ""},
		{"r=7 mu=30% ms=1", wanted{replicas: 7, maxUnavailable: 2, maxSurge: 1, scaleMaxUnavailable: all}, ""},
		{"r=7 mu=30% ms=0", wanted{replicas: 7, maxUnavailable: 3, scaleMaxUnavailable: all}, ""},
		{"r=7 mu=30% ms=0%", wanted{replicas: 7, maxUnavailable: 3, scaleMaxUnavailable: all}, ""},
		{"r=4 ms=1", wanted{replicas: 4, maxUnavailable: 0, maxSurge: 1, scaleMaxUnavailable: all}, ""},
		{"r=7 mu=0 ms=20%", wanted{replicas: 7, maxSurge: 2, scaleMaxUnavailable: all}, ""},
		{"r=7 mu=100% ms=200%", wanted{replicas: 7, maxUnavailable: 7, maxSurge: 14, scaleMaxUnavailable: all}, ""},

		// While no pod is updated, no pod is created for an update. A pause counts as no surge, OnDelete does not.
		{"r=7 mu=30% ms=1 paused", wanted{replicas: 7, maxUnavailable: 3, maxSurge: 1, scaleMaxUnavailable: all, still: true}, ""},
		{"r=7 mu=30% ms=1 OnDelete", wanted{replicas: 7, maxUnavailable: 2, maxSurge: 1, scaleMaxUnavailable: all, still: true}, ""},
		{"r=7 mu=0 ms=1 InPlaceOnly", wanted{replicas: 7, maxSurge: 1, scaleMaxUnavailable: all}, ""},
		{"r=7 mu=0 ms=1 InPlaceIfPossible", wanted{replicas: 7, maxSurge: 1, scaleMaxUnavailable: all}, ""},

		// The partition is rounded up, but less than 100% is less than all.
		{"r=7 p=3 mu=1", wanted{replicas: 7, partition: 3, maxUnavailable: 1, scaleMaxUnavailable: all}, ""},
		{"r=7 p=9 mu=1", wanted{replicas: 7, partition: 7, maxUnavailable: 1, scaleMaxUnavailable: all}, ""},
		{"r=7 p=7 mu=1", wanted{replicas: 7, partition: 7, maxUnavailable: 1, scaleMaxUnavailable: all}, ""},
		{"r=7 p=0% mu=1", wanted{replicas: 7, maxUnavailable: 1, scaleMaxUnavailable: all}, ""},
		{"r=7 p=1% mu=1", wanted{replicas: 7, partition: 1, maxUnavailable: 1, scaleMaxUnavailable: all}, ""},
		{"r=7 p=50% mu=1", wanted{replicas: 7, partition: 4, maxUnavailable: 1, scaleMaxUnavailable: all}, ""},
		{"r=7 p=99% mu=1", wanted{replicas: 7, partition: 6, maxUnavailable: 1, scaleMaxUnavailable: all}, ""},
		{"r=200 p=99% mu=1", wanted{replicas: 200, partition: 198, maxUnavailable: 1, scaleMaxUnavailable: all}, ""},
		{"r=2 p=99% mu=1", wanted{replicas: 2, partition: 1, maxUnavailable: 1, scaleMaxUnavailable: all}, ""},
		{"r=1 p=99% mu=1", wanted{replicas: 1, partition: 1, maxUnavailable: 1, scaleMaxUnavailable: all}, ""},
		{"r=0 p=99% mu=1", wanted{maxUnavailable: 1, scaleMaxUnavailable: all}, ""},
		{"r=7 p=100% mu=1", wanted{replicas: 7, partition: 7, maxUnavailable: 1, scaleMaxUnavailable: all}, ""},
		{"r=7 p=120% mu=1", wanted{replicas: 7, partition: 7, maxUnavailable: 1, scaleMaxUnavailable: all}, ""},

		{"r=1 mu=1 exclude rollback", wanted{replicas: 1, maxUnavailable: 1, scaleMaxUnavailable: all, excludePreparingDelete: true, rollback: true}, ""},

		{"r=7 mu=x", wanted{replicas: 7, scaleMaxUnavailable: all}, `spec.updateStrategy.maxUnavailable: "x" is neither a number of pods nor a percentage`},
		{"r=7 mu=-1", wanted{replicas: 7, scaleMaxUnavailable: all}, `spec.updateStrategy.maxUnavailable: "-1" is`},
		{"r=7 mu=-5%", wanted{replicas: 7, scaleMaxUnavailable: all}, `spec.updateStrategy.maxUnavailable: "-5%" is`},
		{"r=7 mu=1 ms=3x", wanted{replicas: 7, maxUnavailable: 1, scaleMaxUnavailable: all}, `spec.updateStrategy.maxSurge: "3x" is`},
		{"r=7 mu=1 ms=%", wanted{replicas: 7, maxUnavailable: 1, scaleMaxUnavailable: all}, `spec.updateStrategy.maxSurge: "%" is`},
		{"r=7 mu=1 smu=1.5", wanted{replicas: 7, maxUnavailable: 1}, `spec.scaleStrategy.maxUnavailable: "1.5" is`},
		{"r=7 mu=1 p=half", wanted{replicas: 7, partition: 7, maxUnavailable: 1, scaleMaxUnavailable: all}, `spec.updateStrategy.partition: "half" is`},
		{"r=7 mu=1 p=-2", wanted{replicas: 7, partition: 7, maxUnavailable: 1, scaleMaxUnavailable: all}, `spec.updateStrategy.partition: "-2" is`},
	} {
		t.Run(c.set, func(t *testing.T) {
			w, err := resolve(setOf(c.set))
			if w != c.want {
				t.Errorf("%+v\nwant %+v", w, c.want)
			}
			if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
				t.Errorf("%v, want %q", err, c.err)
			}
		})
	}
}
