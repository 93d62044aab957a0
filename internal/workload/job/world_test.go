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

// world is the least that Plan can be tried in: objects with revisions, a cache of Jobs
// and one of pods that move forward each at its own pace, a kubelet, and a shell that
// may crash at any write and lose any answer. It plays ten thousand runs in the time
// in which package simtest, which has the real API, plays ten.
type world struct {
	t   testing.TB
	rng *rand.Rand
	now time.Time

	revision int
	jobs     []*batchv1.Job // every version
	pods     map[string]*corev1.Pod
	log      []change // every version of every pod

	jobSeen, logSeen int // how far the caches are
	cache            map[string]*corev1.Pod

	limits Limits
	past   Past
	fresh  workload.Freshness

	touched map[types.UID]bool // what fresh waits for; true if it was deleted

	// inFlight are writes that were answered 504 and are still to be carried out.
	inFlight []func()
	landing  bool

	truth
	story []string
	naive naive
}

// naive are ways to do it wrong; each must be found out.
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
	w.happened(p)
	w.log = append(w.log, change{w.revision, p, false})
}

func (w *world) dropPod(p *corev1.Pod) {
	w.revision++
	delete(w.pods, p.Name)
	w.log = append(w.log, change{w.revision, p, true})
}

// restart is a new process: it lists everything and remembers nothing.
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

// reached is the revision of a cache; its store knows no more than the events it got.
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

// mishap is what befalls a write.
type mishap int

const (
	none mishap = iota
	refused
	lost
	crashBefore
	crashAfter
	late // answered 504, and carried out some time later
)

func (w *world) mishap(likely int) mishap {
	if likely == 0 || w.rng.IntN(100) >= likely {
		return none
	}
	return mishap(1 + w.rng.IntN(5))
}

// land carries out a write that was late, if there is one.
func (w *world) land() bool {
	if len(w.inFlight) == 0 {
		return false
	}
	n := w.rng.IntN(len(w.inFlight))
	write := w.inFlight[n]
	w.inFlight = slices.Delete(w.inFlight, n, n+1)
	w.say("a late write lands")
	write()
	return true
}

// sync is the shell.
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
		w.say("the Job has changed")
		return
	}
	if w.naive.oneSync {
		d = oneSync(s, d)
	}
	if d.Status != nil && !w.putStatus(j, d.Status, w.mishap(likely)) {
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

// oneSync is what upstream did before 1.34: what is recorded is let go and counted
// in the same sync, and nobody waits to see any of it.
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

func (w *world) say(format string, args ...any) {
	w.story = append(w.story, fmt.Sprintf(format, args...))
}

// landStatus is a status that was late. The end of the Job may come when there is a pod that was
// adopted meanwhile.
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

// putStatus reports whether the shell goes on.
func (w *world) putStatus(on *batchv1.Job, s *batchv1.JobStatus, m mishap) bool {
	if m == crashBefore {
		w.say("crash before the status")
		w.restart()
		return false
	}
	if m == late {
		w.say("the status is late")
		w.inFlight = append(w.inFlight, func() { w.landStatus(on, s) })
		return false
	}
	if m == refused || on.ResourceVersion != w.job().ResourceVersion {
		w.say("status refused")
		return false
	}
	j := on.DeepCopy()
	j.Status = *s.DeepCopy()
	for _, why := range refusals(w.job(), j) {
		w.broken("a status the API refuses: %s", why)
	}
	w.putJob(j)
	w.record(j)
	w.say("status %s: succeeded %d failed %d uncounted %d indexes %q", j.ResourceVersion, s.Succeeded, s.Failed, len(s.UncountedTerminatedPods.Succeeded)+len(s.UncountedTerminatedPods.Failed), s.CompletedIndexes)
	switch m {
	case lost:
		w.say("lost the answer to the status")
		return false
	case crashAfter:
		w.say("crash after the status")
		w.restart()
		return false
	}
	w.fresh.Wrote("jobs", j.ResourceVersion)
	return true
}

func (w *world) do(a *workload.Action, likely int) bool {
	m := w.mishap(likely)
	if m == crashBefore {
		w.say("crash before %s", a.Verb)
		w.restart()
		return false
	}
	if m == refused {
		return false
	}
	pod := a.Object.(*corev1.Pod)
	if m == late {
		w.say("%s %s is late", a.Verb, pod.Name)
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
		w.say("crash after %s", a.Verb)
		w.restart()
		return false
	case lost:
		w.say("lost the answer to %s %s", a.Verb, pod.Name)
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
	// Others write between the two as well, and so do late events and crashes.
	for w.rng.IntN(3) == 0 {
		w.kubelet(25)
	}
	return w.do(&then, likely)
}
