package job

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rehearse-k8s/rehearse/internal/workload"
)

// world is the smallest environment that Plan can be tested in: objects with revisions, a cache of Jobs and
// one of pods that move forward independently, a kubelet, and a shell that may crash at any write and lose any
// answer. It executes ten thousand runs in the time in which package simtest, which has the real API, executes
// ten.
type world struct {
	t   testing.TB
	rng *rand.Rand
	now time.Time

	revision int
	jobs     []*batchv1.Job // every version
	pods     map[string]*corev1.Pod
	log      []change // every version of every pod

	jobSeen, logSeen int // how many events the caches have received
	cache            map[string]*corev1.Pod

	limits Limits
	past   Past
	fresh  workload.Freshness

	touched map[types.UID]bool // UIDs that fresh waits for; true if the object was deleted

	// inFlight are writes that were answered 504 and are carried out later.
	inFlight []func()
	landing  bool

	truth
	trace []string
	naive naive
}

// naive selects errors of a controller; the runs must detect each of them.
type naive struct{ noFreshness, noRecheck, oneSync, randomNames, noMark bool }

type change struct {
	revision int
	pod      *corev1.Pod
	gone     bool
}

func newWorld(t testing.TB, seed uint64, j *batchv1.Job) *world {
	w := &world{
		t: t, rng: rand.New(rand.NewPCG(seed, 1)), now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
		pods: map[string]*corev1.Pod{}, truth: newTruth(),
	}
	w.limits = DefaultLimits
	w.limits.Uncounted, w.limits.Pods = 2+w.rng.IntN(3), 1+w.rng.IntN(4)
	if w.rng.IntN(2) == 0 {
		w.limits.CountPause, w.limits.StatusPause = 0, 0
	}
	j.UID = types.UID(fmt.Sprintf("job-%d", seed))
	w.putJob(j)
	w.restart()
	return w
}

func (w *world) putJob(j *batchv1.Job) {
	w.revision++
	j.ResourceVersion = fmt.Sprint(w.revision)
	w.jobs = append(w.jobs, j)
}

func (w *world) job() *batchv1.Job { return w.jobs[len(w.jobs)-1] }

func (w *world) putPod(p *corev1.Pod) {
	w.revision++
	p.ResourceVersion = fmt.Sprint(w.revision)
	w.pods[p.Name] = p
	w.observe(p)
	w.log = append(w.log, change{w.revision, p, false})
}

func (w *world) dropPod(p *corev1.Pod) {
	w.revision++
	delete(w.pods, p.Name)
	w.log = append(w.log, change{w.revision, p, true})
}

// restart starts a new process: it lists everything and remembers nothing.
func (w *world) restart() {
	w.jobSeen, w.logSeen, w.cache = len(w.jobs), len(w.log), map[string]*corev1.Pod{}
	for name, p := range w.pods {
		w.cache[name] = p
	}
	w.past, w.fresh, w.touched = Past{}, workload.Freshness{}, map[types.UID]bool{}
}

func (w *world) deliverJob() bool {
	if w.jobSeen == len(w.jobs) {
		return false
	}
	w.jobSeen++
	return true
}

func (w *world) deliverPod() bool {
	if w.logSeen == len(w.log) {
		return false
	}
	c := w.log[w.logSeen]
	w.logSeen++
	if c.gone {
		delete(w.cache, c.pod.Name)
	} else {
		w.cache[c.pod.Name] = c.pod
	}
	return true
}

// reached returns the revision of a cache: that of the last event it got.
func (w *world) reached(resource string) string {
	if resource == "jobs" {
		return w.jobs[w.jobSeen-1].ResourceVersion
	}
	if w.logSeen == 0 {
		return "1"
	}
	return fmt.Sprint(w.log[w.logSeen-1].revision)
}

func (w *world) still(uid types.UID) bool {
	for _, p := range w.cache {
		if p.UID == uid {
			return w.touched[uid] && p.DeletionTimestamp == nil || !w.touched[uid] && hasFinalizer(p)
		}
	}
	return false
}

// fault is what happens to a write.
type fault int

const (
	none fault = iota
	rejected
	lost
	crashBefore
	crashAfter
	delayed // answered 504, and carried out some time later
)

func (w *world) fault(likely int) fault {
	if likely == 0 || w.rng.IntN(100) >= likely {
		return none
	}
	return fault(1 + w.rng.IntN(5))
}

// land carries out a delayed write, if there is one.
func (w *world) land() bool {
	if len(w.inFlight) == 0 {
		return false
	}
	n := w.rng.IntN(len(w.inFlight))
	write := w.inFlight[n]
	w.inFlight = slices.Delete(w.inFlight, n, n+1)
	w.logf("a delayed write is carried out")
	write()
	return true
}

// sync is one sync of the shell.
func (w *world) sync(likely int) {
	for _, name := range w.fresh.Open() {
		if p := w.pods[name]; p != nil {
			w.fresh.Wrote("pods", p.ResourceVersion)
		}
		w.fresh.Settled(name)
	}
	if _, why := w.fresh.Behind(w.reached, w.still); why != "" && !w.naive.noFreshness {
		return
	}
	j := w.jobs[w.jobSeen-1]
	s := State{Job: j, Past: w.past, Limits: w.limits}
	for _, p := range w.cache {
		switch owner := metav1.GetControllerOfNoCopy(p); {
		case owner == nil:
			s.Orphans = append(s.Orphans, p)
		case owner.UID == j.UID:
			s.Pods = append(s.Pods, p)
		}
	}
	for _, pods := range [][]*corev1.Pod{s.Pods, s.Orphans} {
		slices.SortFunc(pods, func(a, b *corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	}
	d := Plan(w.now, s)
	w.past = d.Past
	if d.Recheck && j.ResourceVersion != w.job().ResourceVersion && !w.naive.noRecheck {
		w.logf("the Job has changed")
		return
	}
	if w.naive.oneSync {
		d = oneSync(s, d)
	}
	if d.Status != nil && !w.putStatus(j, d.Status, w.fault(likely)) {
		return
	}
	if d.Tally.Created > 0 {
		w.past.Batch = max(1, w.past.Batch) * 2
	}
	for i := range d.Actions {
		if !w.do(&d.Actions[i], likely) {
			return
		}
	}
}

// oneSync changes a decision to what upstream did before 1.34: it releases and counts the recorded pods in the
// same sync, without waiting for the cache.
func oneSync(s State, d Decision) Decision {
	if d.Status == nil || d.Status.UncountedTerminatedPods == nil {
		return d
	}
	u := d.Status.UncountedTerminatedPods
	for _, p := range s.Pods {
		if slices.Contains(u.Succeeded, p.UID) || slices.Contains(u.Failed, p.UID) {
			d.Actions = append(d.Actions, workload.Action{Verb: workload.Patch, Object: p, Patch: json.RawMessage(releasePatch(p, ""))})
		}
	}
	d.Status.Succeeded += int32(len(u.Succeeded))
	d.Status.Failed += int32(len(u.Failed))
	d.Status.UncountedTerminatedPods = &batchv1.UncountedTerminatedPods{}
	return d
}

func (w *world) logf(format string, args ...any) {
	w.trace = append(w.trace, fmt.Sprintf(format, args...))
}

// landStatus carries out a delayed status write. A pod may have been adopted before it ends the Job.
func (w *world) landStatus(on *batchv1.Job, s *batchv1.JobStatus) {
	ended := Ended(w.job())
	w.putStatus(on, s, lost)
	if ended || !Ended(w.job()) {
		return
	}
	for _, p := range w.pods {
		w.stray[p.UID] = true
	}
}

// putStatus writes a status and reports whether the shell continues.
func (w *world) putStatus(on *batchv1.Job, s *batchv1.JobStatus, m fault) bool {
	if m == crashBefore {
		w.logf("crash before the status")
		w.restart()
		return false
	}
	if m == delayed {
		w.logf("the status is delayed")
		w.inFlight = append(w.inFlight, func() { w.landStatus(on, s) })
		return false
	}
	if m == rejected || on.ResourceVersion != w.job().ResourceVersion {
		w.logf("status rejected")
		return false
	}
	j := on.DeepCopy()
	j.Status = *s.DeepCopy()
	for _, why := range rejections(w.job(), j) {
		w.failf("a status that the API rejects: %s", why)
	}
	w.putJob(j)
	w.checkStatus(j)
	w.logf("status %s: succeeded %d failed %d uncounted %d indexes %q", j.ResourceVersion, s.Succeeded, s.Failed, len(s.UncountedTerminatedPods.Succeeded)+len(s.UncountedTerminatedPods.Failed), s.CompletedIndexes)
	switch m {
	case lost:
		w.logf("lost the answer to the status")
		return false
	case crashAfter:
		w.logf("crash after the status")
		w.restart()
		return false
	}
	w.fresh.Wrote("jobs", j.ResourceVersion)
	return true
}

func (w *world) do(a *workload.Action, likely int) bool {
	m := w.fault(likely)
	if m == crashBefore {
		w.logf("crash before %s", a.Verb)
		w.restart()
		return false
	}
	if m == rejected {
		return false
	}
	pod := a.Object.(*corev1.Pod)
	if m == delayed {
		w.logf("%s %s is delayed", a.Verb, pod.Name)
		w.inFlight = append(w.inFlight, func() {
			w.landing = true
			w.carryOut(a, pod)
			w.landing = false
		})
		w.fresh.Unsettled(pod.Name)
		return false
	}
	left := w.carryOut(a, pod)
	switch m {
	case crashAfter:
		w.logf("crash after %s", a.Verb)
		w.restart()
		return false
	case lost:
		w.logf("lost the answer to %s %s", a.Verb, pod.Name)
		if a.Verb == workload.Create {
			w.fresh.Unsettled(pod.Name)
		}
		return false
	}
	if left == nil {
		return true
	}
	if a.Verb == workload.Delete || !hasFinalizer(left) {
		w.touched[left.UID] = a.Verb == workload.Delete
		w.fresh.Gone(left.UID)
	}
	if a.Verb != workload.Delete && left.DeletionTimestamp == nil {
		w.fresh.Wrote("pods", left.ResourceVersion)
	}
	if a.Then == nil {
		return true
	}
	then := *a.Then
	then.Object = left
	// Other actors also write between the two writes.
	for w.rng.IntN(3) == 0 {
		w.kubelet(25)
	}
	return w.do(&then, likely)
}
