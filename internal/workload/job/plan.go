package job

import (
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// plan is the state of one decision while Plan computes it.
type plan struct {
	State
	now time.Time
	job *batchv1.Job

	// successMet and failureTarget are the conditions that the Job already has.
	successMet, failureTarget *batchv1.JobCondition
	// verdict is the condition by which this plan ends the Job, nil if it does not end it.
	verdict *batchv1.JobCondition

	recordedSucceeded, recordedFailed map[types.UID]bool
	completed                         Indexes // as in the observed status
	succeededNow, failedNow           Indexes // including those of pods that are not recorded yet

	podClasses
	status batchv1.JobStatus // the desired status
	// urgent: the status contains more than changed numbers of pods, so that it does not wait.
	urgent   bool
	counted  int // the recorded pods that this plan counts
	recorded int // the pods that this plan records
	// recordedFailures is how many of the recorded pods have failed.
	recordedFailures []*corev1.Pod
	decision         Decision
}

// Plan decides the next writes. It is pure: the same state gives the same decision.
func Plan(now time.Time, s State) Decision {
	p := &plan{State: s, now: now, job: s.Job}
	p.decision.Past = s.Past
	if ended := endOf(s.Job); ended != nil {
		return p.cleanUp(ended)
	}
	if mode := s.Job.Spec.CompletionMode; mode != nil && *mode != batchv1.NonIndexedCompletion && *mode != batchv1.IndexedCompletion {
		p.decision.Because("UnknownCompletionMode", "the completion mode %q is unknown; the Job is left alone", *mode)
		p.decision.Emit(true, "UnknownCompletionMode", "Skipped Job sync because completion mode is unknown")
		return p.decision
	}
	if p.claimOwnership() {
		return p.decision
	}
	p.read()
	p.decide()
	p.count()
	p.track()
	p.scale()
	p.end()
	p.writeStatus()
	p.releaseOrphans(func(pod *corev1.Pod) bool { return pod.DeletionTimestamp != nil }) // others are adopted
	p.decision.Tally.Open = p.ending() || len(p.wereTracked) > 0 || len(p.recordedSucceeded)+len(p.recordedFailed) > 0
	// If the API accepts a status, the Job is as the cache shows it. Without a status, another
	// instance or a user may have changed the Job.
	p.decision.Recheck = p.decision.Status == nil && p.decision.Tally.Created+p.decision.Tally.Removed > 0
	return p.decision
}

// read parses the Job's status and classifies its pods.
func (p *plan) read() {
	j := p.job
	p.status = *j.Status.DeepCopy()
	p.successMet = trueCondition(&j.Status, batchv1.JobSuccessCriteriaMet)
	p.failureTarget = trueCondition(&j.Status, batchv1.JobFailureTarget)
	if u := j.Status.UncountedTerminatedPods; u != nil {
		p.recordedSucceeded, p.recordedFailed = setOf(u.Succeeded), setOf(u.Failed)
	}
	if p.indexed() {
		// The API rejects a status that cannot be parsed, so no Job controller wrote this one. The
		// part that can be parsed counts.
		p.completed, _ = ParseIndexes(j.Status.CompletedIndexes, p.completions())
		p.succeededNow = slices.Clone(p.completed)
		p.failedNow, _ = ParseIndexes(ptr.Deref(j.Status.FailedIndexes, ""), p.completions())
	}
	p.classify()
	p.decision.Past = p.Past.with(p.wereSuccesses, p.wereFailures, p.wereTracked)
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

// completions returns spec.completions, 0 if it is not set.
func (p *plan) completions() int { return int(ptr.Deref(p.job.Spec.Completions, 0)) }

// ending reports whether it is decided that the Job ends, in this plan or before.
func (p *plan) ending() bool {
	return p.successMet != nil || p.failureTarget != nil || p.verdict != nil
}

// decide decides whether the Job ends: failure before success, as the package comment says.
func (p *plan) decide() {
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

// failure returns the condition by which the Job fails now, nil if it does not fail.
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

// restartedTooOften applies to pods that are restarted in place (restartPolicy OnFailure).
func (p *plan) restartedTooOften() bool {
	if p.job.Spec.Template.Spec.RestartPolicy != corev1.RestartPolicyOnFailure {
		return false
	}
	return p.restarts > 0 && p.restarts >= int(ptr.Deref(p.job.Spec.BackoffLimit, 6))
}

// pastDeadline reports whether the Job has been active for longer than activeDeadlineSeconds. If it
// has not, the plan wakes when the deadline passes.
func (p *plan) pastDeadline() bool {
	seconds := p.job.Spec.ActiveDeadlineSeconds
	if seconds == nil || p.suspended() {
		return false
	}
	since := p.began() // the Job has not started yet
	if trueCondition(&p.job.Status, batchv1.JobSuspended) != nil {
		since = p.now // the Job is resumed
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

// success returns the condition by which the Job succeeds now, nil if it does not succeed.
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
		enough = p.succeeded > 0 // one success means that the work is done; the other pods may finish
	}
	// A suspended Job deletes its running pods; if enough have succeeded, it ends instead.
	if enough && (len(p.active) == 0 || p.suspended()) {
		return met(batchv1.JobReasonCompletionsReached, "Reached expected number of succeeded pods")
	}
	return nil
}
