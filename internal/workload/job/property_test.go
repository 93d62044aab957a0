package job

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/rehearse-k8s/rehearse/internal/workload"
)

// drawState draws any state that the API could store, whether or not a controller can reach it: late caches
// and other clients produce many of them.
func drawState(t *rapid.T) State {
	word := func(name string, from ...string) string { return rapid.SampledFrom(from).Draw(t, name) }
	indexed := rapid.Bool().Draw(t, "indexed")
	perIndex := indexed && rapid.Bool().Draw(t, "perindex")
	policy := rapid.IntRange(0, 3).Draw(t, "policy") == 0
	words := []string{fmt.Sprintf("p=%d backoff=%d", rapid.IntRange(0, 5).Draw(t, "p"), rapid.IntRange(0, 6).Draw(t, "backoff"))}
	completions := rapid.IntRange(0, 6).Draw(t, "c")
	if indexed || rapid.Bool().Draw(t, "completions") {
		words = append(words, fmt.Sprintf("c=%d", completions))
	}
	if indexed {
		words = append(words, "indexed", word("completed", "", "completed=0 succeeded=1", "completed=1,3 succeeded=2"))
	} else {
		words = append(words, word("succeeded", "", "succeeded=1", "succeeded=3"), word("recorded", "", "", "uncounted-succeeded=a,b", "uncounted-succeeded=gone"))
	}
	if perIndex {
		words = append(words, fmt.Sprintf("perindex=%d", rapid.IntRange(0, 2).Draw(t, "limit")), word("maxfailed", "", "maxfailed=1"), word("failed-indexes", "", "failed-indexes=", "failed-indexes=2"))
	}
	words = append(words, word("suspend", "", "", "", "suspend"), word("was", "", "", "was-suspended"), word("replace", "", "replace=Failed", "replace=TerminatingOrFailed"),
		word("deadline", "", "", "", "deadline=5", "deadline=50"), word("deleting", "", "", "", "", "deleting"), word("restarts", "", "", "", "restarts"),
		word("started", "", "started=9"), word("failed", "", "failed=2"), word("uncounted", "", "", "uncounted-failed=c", "uncounted-failed=d,away"),
		word("end", "", "", "", "", "", "met=X started=9", "target=X started=9"))
	j := newJob(strings.Join(words, " "), func(j *batchv1.Job) {
		if policy {
			failurePolicy(onExit("Ignore", "In", 1), onExit("FailJob", "In", 4), onCondition("Count", "DisruptionTarget"))(j)
			if perIndex {
				j.Spec.PodFailurePolicy.Rules = append(j.Spec.PodFailurePolicy.Rules, onExit("FailIndex", "In", 3))
			}
		}
		if indexed && rapid.IntRange(0, 3).Draw(t, "success") == 0 {
			successPolicy(word("rule", "0,1/1", "0-3", "/2"))(j)
		}
		j.Status.Active = int32(rapid.IntRange(0, 4).Draw(t, "active"))
		j.Status.Terminating = ptr.To[int32](0)
		done := trueCondition(&j.Status, batchv1.JobSuccessCriteriaMet)
		if done != nil && rapid.IntRange(0, 3).Draw(t, "ended") == 0 {
			j.Status.Conditions = append(j.Status.Conditions, condition(batchv1.JobComplete, "X", ""))
			j.Status.Active, j.Status.UncountedTerminatedPods, j.Status.CompletionTime = 0, nil, j.Status.StartTime
		}
	})
	s := State{Job: j, Limits: atOnce()}
	for i := range rapid.IntRange(0, 9).Draw(t, "pods") {
		phase := word("phase", "P", "R", "R ready", "R ready node", "S", "S", "F", "F exit=1", "F exit=3", "F exit=4", "F cond=DisruptionTarget", "U")
		index := word("index", "", "#0", "#0", "#1", "#1", "#2", "#3", "#9", "#x")
		more := word("more", "", "", "", "", "terminating", "terminating", "untracked", "untracked", "terminating untracked", "restarts=1", "unmatched", "marked untracked", "marked untracked terminating", "marked")
		fails := word("fails", "", "", "fails=1", "fails=2 ignored=1")
		ago := fmt.Sprintf("ago=%d", rapid.IntRange(0, 40).Draw(t, "ago"))
		p := newPod(i, strings.Join([]string{word("uid", "a: ", "b: ", "c: ", "d: ", ""), phase, index, more, fails, ago}, " "))
		if slices.ContainsFunc(s.Pods, func(other *corev1.Pod) bool { return other.UID == p.UID }) {
			p.UID = newPod(i, "P").UID
		}
		if rapid.IntRange(0, 9).Draw(t, "orphan") == 0 {
			p.OwnerReferences = nil
			s.Orphans = append(s.Orphans, p)
		} else {
			s.Pods = append(s.Pods, p)
		}
	}
	if rapid.Bool().Draw(t, "remembers") {
		s.Past = Past{Seeded: true, Failures: rapid.IntRange(0, 3).Draw(t, "failures"), LastFailure: noon.Add(-5 * time.Second),
			StatusWrites: rapid.SampledFrom([]int{1, 100}).Draw(t, "writes"), StatusAt: noon.Add(-time.Duration(rapid.IntRange(0, 2).Draw(t, "since")) * time.Second)}
	}
	s.Past.Batch = rapid.SampledFrom([]int{0, 1, 2, 64}).Draw(t, "batch")
	if rapid.Bool().Draw(t, "limits") {
		s.Limits = DefaultLimits
		s.Limits.Pods, s.Limits.Uncounted = rapid.IntRange(1, 3).Draw(t, "most"), rapid.IntRange(1, 4).Draw(t, "room")
	}
	return s
}

// copyOf returns a deep copy of a state.
func copyOf(s State) State {
	s.Job = s.Job.DeepCopy()
	deep := func(pods []*corev1.Pod) (all []*corev1.Pod) {
		for _, p := range pods {
			all = append(all, p.DeepCopy())
		}
		return all
	}
	s.Pods, s.Orphans = deep(s.Pods), deep(s.Orphans)
	return s
}

// TestPlanAlways checks properties of every decision, for any state.
func TestPlanAlways(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawState(t)
		if len(rejections(s.Job, s.Job)) > 0 {
			t.Skip("the API would reject this object")
		}
		before := copyOf(s)
		d := Plan(noon, s)
		if !equality.Semantic.DeepEqual(before.Job, s.Job) || !equality.Semantic.DeepEqual(before.Pods, s.Pods) {
			t.Fatal("the plan changed an object of the cache")
		}
		if again := Plan(noon, s); !reflect.DeepEqual(d, again) {
			t.Fatalf("two decisions for the same state:\n%+v\n%+v", d, again)
		}
		if d.Status != nil {
			next := s.Job.DeepCopy()
			next.Status = *d.Status
			for _, why := range rejections(s.Job, next) {
				t.Errorf("the API would reject the status: %s", why)
			}
			if equality.Semantic.DeepEqual(&s.Job.Status, d.Status) {
				t.Error("the status is written without a change")
			}
		} else if len(d.Events) > 0 || d.Tally.Ended != "" {
			t.Errorf("events %v, ended %q, and no status", d.Events, d.Tally.Ended)
		}
		claims := slices.ContainsFunc(d.Actions, func(a workload.Action) bool {
			return a.Reason.Code == "Adopted" || a.Reason.Code == "Disowned" || a.Reason.Code == "TrackedAgain"
		})
		if blind := d.Status == nil && d.Tally.Created+d.Tally.Removed > 0 && !Ended(s.Job); d.Recheck != (claims || blind) {
			t.Errorf("the Job is read again: %t; pods are claimed: %t, created or removed without a status: %t", d.Recheck, claims, blind)
		}
		checkActions(t, s, &d)
		if len(d.Reasons) == 0 {
			t.Error("no reason is given")
		}
		checkWake(t, s, &d)
	})
}

// checkWake checks that a plan without actions wakes when the next action is due, and that no action is due
// earlier.
func checkWake(t *rapid.T, s State, d *Decision) {
	if d.Wake < 0 {
		t.Errorf("wakes in %s", d.Wake)
	}
	if d.Status != nil || len(d.Actions) > 0 {
		return
	}
	s.Past = d.Past
	until := d.Wake
	if until == 0 {
		until = 24 * time.Hour
	}
	for _, in := range []time.Duration{time.Nanosecond, until / 2, until - 1} {
		if d := Plan(noon.Add(in), s); d.Status != nil || len(d.Actions) > 0 {
			t.Errorf("an action is due in %s, the plan wakes in %s", in, d.Wake)
		}
	}
}

func checkActions(t *rapid.T, s State, d *Decision) {
	j := s.Job
	names := map[string]bool{}
	taken := map[string]*corev1.Pod{}
	active, terminating := 0, 0
	for _, p := range s.Pods {
		taken[p.Name] = p
		if isActive(p) {
			active++
		} else if isTerminating(p) {
			terminating++
		}
	}
	var n Tally
	for i := range d.Actions {
		a := &d.Actions[i]
		name := a.Object.GetName()
		if names[name] {
			t.Errorf("%s has two actions", name)
		}
		names[name] = true
		if a.Reason.Code == "" || a.Reason.Text == "" {
			t.Errorf("%s %s has no reason", a.Verb, name)
		}
		switch {
		case a.Verb == workload.Create:
			n.Created++
			if taken[name] != nil {
				t.Errorf("%s exists already", name)
			}
		case a.Verb == workload.Delete || a.Then != nil:
			n.Removed++
			if !isActive(taken[name]) {
				t.Errorf("%s is removed and is not active", name)
			}
			// A pod that does not count as failed is deleted only in the observed version, or its success
			// could be lost.
			if fails := trueCondition(&j.Status, batchv1.JobFailureTarget) != nil && hasFinalizer(taken[name]); a.Exact == fails && !Ended(j) || a.Then != nil && (a.Then.Verb != workload.Delete || !a.Then.Exact) {
				t.Errorf("%s is removed, exact: %t", name, a.Exact)
			}
		case a.Reason.Code == "Unowned":
			p := a.Object.(*corev1.Pod)
			if !slices.Contains(s.Orphans, p) || !hasFinalizer(p) || !a.Exact || p.DeletionTimestamp == nil && !Ended(j) {
				t.Errorf("%s loses its finalizer, exact: %t", name, a.Exact)
			}
		case a.Reason.Code == "Released":
			n.Released++
			mayGo(t, j, taken[name])
		}
	}
	if n.Created != d.Tally.Created || n.Removed != d.Tally.Removed || n.Released != d.Tally.Released {
		t.Errorf("actions %+v, tally %+v", n, d.Tally)
	}
	if n.Created > 0 && n.Removed > 0 {
		t.Error("pods are created and removed in one decision")
	}
	if n.Created > s.Limits.Pods || n.Removed > s.Limits.Pods || n.Released > s.Limits.Pods {
		t.Errorf("more than %d: %+v", s.Limits.Pods, n)
	}
	most := int(*j.Spec.Parallelism)
	if j.Spec.Completions != nil {
		most = min(most, int(*j.Spec.Completions))
	}
	if replacesOnlyFailed(j) {
		most -= terminating
	}
	if n.Created > max(0, most-active) {
		t.Errorf("%d are created, %d are active, %d terminating", n.Created, active, terminating)
	}
	met, target := trueCondition(&j.Status, batchv1.JobSuccessCriteriaMet), trueCondition(&j.Status, batchv1.JobFailureTarget)
	ends := met != nil || target != nil || d.Status != nil && (trueCondition(d.Status, batchv1.JobSuccessCriteriaMet) != nil || trueCondition(d.Status, batchv1.JobFailureTarget) != nil)
	if n.Created > 0 && (ends || ptr.Deref(j.Spec.Suspend, false) || j.DeletionTimestamp != nil) {
		t.Error("a pod is created for a Job that ends, is suspended or is being deleted")
	}
	if n.Removed > 0 && ends && met == nil && target == nil {
		t.Error("a pod is removed in the plan that decides why")
	}
}

// mayGo checks that removing a pod's finalizer loses no result.
func mayGo(t *rapid.T, j *batchv1.Job, p *corev1.Pod) {
	u := ptr.Deref(j.Status.UncountedTerminatedPods, batchv1.UncountedTerminatedPods{})
	done, _ := ParseIndexes(j.Status.CompletedIndexes, int(ptr.Deref(j.Spec.Completions, 0)))
	bad, _ := ParseIndexes(ptr.Deref(j.Status.FailedIndexes, ""), int(ptr.Deref(j.Spec.Completions, 0)))
	i := completionIndex(p)
	indexed := j.Spec.CompletionMode != nil
	switch {
	case !hasFinalizer(p):
		t.Errorf("%s is released and had no finalizer", p.UID)
	case slices.Contains(u.Succeeded, p.UID), slices.Contains(u.Failed, p.UID):
	case indexed && (i == noIndex || i >= int(*j.Spec.Completions)):
	case indexed && p.Status.Phase == corev1.PodSucceeded && (done.Has(i) || bad.Has(i)):
	case isFailed(j, p) && !handle(j.Spec.PodFailurePolicy, p).counts():
	case Ended(j), j.DeletionTimestamp != nil && !isFinished(p):
	case trueCondition(&j.Status, batchv1.JobSuccessCriteriaMet) != nil && isTerminating(p):
	case trueCondition(&j.Status, batchv1.JobFailureTarget) != nil && isTerminating(p) && !handle(j.Spec.PodFailurePolicy, p).counts():
	default:
		t.Errorf("%s (%s) is released and is not recorded", p.UID, p.Status.Phase)
	}
}
