package conformance

import (
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

// Failures of a Job as a whole, and the waits after them.
var backoffCases = []behaviour{
	{
		name: "waits double", after: "TestJobPodsCreatedWithExponentialBackoff",
		scenario: func(p *play) {
			j := p.begin()
			p.fails(j, 10*time.Second)
			p.fails(j, 20*time.Second)
			p.fails(j, 40*time.Second)
			p.shows(j, "active 1, failed 3")
		},
	},
	{
		name: "a success ends the waiting", after: "TestNewBackoffRecord",
		scenario: func(p *play) {
			j := p.begin(sized(1, 3))
			p.fails(j, 10*time.Second)
			p.fails(j, 20*time.Second)
			p.meets(succeeded, p.active(j)...)
			p.pass()
			p.shows(j, "active 1, succeeded 1, failed 2")
			p.fails(j, 10*time.Second)
		},
	},
	{
		name: "an ignored failure delays the next pod", after: "TestNewBackoffRecord",
		scenario: func(p *play) {
			j := p.begin(policy(onCondition(batchv1.PodFailurePolicyActionIgnore)))
			p.meets(disrupted, p.active(j)...)
			p.Advance(7 * time.Second)
			p.shows(j, "nothing")
			p.Advance(8 * time.Second)
			p.shows(j, "active 1")
		},
	},
	{
		name: "too many failures", after: "e2e: should fail to exceed backoffLimit",
		scenario: func(p *play) {
			j := p.begin(backoffLimit(1))
			p.fails(j, 10*time.Second)
			p.meets(failed, p.active(j)...)
			p.Settle()
			p.shows(j, "failed 2"+overLimit)
			p.showsPods(j, "Failed; Failed")
		},
	},
	{
		name: "one of a hundred pods fails, and none keeps the finalizer", after: "TestFinalizersClearedWhenBackoffLimitExceeded", caps: 50,
		scenario: func(p *play) {
			j := p.begin(indexed(100, 100), backoffLimit(0))
			p.meets(failed, p.active(j)[0])
			p.Settle()
			p.shows(j, "failed 100"+overLimit)
			p.showsPods(j, "0 Failed")
		},
	},
	{
		name: "pods stay ready while others wait", after: "kubernetes #139428",
		scenario: func(p *play) {
			j := p.begin(sized(2, 2))
			p.runs(p.active(j)[0])
			p.meets(failed, p.those(j, func(pod *corev1.Pod) bool { return pod.Status.Phase == corev1.PodPending })...)
			p.Advance(5 * time.Second)
			p.shows(j, "active 1, ready 1, failed 1")
			p.Advance(10 * time.Second)
			p.shows(j, "active 2, ready 1, failed 1")
		},
	},
	{
		name: "the limit is raised in time",
		scenario: func(p *play) {
			j := p.begin(backoffLimit(0))
			p.change(j, backoffLimit(1))
			p.fails(j, 10*time.Second)
			p.meets(failed, p.active(j)...)
			p.Settle()
			p.shows(j, "failed 2"+overLimit)
		},
	},
	{
		name: "a Job of the same name does not wait for the failures of the other", after: "TestImmediateJobRecreation",
		collects: true,
		scenario: func(p *play) {
			for _, name := range []string{"a", "b", "c"} {
				j := job(sized(1, 1))
				j.Name = name
				p.Create(j)
			}
			p.pass()
			for _, name := range []string{"a", "b", "c"} {
				j := job()
				j.Name = name
				p.reread(j)
				p.meets(failed, p.active(j)...)
			}
			p.Advance(4 * time.Second)
			for _, name := range []string{"a", "b", "c"} {
				j := job(sized(1, 1))
				j.Name = name
				p.reread(j)
				p.shows(j, "failed 1")
				p.Delete(j)
				again := job(sized(1, 1))
				again.Name = name
				p.Create(again)
			}
			p.Advance(5 * time.Second)
			for _, name := range []string{"a", "b", "c"} {
				j := job()
				j.Name = name
				p.shows(j, "active 1")
			}
		},
	},
}

// fails makes the one active pod of a Job fail, and checks that its successor is created after this wait, and
// at most a syncTime later.
func (p *play) fails(j *batchv1.Job, wait time.Duration) {
	p.meets(failed, p.active(j)...)
	p.Advance(wait - 2*time.Second)
	if n := len(p.active(j)); n != 0 {
		p.fatalf("%d pods are active %s after a failure", n, wait-2*time.Second)
	}
	p.Advance(syncTime)
	if n := len(p.active(j)); n != 1 {
		p.fatalf("%d pods are active %s after a failure", n, wait+syncTime-2*time.Second)
	}
}

// policy sets a pod failure policy.
func policy(rules ...batchv1.PodFailurePolicyRule) func(*batchv1.JobSpec) {
	return func(s *batchv1.JobSpec) { s.PodFailurePolicy = &batchv1.PodFailurePolicy{Rules: rules} }
}

func onCondition(a batchv1.PodFailurePolicyAction) batchv1.PodFailurePolicyRule {
	return batchv1.PodFailurePolicyRule{Action: a, OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{
		{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue},
	}}
}

func onCodes(a batchv1.PodFailurePolicyAction, codes ...int32) batchv1.PodFailurePolicyRule {
	return batchv1.PodFailurePolicyRule{Action: a, OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{
		Operator: batchv1.PodFailurePolicyOnExitCodesOpIn, Values: codes,
	}}
}
