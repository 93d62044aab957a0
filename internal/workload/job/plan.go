package job

import (
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// plan is a decision in the making.
type plan struct {
	State
	now time.Time
	job *batchv1.Job

	// What is decided already, as the Job shows it.
	successMet, failureTarget *batchv1.JobCondition
	// verdict is the condition by which this plan decides the end, if it does.
	verdict *batchv1.JobCondition

	recordedSucceeded, recordedFailed map[types.UID]bool
	completed                         Indexes // as the Job shows them
	succeededNow, failedNow           Indexes // with those of pods that are not recorded yet

	census
	status batchv1.JobStatus // what it should be
	// urgent says that the status holds more than new numbers of pods.
	urgent   bool
	counted  int // pods whose records became counts
	recorded int // pods that were recorded
	// recordedFailures are those of them that have failed.
	recordedFailures []*corev1.Pod
	decision         Decision
}

// Plan decides what is next. It is pure: the same state gives the same decision.
func Plan(now time.Time, s State) Decision {
	p := &plan{State: s, now: now, job: s.Job}
	p.decision.Past = s.Past
	if ended := endOf(s.Job); ended != nil {
		return p.tidyUp(ended)
	}
	if mode := s.Job.Spec.CompletionMode; mode != nil && *mode != batchv1.NonIndexedCompletion && *mode != batchv1.IndexedCompletion {
		p.decision.Because("UnknownCompletionMode", "the completion mode %q is unknown; the Job is left alone", *mode)
		p.decision.Emit(true, "UnknownCompletionMode", "Skipped Job sync because completion mode is unknown")
		return p.decision
	}
	if p.claim() {
		return p.decision
	}
	p.read()
	p.count()
	p.judge()
	p.track()
	p.scale()
	p.end()
	p.write()
	p.decision.Tally.Open = p.ending() || len(p.wereHeld) > 0 || len(p.recordedSucceeded)+len(p.recordedFailed) > 0
	// A status that the API accepts shows that the Job is as it was seen. Without one,
	// somebody else (another instance, a user) may know better.
	p.decision.Recheck = p.decision.Status == nil && p.decision.Tally.Created+p.decision.Tally.Removed > 0
	return p.decision
}

// read takes the Job's own record apart and makes the census of its pods.
func (p *plan) read() {
	j := p.job
	p.status = *j.Status.DeepCopy()
	p.successMet = trueCondition(&j.Status, batchv1.JobSuccessCriteriaMet)
	p.failureTarget = trueCondition(&j.Status, batchv1.JobFailureTarget)
	if u := j.Status.UncountedTerminatedPods; u != nil {
		p.recordedSucceeded, p.recordedFailed = setOf(u.Succeeded), setOf(u.Failed)
	}
	if p.indexed() {
		// A status that cannot be read was not written by a Job controller; the API
		// refuses it. What can be read of it counts.
		p.completed, _ = ParseIndexes(j.Status.CompletedIndexes, p.completions())
		p.succeededNow = slices.Clone(p.completed)
		p.failedNow, _ = ParseIndexes(ptr.Deref(j.Status.FailedIndexes, ""), p.completions())
	}
	p.survey()
	p.decision.Past = p.Past.with(p.wereSuccesses, p.wereFailures, p.wereHeld)
	if !p.suspended() {
		p.decision.Past.Began = p.began()
	}
}

func setOf(uids []types.UID) map[types.UID]bool {
	if len(uids) == 0 {
		return nil
	}
	set := make(map[types.UID]bool, len(uids))
	for _, uid := range uids {
		set[uid] = true
	}
	return set
}

func (p *plan) indexed() bool {
	return ptr.Deref(p.job.Spec.CompletionMode, batchv1.NonIndexedCompletion) == batchv1.IndexedCompletion
}

func (p *plan) perIndex() bool { return p.job.Spec.BackoffLimitPerIndex != nil }

func (p *plan) suspended() bool { return ptr.Deref(p.job.Spec.Suspend, false) }

// completions is spec.completions, 0 if there is none.
func (p *plan) completions() int { return int(ptr.Deref(p.job.Spec.Completions, 0)) }

// ending tells whether the end of the Job is decided, in this plan or before.
func (p *plan) ending() bool {
	return p.successMet != nil || p.failureTarget != nil || p.verdict != nil
}

// judge decides whether the Job ends, in the order that the package comment gives.
func (p *plan) judge() {
	if p.ending() {
		return
	}
	if c := p.failure(); c != nil {
		p.verdict = c
	} else {
		p.verdict = p.success()
	}
	if p.verdict != nil {
		setCondition(&p.status, *p.verdict, p.now)
		p.urgent = true
		p.decision.Because("Decided", "the Job ends: %s (%s)", p.verdict.Message, p.verdict.Reason)
	}
}

// failure is the condition by which the Job fails now, nil if it does not.
func (p *plan) failure() *batchv1.JobCondition {
	spec := &p.job.Spec
	fails := func(reason, message string) *batchv1.JobCondition {
		return &batchv1.JobCondition{Type: batchv1.JobFailureTarget, Status: corev1.ConditionTrue, Reason: reason, Message: message}
	}
	switch {
	case p.failJob != "":
		return fails(batchv1.JobReasonPodFailurePolicy, p.failJob)
	case p.failed > int(ptr.Deref(spec.BackoffLimit, 6)) || p.restartedTooOften():
		return fails(batchv1.JobReasonBackoffLimitExceeded, "Job has reached the specified backoff limit")
	case p.pastDeadline():
		return fails(batchv1.JobReasonDeadlineExceeded, "Job was active longer than specified deadline")
	case !p.perIndex():
		return nil
	case spec.MaxFailedIndexes != nil && p.failedNow.Len() > int(*spec.MaxFailedIndexes):
		return fails(batchv1.JobReasonMaxFailedIndexesExceeded, "Job has exceeded the specified maximal number of failed indexes")
	case len(p.failedNow) > 0 && p.failedNow.Len()+p.succeededNow.Len() >= p.completions():
		return fails(batchv1.JobReasonFailedIndexes, "Job has failed indexes")
	}
	return nil
}

// restartedTooOften is for pods that are restarted in place (restartPolicy OnFailure).
func (p *plan) restartedTooOften() bool {
	if p.job.Spec.Template.Spec.RestartPolicy != corev1.RestartPolicyOnFailure {
		return false
	}
	return p.restarts > 0 && p.restarts >= int(ptr.Deref(p.job.Spec.BackoffLimit, 6))
}

// pastDeadline tells whether the Job has been active for too long, and wakes it when
// it will have been.
func (p *plan) pastDeadline() bool {
	seconds := p.job.Spec.ActiveDeadlineSeconds
	if seconds == nil || p.suspended() {
		return false
	}
	since := p.began() // of a Job that begins
	if trueCondition(&p.job.Status, batchv1.JobSuspended) != nil {
		since = p.now // it is resumed
	}
	if start := p.job.Status.StartTime; start != nil && trueCondition(&p.job.Status, batchv1.JobSuspended) == nil {
		since = start.Time
	}
	left := since.Add(time.Duration(*seconds) * time.Second).Sub(p.now)
	if left > 0 {
		p.decision.WakeIn(left)
	}
	return left <= 0
}

// success is the condition by which the Job has succeeded, nil if it has not.
func (p *plan) success() *batchv1.JobCondition {
	met := func(reason, message string) *batchv1.JobCondition {
		return &batchv1.JobCondition{Type: batchv1.JobSuccessCriteriaMet, Status: corev1.ConditionTrue, Reason: reason, Message: message}
	}
	if p.indexed() {
		if message := matchSuccess(p.job, p.succeededNow); message != "" {
			return met(batchv1.JobReasonSuccessPolicy, message)
		}
	}
	enough := p.succeeded >= p.completions()
	if p.job.Spec.Completions == nil {
		enough = p.succeeded > 0 // any success tells that the work is done; the others may finish
	}
	// Those that run on would be removed if the Job is suspended; then it has ended instead.
	if enough && (len(p.active) == 0 || p.suspended()) {
		return met(batchv1.JobReasonCompletionsReached, "Reached expected number of succeeded pods")
	}
	return nil
}
