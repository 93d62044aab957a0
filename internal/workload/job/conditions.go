package job

import (
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// endOf returns the condition Complete or Failed, nil if the Job has neither.
func endOf(j *batchv1.Job) *batchv1.JobCondition {
	if c := trueCondition(&j.Status, batchv1.JobComplete); c != nil {
		return c
	}
	return trueCondition(&j.Status, batchv1.JobFailed)
}

// Ended reports whether a Job is Complete or Failed.
func Ended(j *batchv1.Job) bool { return endOf(j) != nil }

func trueCondition(s *batchv1.JobStatus, t batchv1.JobConditionType) *batchv1.JobCondition {
	if c := conditionOf(s, t); c != nil && c.Status == corev1.ConditionTrue {
		return c
	}
	return nil
}

func conditionOf(s *batchv1.JobStatus, t batchv1.JobConditionType) *batchv1.JobCondition {
	for i := range s.Conditions {
		if s.Conditions[i].Type == t {
			return &s.Conditions[i]
		}
	}
	return nil
}

// setCondition sets a condition, and reports whether that changed anything.
func setCondition(s *batchv1.JobStatus, c batchv1.JobCondition, now time.Time) bool {
	c.LastProbeTime, c.LastTransitionTime = metav1.NewTime(now), metav1.NewTime(now)
	old := conditionOf(s, c.Type)
	switch {
	case old == nil:
		s.Conditions = append(s.Conditions, c)
	case old.Status == c.Status && old.Reason == c.Reason && old.Message == c.Message:
		return false
	default:
		*old = c
	}
	return true
}

// began returns when this process first planned for the Job.
func (p *plan) began() time.Time {
	if p.Past.Began.IsZero() {
		return p.now
	}
	return p.Past.Began
}

// start sets the start time and the condition Suspended.
func (p *plan) start() {
	if p.status.StartTime == nil && !p.suspended() {
		// It is not urgent: most Jobs of one pod have more changes within a second, and one write
		// contains them all.
		p.status.StartTime = ptr.To(metav1.NewTime(p.began()))
	}
	if p.ending() || p.job.DeletionTimestamp != nil {
		return
	}
	switch old := conditionOf(&p.status, batchv1.JobSuspended); {
	case p.suspended():
		c := batchv1.JobCondition{Type: batchv1.JobSuspended, Status: corev1.ConditionTrue, Reason: "JobSuspended", Message: "Job suspended"}
		if setCondition(&p.status, c, p.now) {
			p.status.StartTime = nil // the deadline of a suspended Job is reset
			p.urgent = true
			p.decision.Emit(false, "Suspended", "Job suspended")
		}
	case old != nil:
		c := batchv1.JobCondition{Type: batchv1.JobSuspended, Status: corev1.ConditionFalse, Reason: "JobResumed", Message: "Job resumed"}
		if setCondition(&p.status, c, p.now) {
			p.status.StartTime = ptr.To(metav1.NewTime(p.now))
			p.urgent = true
			p.decision.Emit(false, "Resumed", "Job resumed")
		}
	}
}

// end sets the condition that ends the Job, once no pod is left that could change its counts.
func (p *plan) end() {
	p.start()
	if !p.ending() {
		return
	}
	u := p.status.UncountedTerminatedPods
	open := len(u.Succeeded) + len(u.Failed)
	if len(p.active) > 0 || p.terminating > 0 || p.tracked > 0 || open > 0 {
		p.decision.Because("Ending", "the Job ends when no pod is left: %d pods are active, %d terminating, %d have the finalizer, %d are recorded and not counted",
			len(p.active), p.terminating, p.tracked, open)
		return
	}
	c := batchv1.JobCondition{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}
	why := trueCondition(&p.status, batchv1.JobSuccessCriteriaMet)
	if why == nil {
		c.Type, why = batchv1.JobFailed, trueCondition(&p.status, batchv1.JobFailureTarget)
	}
	c.Reason, c.Message = why.Reason, why.Message
	setCondition(&p.status, c, p.now)
	p.urgent = true
	p.decision.Tally.Ended, p.decision.Tally.Why = c.Type, c.Reason
	p.decision.Because("Ends", "no pod is left: the Job is %s (%s)", c.Type, c.Reason)
	if p.status.StartTime == nil && !(p.suspended() && p.job.Spec.Completions != nil && p.completions() == 0) {
		p.status.StartTime = ptr.To(metav1.NewTime(p.now)) // the API requires a start time for a finished Job
	}
	if c.Type == batchv1.JobFailed {
		p.decision.Emit(true, c.Reason, c.Message)
		return
	}
	p.status.CompletionTime = ptr.To(metav1.NewTime(p.now))
	if p.job.Spec.Completions != nil && int(p.status.Succeeded) > p.completions() {
		p.decision.Emit(true, "TooManySucceededPods", "Too many succeeded pods running after completion count reached")
	}
	p.decision.Emit(false, "Completed", "Job completed")
}
