package job

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// run executes one run and returns the violation, "" if there is none.
func run(t testing.TB, seed uint64, n naive) (what string) {
	defer func() {
		switch v := recover().(type) {
		case nil:
		case violation:
			what = string(v)
		default:
			panic(fmt.Sprintf("seed %d: %v", seed, v))
		}
	}()
	rng := rand.New(rand.NewPCG(seed, 2))
	w := newWorld(t, seed, drawJob(rng))
	w.naive = n
	likely, failing := rng.IntN(30), rng.IntN(40)
	meddles := rng.IntN(len(userActions)+1) * rng.IntN(2) // half of the users do little
	for range 30 + rng.IntN(150) {
		switch w.rng.IntN(13) {
		case 0, 1, 2:
			w.sync(likely)
		case 3, 4:
			w.deliverJob()
		case 5, 6, 7:
			w.deliverPod()
		case 8, 9:
			w.kubelet(failing)
		case 10:
			w.now = w.now.Add(time.Duration(w.rng.IntN(15)) * time.Second)
		case 11:
			if w.rng.IntN(2) == 0 {
				userActions[w.rng.IntN(2+max(0, meddles-2))](w)
			}
		case 12:
			w.land()
		}
	}
	w.resume()
	w.finish()
	return ""
}

// drawJob draws a Job of any kind.
func drawJob(rng *rand.Rand) *batchv1.Job {
	j := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pi"},
		Spec: batchv1.JobSpec{
			Parallelism: ptr.To(1 + rng.Int32N(4)), Completions: ptr.To(1 + rng.Int32N(5)), BackoffLimit: ptr.To(rng.Int32N(7)),
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"job": "pi"}},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"job": "pi"}},
				Spec:       corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever},
			},
		},
	}
	one := func(of int) bool { return rng.IntN(of) == 0 }
	if one(2) {
		drawIndexed(rng, j)
	} else if one(4) {
		j.Spec.Completions = nil
	}
	if one(3) {
		j.Spec.PodReplacementPolicy = ptr.To(batchv1.Failed)
	}
	switch {
	case one(3):
		failurePolicy(drawRules(rng, j.Spec.BackoffLimitPerIndex != nil)...)(j)
	case one(6):
		j.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyOnFailure
	}
	if one(6) {
		j.Spec.ActiveDeadlineSeconds = ptr.To(20 + rng.Int64N(300))
	}
	return j
}

func drawIndexed(rng *rand.Rand, j *batchv1.Job) {
	j.Spec.CompletionMode = ptr.To(batchv1.IndexedCompletion)
	if rng.IntN(2) == 0 {
		j.Spec.BackoffLimitPerIndex = ptr.To(rng.Int32N(3))
		j.Spec.BackoffLimit = ptr.To[int32](1 << 30)
		if rng.IntN(2) == 0 {
			j.Spec.MaxFailedIndexes = ptr.To(rng.Int32N(3))
		}
	}
	if rng.IntN(3) == 0 {
		successPolicy([]string{"0,1/1", "0", "/2", "1-9"}[rng.IntN(4)])(j)
	}
	if rng.IntN(3) == 0 {
		j.Spec.Completions = ptr.To(*j.Spec.Parallelism) // elastic
	}
}

func drawRules(rng *rand.Rand, perIndex bool) (rules []batchv1.PodFailurePolicyRule) {
	actions := []batchv1.PodFailurePolicyAction{batchv1.PodFailurePolicyActionIgnore, batchv1.PodFailurePolicyActionIgnore, batchv1.PodFailurePolicyActionCount, batchv1.PodFailurePolicyActionFailJob}
	if perIndex {
		actions = append(actions, batchv1.PodFailurePolicyActionFailIndex)
	}
	for range 1 + rng.IntN(3) {
		action := actions[rng.IntN(len(actions))]
		switch rng.IntN(3) {
		case 0:
			rules = append(rules, onCondition(action, "DisruptionTarget"))
		case 1:
			rules = append(rules, onExit(action, batchv1.PodFailurePolicyOnExitCodesOpIn, 1+rng.Int32N(4)))
		default:
			rules = append(rules, onExit(action, batchv1.PodFailurePolicyOnExitCodesOpNotIn, 1, 2, 3))
		}
	}
	return rules
}

// userActions are what users do, the most frequent first.
var userActions = []func(*world){
	(*world).deletePod, (*world).toggle, (*world).rescale, (*world).resize, (*world).createOrphan, (*world).relabel, (*world).changeBack,
}

func (w *world) deletePod() {
	p := w.somePod(isActive)
	if p == nil {
		return
	}
	p.DeletionTimestamp = ptr.To(metav1.NewTime(w.now))
	if w.rng.IntN(2) == 0 {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue})
	}
	w.touchedAt[completionIndex(p)] = true
	w.putPod(p)
	w.logf("user deletes %s", p.UID)
}

// change applies a user's change to the spec of a Job that has not ended.
func (w *world) change(what string, f func(*batchv1.JobSpec)) {
	if Ended(w.job()) {
		return
	}
	j := w.job().DeepCopy()
	f(&j.Spec)
	w.putJob(j)
	w.logf("user sets %s: suspend %t, parallelism %d, completions %d", what, ptr.Deref(j.Spec.Suspend, false), *j.Spec.Parallelism, ptr.Deref(j.Spec.Completions, -1))
	if !w.indexed() {
		return
	}
	for _, p := range w.allPods {
		if completionIndex(p) >= int(*j.Spec.Completions) {
			w.dropped[p.UID], w.touchedAt[completionIndex(p)] = true, true
		}
	}
}

func (w *world) toggle() {
	w.change("suspend", func(s *batchv1.JobSpec) { s.Suspend = ptr.To(!ptr.Deref(s.Suspend, false)) })
}

func (w *world) rescale() {
	w.change("parallelism", func(s *batchv1.JobSpec) { s.Parallelism = ptr.To(w.rng.Int32N(6)) })
}

// resize changes completions together with parallelism, for elastic Indexed Jobs.
func (w *world) resize() {
	if s := &w.job().Spec; w.indexed() && ptr.Equal(s.Completions, s.Parallelism) {
		w.change("size", func(s *batchv1.JobSpec) {
			s.Parallelism = ptr.To(1 + w.rng.Int32N(6))
			s.Completions = s.Parallelism
		})
	}
}

// createOrphan creates a pod without owner that the Job's selector matches.
func (w *world) createOrphan() {
	p := newPod(0, fmt.Sprintf("P #%d", w.rng.IntN(6)))
	p.Name, p.UID, p.CreationTimestamp = fmt.Sprintf("user-%d", w.revision), types.UID(fmt.Sprintf("user-%d", w.revision+1)), metav1.NewTime(w.now)
	p.OwnerReferences, p.Finalizers, p.Status = nil, nil, corev1.PodStatus{Phase: corev1.PodPending}
	w.touchedAt[completionIndex(p)] = true
	w.putPod(p)
	w.logf("user creates %s index %d", p.UID, completionIndex(p))
}

// relabel changes a pod's labels so that the Job's selector does not match.
func (w *world) relabel() {
	if p := w.somePod(w.ours); p != nil {
		p.Labels = map[string]string{"job": "another"}
		w.touchedAt[completionIndex(p)] = true
		w.putPod(p)
		w.logf("user relabels %s", p.UID)
	}
}

// changeBack changes a finished pod from Succeeded to Failed or back (kubernetes #125410).
func (w *world) changeBack() {
	if p := w.somePod(func(p *corev1.Pod) bool { return isFinished(p) && hasFinalizer(p) }); p != nil {
		w.finishPod(p, p.Status.Phase == corev1.PodSucceeded)
		w.changed[p.UID], w.touchedAt[completionIndex(p)] = true, true
		w.putPod(p)
		w.logf("%s is %s after all", p.UID, p.Status.Phase)
	}
}

// resume changes the spec so that the Job can end.
func (w *world) resume() {
	if s := &w.job().Spec; ptr.Deref(s.Suspend, false) || *s.Parallelism == 0 {
		w.change("resume", func(s *batchv1.JobSpec) {
			elastic := w.indexed() && ptr.Equal(s.Completions, s.Parallelism)
			s.Suspend, s.Parallelism = ptr.To(false), ptr.To(max(1, *s.Parallelism))
			if elastic {
				s.Completions = s.Parallelism
			}
		})
	}
}

// TestRaces executes many runs with late events, crashes, lost answers and users who change everything.
// REHEARSE_SEEDS is the number of runs, REHEARSE_SEED the first seed.
func TestRaces(t *testing.T) {
	runs, first := uint64(6000), uint64(0)
	if testing.Short() {
		runs = 2000
	}
	if n, err := strconv.ParseUint(os.Getenv("REHEARSE_SEEDS"), 10, 64); err == nil {
		runs = n
	}
	if n, err := strconv.ParseUint(os.Getenv("REHEARSE_SEED"), 10, 64); err == nil {
		first = n
	}
	for seed := first; seed < first+runs; seed++ {
		if what := run(t, seed, naive{}); what != "" {
			t.Fatalf("seed %d: %s", seed, what)
		}
	}
}

// TestRacesBite executes the same runs with errors that other controllers have had: a run detects each of
// them.
func TestRacesBite(t *testing.T) {
	for name, n := range map[string]naive{
		"no freshness check":                               {noFreshness: true, noRecheck: true, randomNames: true},
		"recorded, released and counted in one sync":       {noFreshness: true, noRecheck: true, oneSync: true},
		"a lost answer to a create is taken for a failure": {randomNames: true},
		"no mark before a pod is deleted":                  {noMark: true},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(3000) {
				if what := run(t, seed, n); what != "" {
					t.Logf("seed %d: %s", seed, strings.SplitN(what, "\n", 2)[0])
					return
				}
			}
			t.Error("no run detected the error")
		})
	}
}
