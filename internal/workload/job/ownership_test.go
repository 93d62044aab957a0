package job

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/utils/ptr"

	"github.com/rehearse-k8s/rehearse/internal/workload"
)

// patched returns a pod after a patch, applied as the API server does.
func patched(t *testing.T, p *corev1.Pod, patch []byte) *corev1.Pod {
	t.Helper()
	old, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := strategicpatch.StrategicMergePatch(old, patch, &corev1.Pod{})
	if err != nil {
		t.Fatalf("%s: %v", patch, err)
	}
	var out corev1.Pod
	if err := json.Unmarshal(raw, &out); err != nil {
		t.Fatal(err)
	}
	return &out
}

// TestClaim contains the cases of upstream's TestGetPodsForJob. want has REASON POD for each action of the
// plan.
func TestClaim(t *testing.T) {
	orphan := func(words string) *corev1.Pod {
		p := newPod(50, words)
		p.Name, p.OwnerReferences, p.Finalizers = "orphan", nil, nil
		return p
	}
	another := orphan("R")
	another.OwnerReferences = []metav1.OwnerReference{{Kind: "Job", Name: "e", UID: "e", Controller: new(bool)}}
	*another.OwnerReferences[0].Controller = true
	for _, c := range []struct {
		name, job, pods string
		orphan          *corev1.Pod
		want            string
	}{
		{"all match", "p=1 c=1", "R", nil, ""},
		{"one is adopted", "p=1 c=1", "R", orphan("R"), "Adopted orphan"},
		{"finished ones too", "p=1 c=1", "R", orphan("S"), "Adopted orphan"},
		{"not one that does not match", "p=1 c=1", "R", orphan("R unmatched"), ""},
		{"not one that is terminating", "p=1 c=1", "R", orphan("R terminating"), ""},
		{"not one that has another controller", "p=1 c=1", "R", another, ""},
		{"one is released", "p=2 c=2", "R, R unmatched", nil, "Disowned pod-0001"},
		{"both", "p=2 c=2", "R, R unmatched", orphan("R"), "Adopted orphan, Disowned pod-0001"},
		{"not while the Job is deleted", "p=2 c=2 deleting", "R untracked, R untracked unmatched", orphan("R"), ""},
	} {
		var orphans []*corev1.Pod
		if c.orphan != nil {
			orphans = append(orphans, c.orphan)
		}
		j := newJob(c.job + " started=9")
		d := Plan(noon, State{Job: j, Pods: newPods(c.pods), Orphans: orphans, Limits: atOnce()})
		var got []string
		for _, a := range d.Actions {
			got = append(got, a.Reason.Code+" "+a.Object.GetName())
			if !a.Exact {
				t.Errorf("%s: %s is not exact", c.name, a.Reason.Text)
			}
		}
		if strings.Join(got, ", ") != c.want || d.Recheck != (c.want != "") || c.want != "" && d.Status != nil {
			t.Errorf("%s: %v, recheck %t, status %v", c.name, got, d.Recheck, d.Status)
		}
	}
}

// TestReleasedOrphans checks that the finalizer is removed from orphans that a Job would have adopted and will not, and from no others: it would keep each as
// long as the Job exists. That does not stop the rest of the plan.
func TestReleasedOrphans(t *testing.T) {
	orphan := func(name, words string) *corev1.Pod {
		p := newPod(50, words)
		p.Name, p.OwnerReferences, p.Finalizers = name, nil, []string{batchv1.JobTrackingFinalizer}
		return p
	}
	owned := orphan("owned", "R terminating")
	owned.OwnerReferences = []metav1.OwnerReference{{Kind: "Job", Name: "e", UID: "e", Controller: ptr.To(true)}}
	untracked := orphan("untracked", "R terminating")
	untracked.Finalizers = nil
	orphans := []*corev1.Pod{orphan("terminating", "R terminating"), orphan("other", "R terminating unmatched"), owned, untracked}
	running, finished := orphan("running", "R"), orphan("finished", "S")
	ended := newJob("p=1 c=1 started=9")
	ended.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
	for name, c := range map[string]struct {
		job     *batchv1.Job
		orphans []*corev1.Pod
		want    []string
	}{
		"ended":   {ended, append(slices.Clone(orphans), running, finished), []string{"Unowned terminating", "Unowned running", "Unowned finished"}},
		"running": {newJob("p=1 c=1 started=9"), orphans, []string{"Creates", "Unowned terminating"}},
	} {
		var got []string
		for _, a := range Plan(noon, State{Job: c.job, Orphans: c.orphans, Limits: atOnce()}).Actions {
			if a.Verb == workload.Create {
				got = append(got, "Creates")
				continue
			}
			if got = append(got, a.Reason.Code+" "+a.Object.GetName()); !a.Exact || a.Verb != workload.Patch {
				t.Errorf("%s: %s %s is not an exact patch", name, a.Verb, a.Object.GetName())
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// TestClaimHasLimits checks that one plan adopts a limited number of the orphans that the selector matches.
func TestClaimHasLimits(t *testing.T) {
	var orphans []*corev1.Pod
	for i := range 9 {
		p := newPod(i, "R")
		p.OwnerReferences = nil
		orphans = append(orphans, p)
	}
	l := atOnce()
	l.Pods = 4
	if d := Plan(noon, State{Job: newJob("p=1 c=1"), Orphans: orphans, Limits: l}); len(d.Actions) != 4 {
		t.Errorf("%d are adopted at once", len(d.Actions))
	}
}

// TestPatches checks pods after the patches of ownership.
func TestPatches(t *testing.T) {
	j := newJob("p=1 c=1")
	p := newPod(0, "R")
	p.Finalizers = append(p.Finalizers, "example.com/other")
	p.OwnerReferences = append(p.OwnerReferences, metav1.OwnerReference{Kind: "PodGroup", Name: "g", UID: "g"})

	if got := patched(t, p, releasePatch(p, "")); !slices.Equal(got.Finalizers, []string{"example.com/other"}) || len(got.OwnerReferences) != 2 {
		t.Errorf("released: %v %v", got.Finalizers, got.OwnerReferences)
	}
	got := patched(t, p, disownPatch(j, p))
	if len(got.OwnerReferences) != 1 || got.OwnerReferences[0].UID != "g" || hasFinalizer(got) || len(got.Finalizers) != 1 {
		t.Errorf("disowned: %v %v", got.Finalizers, got.OwnerReferences)
	}
	got = patched(t, got, adoptPatch(j, got))
	if !metav1.IsControlledBy(got, j) || len(got.OwnerReferences) != 2 || !hasFinalizer(got) || len(got.Finalizers) != 2 {
		t.Errorf("adopted: %v %v", got.Finalizers, got.OwnerReferences)
	}
	for _, patch := range [][]byte{releasePatch(p, "7"), adoptPatch(j, p), disownPatch(j, p)} {
		var meta struct{ Metadata metav1.ObjectMeta }
		if err := json.Unmarshal(patch, &meta); err != nil || meta.Metadata.UID != p.UID || meta.Metadata.ResourceVersion != "7" {
			t.Errorf("%s is for UID %q and revision %q (%v)", patch, meta.Metadata.UID, meta.Metadata.ResourceVersion, err)
		}
	}
}

// TestMatcher compares the fast matcher with the selector of apimachinery.
func TestMatcher(t *testing.T) {
	for _, s := range []*metav1.LabelSelector{
		nil, {}, {MatchLabels: map[string]string{"a": "1"}}, {MatchLabels: map[string]string{"a": "1", "b": ""}},
		{MatchLabels: map[string]string{"a": "1"}, MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "b", Operator: metav1.LabelSelectorOpExists}}},
	} {
		match, err := Matcher(&batchv1.Job{Spec: batchv1.JobSpec{Selector: s}})
		if err != nil {
			t.Fatal(err)
		}
		want, err := metav1.LabelSelectorAsSelector(s)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range []map[string]string{nil, {"a": "1"}, {"a": "2"}, {"a": "1", "b": ""}, {"b": ""}, {"a": "1", "b": "x"}} {
			if got, want := match(l), want.Matches(labelSet(l)); got != want {
				t.Errorf("%v and %v: %t, want %t", s, l, got, want)
			}
		}
	}
	bad := newJob("p=1 c=1", func(j *batchv1.Job) {
		j.Spec.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "b", Operator: "Like"}}}
	})
	if d := Plan(noon, State{Job: bad, Limits: atOnce()}); d.Status != nil || len(d.Actions) > 0 || d.Reasons[0].Code != "BadSelector" {
		t.Errorf("a selector that cannot be read: %+v", d)
	}
}

type labelSet map[string]string

func (l labelSet) Has(key string) bool              { _, ok := l[key]; return ok }
func (l labelSet) Get(key string) string            { return l[key] }
func (l labelSet) Lookup(key string) (string, bool) { v, ok := l[key]; return v, ok }

// TestTidyUp checks that a Job that has ended releases its pods and deletes active ones that appeared late,
// and that the plan neither counts pods nor writes a status.
func TestTidyUp(t *testing.T) {
	for _, c := range []struct{ job, pods, want string }{
		{"p=1 c=1", "S, F, R terminating, R untracked, S untracked", "released 3 removed 1"},
		{"p=1 c=1", "R", "released 0 removed 1"},
		{"p=1 c=1 deleting", "R, S, R untracked", "released 2 removed 0"},
		{"p=1 c=1", "S untracked", "released 0 removed 0"},
	} {
		j := newJob(c.job, func(j *batchv1.Job) {
			j.Status.Conditions = []batchv1.JobCondition{condition(batchv1.JobSuccessCriteriaMet, "X", ""), condition(batchv1.JobComplete, "X", "")}
		})
		s := newHarness(t, j, newPods(c.pods))
		s.settle()
		if got := fmt.Sprintf("released %d removed %d", s.released, s.removed); got != c.want || s.job != j {
			t.Errorf("%s: %s: %s, want %s", c.job, c.pods, got, c.want)
		}
	}
	if got := Leftover(newPods("S, R, S untracked, F"), 2); len(got) != 2 {
		t.Errorf("left over: %v", got)
	}
}
