package job

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// legal checks what the API would refuse, and what nobody may take back.
func (w *world) legal(old, s *batchv1.JobStatus) {
	bad := func(format string, args ...any) { w.broken("a status the API refuses: "+format, args...) }
	if s.Ready != nil && *s.Ready > s.Active {
		bad("ready %d of %d active", *s.Ready, s.Active)
	}
	if s.Failed < old.Failed || !w.indexed() && s.Succeeded < old.Succeeded {
		bad("counts go back")
	}
	for _, c := range old.Conditions {
		if now := trueCondition(s, c.Type); c.Status == corev1.ConditionTrue && now == nil && c.Type != batchv1.JobSuspended {
			bad("%s is taken back", c.Type)
		}
	}
	complete, failed := trueCondition(s, batchv1.JobComplete) != nil, trueCondition(s, batchv1.JobFailed) != nil
	met, target := trueCondition(s, batchv1.JobSuccessCriteriaMet) != nil, trueCondition(s, batchv1.JobFailureTarget) != nil
	if met && target || complete && !met || failed && !target {
		bad("conditions %v", s.Conditions)
	}
	u := s.UncountedTerminatedPods
	if (complete || failed) && (s.Active > 0 || *s.Terminating > 0 || len(u.Succeeded)+len(u.Failed) > 0 || s.StartTime == nil) {
		bad("ended with something left: %+v", s)
	}
	if complete != (s.CompletionTime != nil) {
		bad("completion time")
	}
	seen := map[types.UID]bool{}
	for _, uids := range [][]types.UID{u.Succeeded, u.Failed} {
		for _, uid := range uids {
			if seen[uid] {
				bad("%s is recorded twice", uid)
			}
			seen[uid] = true
		}
	}
}

func (w *world) indexed() bool { return w.job().Spec.CompletionMode != nil }

// broken ends the run. It panics with the story, for whoever searches.
func (w *world) broken(format string, args ...any) {
	panic(violation(fmt.Sprintf(format, args...) + "\n\t" + strings.Join(w.story, "\n\t")))
}

type violation string

// check looks at the truth after every step.
func (w *world) check() {
	j := w.job()
	active, succeeded, failed := 0, 0, 0
	at, done := map[int]int{}, map[int]bool{}
	for _, p := range w.made {
		i := completionIndex(p)
		switch {
		case p.Status.Phase == corev1.PodSucceeded && !w.removed[p.UID]:
			succeeded++
			done[i] = true
		case p.Status.Phase == corev1.PodFailed || p.DeletionTimestamp != nil:
			failed++
		}
	}
	for _, p := range w.pods {
		if isActive(p) && !w.removed[p.UID] {
			active++
			at[completionIndex(p)]++
		}
	}
	if active > int(*j.Spec.Parallelism) {
		w.broken("%d pods are active, parallelism is %d", active, *j.Spec.Parallelism)
	}
	if c := j.Spec.Completions; c != nil && !w.indexed() && active+succeeded > int(*c) {
		w.broken("%d pods are active and %d have succeeded of %d completions", active, succeeded, *c)
	}
	if w.indexed() {
		for i, n := range at {
			if n > 1 || done[i] {
				w.broken("index %d has %d active pods; succeeded before: %t", i, n, done[i])
			}
		}
	}
	u := ptr.Deref(j.Status.UncountedTerminatedPods, batchv1.UncountedTerminatedPods{})
	if counted := int(j.Status.Succeeded) + len(u.Succeeded); !w.indexed() && counted > succeeded || w.indexed() && int(j.Status.Succeeded) > len(done) {
		w.broken("the Job counts %d successes of %d", counted, succeeded)
	}
	if counted := int(j.Status.Failed) + len(u.Failed); counted > failed {
		w.broken("the Job counts %d failures of %d", counted, failed)
	}
}

// finish lets everything arrive and everybody do his work, and checks the end.
func (w *world) finish() {
	for range 400 {
		for w.deliverJob() || w.deliverPod() {
		}
		w.kubelet(0)
		w.now = w.now.Add(15 * time.Second)
		w.sync(0)
		w.check()
		if Ended(w.job()) && w.jobSeen == len(w.jobs) && w.logSeen == len(w.log) {
			w.counted()
			return
		}
	}
	w.broken("the Job has not ended: %+v", w.job().Status)
}

// counted checks that each pod was counted once.
func (w *world) counted() {
	succeeded, failed, done := 0, 0, map[int]bool{}
	for _, p := range w.made {
		switch {
		case w.removed[p.UID]:
		case p.Status.Phase == corev1.PodSucceeded:
			succeeded++
			done[completionIndex(p)] = true
		default:
			failed++
		}
		if w.pods[p.Name] == p && hasFinalizer(p) {
			w.broken("pod %s is still held", p.UID)
		}
	}
	if w.indexed() {
		succeeded = len(done)
	}
	s := w.job().Status
	if int(s.Succeeded) != succeeded || int(s.Failed) != failed {
		w.broken("the Job counts %d successes and %d failures of %d and %d", s.Succeeded, s.Failed, succeeded, failed)
	}
	if trueCondition(&s, batchv1.JobComplete) != nil && succeeded == 0 && *w.job().Spec.Completions > 0 {
		w.broken("complete without a success")
	}
}

// run plays one run; the violation is "" if everything held.
func run(t testing.TB, seed uint64, n naive) (found string) {
	defer func() {
		switch v := recover().(type) {
		case nil:
		case violation:
			found = string(v)
		default:
			panic(v)
		}
	}()
	rng := rand.New(rand.NewPCG(seed, 2))
	w := newWorld(t, seed, drawJob(rng))
	w.naive = n
	likely, failing := rng.IntN(30), rng.IntN(40)
	for range 30 + rng.IntN(150) {
		switch w.rng.IntN(12) {
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
			w.user()
		}
		w.check()
	}
	w.resume()
	w.finish()
	return ""
}

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
	if rng.IntN(2) == 0 {
		j.Spec.CompletionMode = ptr.To(batchv1.IndexedCompletion)
		if rng.IntN(2) == 0 {
			j.Spec.BackoffLimitPerIndex = ptr.To(rng.Int32N(3))
			j.Spec.BackoffLimit = ptr.To[int32](1 << 30)
		}
	}
	if rng.IntN(3) == 0 {
		j.Spec.PodReplacementPolicy = ptr.To(batchv1.Failed)
	}
	return j
}

// user deletes a pod, or suspends the Job and resumes it.
func (w *world) user() {
	j := w.job()
	switch {
	case w.rng.IntN(3) == 0:
		for _, p := range w.made { // any: the order does not matter for what must hold
			if now := w.pods[p.Name]; now == p && isActive(p) {
				p = p.DeepCopy()
				p.DeletionTimestamp = ptr.To(metav1.NewTime(w.now))
				w.putPod(p)
				w.say("user deletes %s", p.UID)
				break
			}
		}
	case w.rng.IntN(4) == 0 && !Ended(j):
		j = j.DeepCopy()
		j.Spec.Suspend = ptr.To(!ptr.Deref(j.Spec.Suspend, false))
		w.putJob(j)
		w.say("user sets suspend to %t", *j.Spec.Suspend)
	}
}

func (w *world) resume() {
	if j := w.job(); ptr.Deref(j.Spec.Suspend, false) && !Ended(j) {
		j = j.DeepCopy()
		j.Spec.Suspend = ptr.To(false)
		w.putJob(j)
	}
}

// TestRaces plays many runs with late events, crashes, lost answers, deleted pods and
// suspensions.
func TestRaces(t *testing.T) {
	runs := uint64(20000)
	if testing.Short() {
		runs = 2000
	}
	for seed := range runs {
		if found := run(t, seed, naive{}); found != "" {
			t.Fatalf("seed %d: %s", seed, found)
		}
	}
}

// TestRacesBite plays the same runs with what others do: each is found out.
func TestRacesBite(t *testing.T) {
	for name, n := range map[string]naive{
		"caches are believed as they are":           {noFreshness: true, randomNames: true},
		"recorded, let go and counted in one sync":  {noFreshness: true, oneSync: true},
		"a lost answer means that nothing was made": {randomNames: true},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(3000) {
				if found := run(t, seed, n); found != "" {
					t.Logf("seed %d: %s", seed, strings.SplitN(found, "\n", 2)[0])
					return
				}
			}
			t.Error("nothing was found")
		})
	}
}
