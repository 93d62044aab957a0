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

// String is what of a difference is not nothing.
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

// setOf makes a CloneSet of words: r(eplicas), p(artition), mu (maxUnavailable), ms
// (maxSurge) and smu (scaleStrategy.maxUnavailable) with numbers or percentages, "paused",
// "exclude" (pods that wait for their preDelete hook), "rollback", or the type of update.
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

// groupsOf counts pods. A word is how many (or one), o(ld) or n(ew), and what else is to be
// said of them: d(eletion was asked for), p(reparing for it), - (not available), u (old,
// preparing for an update: of the new revision as far as numbers go). inPlace says that all
// can be updated in place.
func groupsOf(words string, inPlace bool) (old, updated group) {
	for _, word := range strings.Fields(words) {
		digits := len(word) - len(strings.TrimLeft(word, "0123456789"))
		n, err := strconv.Atoi(word[:digits])
		if err != nil {
			n = 1
		}
		is := word[digits:]
		g := &old
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
	return old, updated
}

// TestDifference has the cases of Kruise's TestCalculateDiffsWithExpectation, in its order,
// and after them those of our own. Steps of one story stand below each other.
//
// Where kruise is set, Kruise expects that, and why says why we do not. Else it expects the
// same, but that its deleteReadyLimit (spare) is 0 unless something is to be deleted.
// What is said of Kruise is checked against its formulas, written down in kruisesDifference.
func TestDifference(t *testing.T) {
	const (
		gone    = "what goes anyway is not updated as well, and does not count as if it stayed"
		ways    = "where pods are made or removed in any case, none is updated to the same end"
		held    = "one that a hook holds is on its way; none goes in its place"
		wide    = "surge keeps its width until the last old pod is gone"
		inPlace = "what is updated in place needs no surge"
		useless = "what is not available is not available, although its deletion was asked for"
		least   = "as many as may be missed, but at least one: whoever is of no use anyway can be updated"
		asked   = "what was asked for by name or label is no part of the update, and goes also while that is paused"
	)
	for _, c := range []struct {
		name, set, pods, want string
		kruise, why           string
	}{
		{"nothing", "r=0 mu=1", "", "spare=1", "", ""},
		{"five are missing", "r=5 mu=1", "", "create=5 now=5", "", ""},
		{"none is", "r=5 mu=1", "5n", "spare=1", "", ""},

		{"one is to go", "r=5 mu=1", "nd 4n", "spare=1", "", ""},
		{"is gone", "r=5 mu=1", "4n", "create=1 now=1", "", ""},
		{"is replaced", "r=5 mu=1", "5n", "spare=1", "", ""},

		{"two are to go", "r=5 mu=1", "2nd 3n", "spare=1", "", ""},
		{"one is gone", "r=5 mu=1", "nd 3n", "create=1 now=1", "", ""},
		{"its place is taken", "r=5 mu=1", "nd 3n n-", "", "", ""},
		{"that one is ready", "r=5 mu=1", "nd 4n", "spare=1", "", ""},
		{"the other is gone", "r=5 mu=1", "4n", "create=1 now=1", "", ""},
		{"both are replaced", "r=5 mu=1", "5n", "spare=1", "", ""},

		{"two are to go, one is to be replaced", "r=4 mu=1", "2nd- 3n", "", "spare=2", useless},
		{"both are gone", "r=4 mu=1", "3n", "create=1 now=1", "", ""},
		{"one is replaced", "r=4 mu=1", "4n", "spare=1", "", ""},

		{"partition 3: none is updated", "r=5 p=3 mu=1", "5o", "spare=1 update=2 most=1", "", ""},
		{"partition 3: one is", "r=5 p=3 mu=1", "n 4o", "spare=1 update=1 most=1", "", ""},
		{"partition 3: both are", "r=5 p=3 mu=1", "2n 3o", "spare=1", "", ""},

		{"back to partition 4", "r=5 p=4 mu=2 rollback", "4n o", "spare=2 update=-3 most=2", "", ""},
		{"back to partition 4: two are", "r=5 p=4 mu=2 rollback", "2n 3o", "spare=2 update=-1 most=2", "", ""},
		{"back to partition 4: all are", "r=5 p=4 mu=2 rollback", "n 4o", "spare=2", "", ""},

		{"one is to go, and may not be missed", "r=5 mu=0 ms=1", "nd 4n", "create=1 now=1 surge=1", "", ""},
		{"another is made", "r=5 mu=0 ms=1", "nd 4n n-", "surge=1", "", ""},
		{"the other is ready", "r=5 mu=0 ms=1", "nd 5n", "spare=1 surge=1", "", ""},
		{"the one is gone", "r=5 mu=0 ms=1", "5n", "", "", ""},

		{"in place, with surge", "r=5 p=3 mu=1 ms=1 in-place", "5o", "spare=1 update=2 most=1", "create=1 now=1 surge=1 update=2 most=1", inPlace},
		{"in place: one was made", "r=5 p=3 mu=1 ms=1 in-place", "5o n-", "remove=1 removeOutdated=2 spare=1 update=1 most=2", "surge=1 update=1 most=2", inPlace},
		{"in place: one is updated", "r=5 p=3 mu=1 ms=1 in-place", "4o 2n-", "remove=1 removeOutdated=1", "", ""},
		{"in place: it is ready", "r=5 p=3 mu=1 ms=1 in-place", "4o n n-", "remove=1 removeOutdated=1 spare=1", "", ""},

		{"anew, with surge", "r=5 p=3 mu=1 ms=1", "5o", "create=1 now=1 spare=1 surge=1 update=2 most=1", "", ""},
		{"anew: one is made", "r=5 p=3 mu=1 ms=1", "5o n-", "spare=1 surge=1 update=1 most=2", "", ""},
		{"anew: one is to go", "r=5 p=3 mu=1 ms=1", "4o od n-", "spare=1 surge=1 update=1 most=2", "spare=1 surge=1 surgeOutdated=1 update=1 most=2", wide},
		{"anew: it is gone", "r=5 p=3 mu=1 ms=1", "4o n-", "create=1 now=1 surge=1 update=1 most=1", "", ""},
		{"anew: another is made", "r=5 p=3 mu=1 ms=1", "4o 2n-", "surge=1 update=1 most=2", "remove=1 removeOutdated=1", wide},
		{"anew: one is ready", "r=5 p=3 mu=1 ms=1", "4o n n-", "spare=1 surge=1 update=1 most=2", "remove=1 removeOutdated=1 spare=1", wide},
		{"anew: the other is gone", "r=5 p=3 mu=1 ms=1", "3o 2n", "spare=1", "", ""},

		{"partition 99% is four of five", "r=5 p=99% mu=3 ms=2", "5o", "create=1 now=1 spare=3 surge=1 update=1 most=3", "", ""},
		{"one is made", "r=5 p=99% mu=3 ms=2", "5o n-", "spare=3 surge=1 update=1 most=4", "remove=1 removeOutdated=1 spare=3", wide},
		{"one is gone", "r=5 p=99% mu=3 ms=2", "4o n-", "spare=2", "", ""},
		{"percentages: 2 and 2", "r=5 p=99% mu=40% ms=30%", "5o", "create=1 now=1 spare=2 surge=1 update=1 most=2", "", ""},
		{"percentages: one is made", "r=5 p=99% mu=40% ms=30%", "5o n-", "spare=2 surge=1 update=1 most=3", "remove=1 removeOutdated=1 spare=2", wide},
		{"percentages: one is gone", "r=5 p=99% mu=40% ms=30%", "4o n-", "spare=1", "", ""},
		{"percentages: 1 and 2", "r=5 p=99% mu=30% ms=30%", "5o", "create=1 now=1 spare=1 surge=1 update=1 most=1", "", ""},
		{"percentages: one is made, again", "r=5 p=99% mu=30% ms=30%", "5o n-", "spare=1 surge=1 update=1 most=2", "remove=1 removeOutdated=1 spare=1", wide},
		{"percentages: one is gone, again", "r=5 p=99% mu=30% ms=30%", "4o n-", "", "", ""},

		{"one revision: all are of it", "r=5 mu=1 rollback same", "5n", "spare=1", "", ""},
		{"one revision: the partition does not matter", "r=5 p=3 mu=1 rollback same", "5n", "spare=1", "", ""},
		{"one revision: fewer old pods than the partition", "r=5 p=3 mu=1 rollback same", "2o 3n", "spare=1", "", ""},
		{"one revision: more old pods", "r=5 p=1 mu=1 rollback same", "3o 2n", "spare=1 update=2 most=1", "", ""},
		{"updates do not wait for pods that cannot be made", "r=5 p=1 mu=2 rollback same", "2o 2n", "create=1 now=1 spare=1 update=1 most=1", "", ""},
		{"updates do not wait for pods that cannot be removed", "r=5 p=1 mu=1 rollback same", "3o 3n", "remove=1 removeOutdated=2 spare=2 update=1 most=2", "", ""},
		{"nothing goes back unless asked", "r=5 p=4 mu=1", "o 4n", "spare=1", "", ""},

		{"only two at a time", "r=5 mu=1 smu=2", "", "create=5 now=2", "", ""},
		{"only one more", "r=6 mu=1 smu=2", "2n n-", "create=3 now=1", "", ""},
		{"none more for now", "r=6 mu=1 smu=2", "n 2n-", "create=3", "", ""},

		{"hook: one is to go", "r=3 mu=1", "2n nd", "spare=1", "", ""},
		{"hook: it prepares", "r=3 mu=1", "2n np", "", "", ""},
		{"hook: it is gone", "r=3 mu=1", "2n", "create=1 now=1", "", ""},
		{"hook: it is replaced", "r=3 mu=1", "2n n-", "", "", ""},
		{"exclude: one is to go", "r=3 mu=1 exclude", "2n nd", "spare=1", "", ""},
		{"exclude: it prepares, and is replaced", "r=3 mu=1 exclude", "2n np", "create=1 now=1", "", ""},
		{"exclude: another is made", "r=3 mu=1 exclude", "2n np n-", "", "", ""},
		{"exclude: nothing more to do", "r=3 mu=1 exclude", "2n np n-", "", "", ""},

		{"cancelled: one is to go", "r=3 mu=1 exclude", "2n nd", "spare=1", "", ""},
		{"cancelled: it prepares", "r=3 mu=1 exclude", "2n np", "create=1 now=1", "", ""},
		{"cancelled: another is made", "r=3 mu=1 exclude", "2n np n-", "", "", ""},
		{"cancelled: it stays, the other is too many", "r=3 mu=1 exclude", "3n n-", "remove=1 spare=1", "", ""},
		{"cancelled: all is as it was", "r=3 mu=1 exclude", "3n", "spare=1", "", ""},

		{"three", "r=3 mu=1 exclude", "3n", "spare=1", "", ""},
		{"two are enough", "r=2 mu=1 exclude", "2n nd", "spare=2", "", ""},
		{"one prepares", "r=2 mu=1 exclude", "2n np", "spare=1", "", ""},
		{"three again", "r=3 mu=1 exclude", "2n np", "create=1 now=1", "", ""},
		{"one is made", "r=3 mu=1 exclude", "2n np n-", "", "", ""},
		{"the old one is gone", "r=3 mu=1 exclude", "2n n-", "", "", ""},

		{"one prepares to be updated: the missing one is old", "r=4 p=90% mu=1 exclude rollback", "ou 2o", "create=1 createOutdated=1 now=1", "", ""},
		{"one prepares to be updated: the missing one is new", "r=4 p=2 mu=1 exclude rollback", "ou 2o", "create=1 now=1", "", ""},

		{"paused: more", "r=5 mu=0 ms=3 paused", "3o", "create=2 now=2 update=3 most=1", "create=2 now=2 update=3 most=-2", least},
		{"paused: fewer", "r=3 mu=0 ms=3 paused", "5o", "remove=2 removeOutdated=5 spare=2 update=3 most=2", "", ""},
		{"paused: what surge made goes", "r=5 mu=0 ms=3 paused", "5o 3n-", "remove=3 removeOutdated=5 update=2 most=3", "", ""},
		{"paused: with a partition", "r=5 p=2 mu=0 ms=3 paused", "5o 3n-", "remove=3 removeOutdated=3", "", ""},

		// Ours.
		{"three wide: at the start", "r=8 mu=0 ms=3", "8o", "create=3 now=3 surge=3 update=8 most=1", "create=3 now=3 surge=3 update=8", least},
		{"three wide: three are ready", "r=8 mu=0 ms=3", "8o 3n", "spare=3 surge=3 update=5 most=3", "", ""},
		{"three wide: three are gone", "r=8 mu=0 ms=3", "5o 3n", "create=3 now=3 surge=3 update=5 most=1", "create=3 now=3 surge=3 update=5", least},
		{"three wide: six are ready", "r=8 mu=0 ms=3", "5o 6n", "spare=3 surge=3 update=2 most=3", "remove=1 removeOutdated=5 spare=3 surge=2 update=2 most=3", wide},
		{"three wide: two are gone", "r=8 mu=0 ms=3", "3o 6n", "create=2 now=2 spare=1 surge=3 update=2 most=1", "create=1 now=1 surge=2 update=2 most=1", wide},
		{"three wide: all are ready", "r=8 mu=0 ms=3", "3o 8n", "spare=3 surge=3 update=3 most=3", "remove=3 removeOutdated=3 spare=3", wide},
		{"three wide: the end", "r=8 mu=0 ms=3", "8n", "", "", ""},

		{"in place, none may be missed", "r=4 mu=0 ms=1 in-place", "4o", "create=1 now=1 surge=1 update=4 most=1", "create=1 now=1 surge=1 update=4", least},
		{"in place: one was made, and one can be updated", "r=4 mu=0 ms=1 in-place", "4o n", "spare=1 surge=1 update=3 most=1", "", ""},
		{"in place: the last one goes", "r=4 mu=0 ms=1 in-place", "o 4n", "remove=1 removeOutdated=1 spare=1", "", ""},
		{"in place, two may be missed", "r=4 mu=2 ms=1 in-place", "4o", "spare=2 update=4 most=2", "create=1 now=1 surge=1 update=4 most=2", inPlace},

		{"paused: one is to go, and none may be missed", "r=3 mu=0 ms=1 paused", "2o od", "create=1 now=1 surge=1 surgeOutdated=1 update=2 most=1", "update=3", asked},
		{"paused: its successor is there", "r=3 mu=0 ms=1 paused", "2o od n", "spare=1 surge=1 surgeOutdated=1 update=2 most=1", "spare=1 update=2 most=1", asked},

		{"two that do not work are to go: none else can", "r=4 mu=1", "2od- 3o", "update=3 most=2", "spare=2 update=4 most=2", useless},
		{"one that works is to go with them", "r=4 mu=1", "2nd- nd 2n", "", "spare=2", useless},
		{"one is to go: the partition has its share", "r=5 p=3 mu=1", "3o od n", "spare=1", "spare=1 update=1 most=1", gone},
		{"one is to go: the others are updated", "r=5 p=3 mu=1", "4o od", "spare=1 update=1 most=1", "spare=1 update=2 most=1", gone},
		{"one is to go: its place is for a new one", "r=5 p=4 mu=1", "5o nd", "spare=2 update=1 most=2", "spare=2", gone},
		{"an updated one is to go, and others back", "r=5 p=4 mu=3 rollback", "3n nd o", "spare=3 update=-2 most=3", "spare=3 update=-3 most=3", gone},
		{"three are too many: the partition stays", "r=5 p=1 mu=1 ms=2", "3o 5n", "remove=1 removeOutdated=2 spare=4 surge=2 update=1 most=4", "remove=3 removeOutdated=2 spare=4", wide},
		{"too many of both", "r=5 p=3 mu=1 rollback", "4o 3n", "remove=2 removeOutdated=1 spare=3", "remove=2 removeOutdated=1 spare=3 update=1 most=3", ways},
		{"too few of both", "r=5 p=2 mu=1 rollback", "o n", "create=3 createOutdated=1 now=3", "create=3 createOutdated=1 now=3 update=-1 most=-2", ways},
		{"one prepares, and is the one too many", "r=5 mu=1", "5n np", "spare=1", "remove=1 spare=1", held},
		{"no more can be made, and none works: one is updated", "r=5 mu=1", "3o-", "create=2 now=2 update=3 most=1", "create=2 now=2 update=3 most=-1", least},
		{"more may be missed than there are", "r=2 mu=5", "2o", "spare=5 update=2 most=5", "", ""},
		{"none may be missed, one is not ready", "r=3 mu=0 ms=1", "2o o-", "create=1 now=1 surge=1 update=3 most=1", "create=1 now=1 surge=1 update=3", least},
	} {
		t.Run(c.name, func(t *testing.T) {
			words := strings.NewReplacer("same", "", "in-place", "").Replace(c.set)
			w, err := resolve(setOf(words))
			if err != nil {
				t.Fatal(err)
			}
			old, updated := groupsOf(c.pods, strings.Contains(c.set, "in-place"))
			same := strings.Contains(c.set, "same")
			d := differ(w, old, updated, same)
			if got := d.String(); got != c.want {
				t.Errorf("%s\nwant %s", got, c.want)
			}
			theirs := kruisesDifference(w, old, updated, same).String()
			switch {
			case (c.kruise == "") != (c.why == ""):
				t.Error("a difference needs a reason")
			case c.kruise != "" && theirs != c.kruise:
				t.Errorf("Kruise's is %s\nwant        %s", theirs, c.kruise)
			case c.kruise == "":
				if d.remove == 0 && old.toDelete+updated.toDelete == 0 {
					d.spare = 0
				}
				if theirs != d.String() {
					t.Errorf("Kruise's is %s", theirs)
				}
			}
		})
	}
}

// kruisesDifference is what Kruise 1.8 makes of the same numbers.
func kruisesDifference(w wanted, old, updated group, same bool) (d difference) {
	sign := func(n int) int { return min(max(n, -1), 1) }
	size := func(n int) int { return max(n, -n) }
	toDelete, preparing := old.toDelete+updated.toDelete, old.preparing+updated.preparing
	all, unavailable := old.all+updated.all, preparing+old.unavailable+updated.unavailable
	oldDiff, newDiff := old.current()-w.partition, updated.current()-(w.replicas-w.partition)
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
	total, totalOld := all, old.all
	if w.excludePreparingDelete {
		total, totalOld = total-preparing, totalOld-old.preparing
	}
	if d.create = max(w.replicas+d.surge-total, 0); d.create > 0 {
		d.createOutdated = max(w.partition+d.surgeOutdated-totalOld, 0)
		d.createLimit = min(d.create, max(w.scaleMaxUnavailable-unavailable, 0))
	}
	if d.remove = max(total-toDelete-w.replicas-d.surge, 0); d.remove > 0 {
		d.removeOutdated = max(totalOld-old.toDelete-w.partition-d.surgeOutdated, 0)
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

// TestResolve: the numbers of a spec. What cannot be read is the careful number.
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

		// maxUnavailable is rounded up, but down where there is surge.
		{"r=7 mu=30%", wanted{replicas: 7, maxUnavailable: 3, scaleMaxUnavailable: all}, ""},
		{"r=7 mu=30% ms=1", wanted{replicas: 7, maxUnavailable: 2, maxSurge: 1, scaleMaxUnavailable: all}, ""},
		{"r=7 mu=30% ms=0", wanted{replicas: 7, maxUnavailable: 3, scaleMaxUnavailable: all}, ""},
		{"r=7 mu=30% ms=0%", wanted{replicas: 7, maxUnavailable: 3, scaleMaxUnavailable: all}, ""},
		{"r=4 ms=1", wanted{replicas: 4, maxUnavailable: 0, maxSurge: 1, scaleMaxUnavailable: all}, ""},
		{"r=7 mu=0 ms=20%", wanted{replicas: 7, maxSurge: 2, scaleMaxUnavailable: all}, ""},
		{"r=7 mu=100% ms=200%", wanted{replicas: 7, maxUnavailable: 7, maxSurge: 14, scaleMaxUnavailable: all}, ""},

		// While nothing is replaced, nothing is made for it.
		{"r=7 mu=30% ms=1 paused", wanted{replicas: 7, maxUnavailable: 3, maxSurge: 1, scaleMaxUnavailable: all, still: true}, ""},
		{"r=7 mu=30% ms=1 OnDelete", wanted{replicas: 7, maxUnavailable: 3, maxSurge: 1, scaleMaxUnavailable: all, still: true}, ""},
		{"r=7 mu=0 ms=1 InPlaceOnly", wanted{replicas: 7, maxSurge: 1, scaleMaxUnavailable: all}, ""},
		{"r=7 mu=0 ms=1 InPlaceIfPossible", wanted{replicas: 7, maxSurge: 1, scaleMaxUnavailable: all}, ""},

		// The partition is rounded up, but what is not 100% is not all.
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
