package job

import (
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// endOf is the condition that says that the Job has ended, nil if it has not.
func endOf(j *batchv1.Job) *batchv1.JobCondition {
	if c := trueCondition(&j.Status, batchv1.JobComplete); c != nil {
		return c
	}
	return trueCondition(&j.Status, batchv1.JobFailed)
}

// Ended tells whether a Job is Complete or Failed.
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

// setCondition writes a condition, and tells whether that changed anything.
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

// began is when this process first planned for the Job.
func (p *plan) began() time.Time {
	if p.Past.Began.IsZero() {
		return p.now
	}
	return p.Past.Began
}

// start writes when the Job began, and whether it is suspended.
func (p *plan) start() {
	if p.status.StartTime == nil && !p.suspended() {
		// It is written with what else there is to tell soon: most Jobs of one pod have
		// more to tell within a second.
		p.status.StartTime = ptr.To(metav1.NewTime(p.began()))
	}
	if p.ending() || p.job.DeletionTimestamp != nil {
		return
	}
	switch old := conditionOf(&p.status, batchv1.JobSuspended); {
	case p.suspended():
		c := batchv1.JobCondition{Type: batchv1.JobSuspended, Status: corev1.ConditionTrue, Reason: "JobSuspended", Message: "Job suspended"}
		if setCondition(&p.status, c, p.now) {
			p.status.StartTime = nil // a suspended Job's deadline does not pass
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

// end writes the condition that ends the Job, once nothing is left that could change
// what it counted.
func (p *plan) end() {
	p.start()
	if !p.ending() {
		return
	}
	u := p.status.UncountedTerminatedPods
	open := len(u.Succeeded) + len(u.Failed)
	if len(p.active) > 0 || p.terminating > 0 || p.tracked > 0 || open > 0 {
		p.decision.Because("Ending", "the Job ends when nothing is left: %d pods are active, %d terminating, %d held, %d recorded and not counted",
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
	p.decision.Because("Ends", "nothing is left: the Job is %s (%s)", c.Type, c.Reason)
	if p.status.StartTime == nil && !(p.suspended() && p.job.Spec.Completions != nil && p.completions() == 0) {
		p.status.StartTime = ptr.To(metav1.NewTime(p.now)) // the API wants one of a Job that has ended
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
