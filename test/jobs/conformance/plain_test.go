package conformance

import (
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// Jobs without indexes.
var plainCases = []behaviour{
	{
		name: "one pod fails and the next succeeds, each under a new controller", after: "TestNonParallelJob",
		scenario: func(p *play) {
			j := p.begin()
			p.shows(j, "active 1")
			p.restart()
			p.meets(failed, p.active(j)...)
			p.Settle()
			p.pass()
			p.shows(j, "active 1, failed 1")
			p.restart()
			p.meets(succeeded, p.active(j)...)
			p.Settle()
			p.shows(j, "succeeded 1, failed 1"+complete)
		},
	},
	{
		name: "without completions, no pod is created after the first success", after: "TestParallelJob",
		scenario: func(p *play) {
			j := p.begin(parallelism(5))
			p.shows(j, "active 5")
			p.runs(p.active(j)[:2]...)
			p.pass()
			p.shows(j, "active 5, ready 2")
			p.meets(failed, p.active(j)[:2]...)
			p.Advance(26 * time.Second) // the wait after two failures is twenty seconds
			p.shows(j, "active 5, failed 2")
			p.meets(succeeded, p.active(j)[0])
			p.pass()
			p.shows(j, "active 4, succeeded 1, failed 2")
			p.meets(failed, p.active(j)[:2]...)
			p.Settle()
			p.shows(j, "active 2, succeeded 1, failed 4")
			p.meets(succeeded, p.active(j)...)
			p.Settle()
			p.shows(j, "succeeded 3, failed 4"+complete)
		},
	},
	{
		name: "pods deleted by a lower parallelism are not failures", after: "TestParallelJobChangingParallelism",
		scenario: func(p *play) {
			j := p.begin(parallelism(5), backoffLimit(2))
			p.change(j, parallelism(2))
			p.pass()
			p.shows(j, "active 2")
			p.change(j, parallelism(4))
			p.pass()
			p.shows(j, "active 4")
			p.meets(succeeded, p.active(j)...)
			p.Settle()
			p.shows(j, "succeeded 4"+complete)
		},
	},
	{
		name: "a lower parallelism keeps the ready pods", after: "TestSortingActivePods",
		scenario: func(p *play) {
			j := p.begin(parallelism(4))
			keep := p.active(j)[2]
			p.runs(keep)
			p.pass()
			p.change(j, parallelism(1))
			p.pass()
			p.shows(j, "active 1, ready 1")
			if left := p.active(j)[0]; left.UID != keep.UID {
				p.fatalf("%s is left, not %s, which is ready", left.Name, keep.Name)
			}
		},
	},
	{
		name: "many pods, few at a time", after: "TestParallelJobWithCompletions", caps: 10,
		scenario: func(p *play) {
			j := p.begin(sized(54, 56))
			p.pass()
			p.shows(j, "active 54")
			p.runs(p.active(j)[:52]...)
			p.pass()
			p.shows(j, "active 54, ready 52")
			ready := p.those(j, func(pod *corev1.Pod) bool { return pod.Status.Phase == corev1.PodRunning })
			p.meets(failed, ready[:2]...)
			p.Advance(30 * time.Second)
			p.shows(j, "active 54, ready 50, failed 2")
			ready = p.those(j, func(pod *corev1.Pod) bool { return pod.Status.Phase == corev1.PodRunning })
			p.meets(succeeded, ready...)
			p.meets(succeeded, p.active(j)[:3]...)
			p.Settle()
			p.shows(j, "active 3, succeeded 53, failed 2")
			p.meets(succeeded, p.active(j)...)
			p.Settle()
			p.shows(j, "succeeded 56, failed 2"+complete)
		},
	},
	{
		name: "completions of zero",
		scenario: func(p *play) {
			j := p.begin(sized(2, 0))
			p.shows(j, "nothing"+complete)
			p.showsPods(j, "")
		},
	},
	{
		name: "parallelism of zero",
		scenario: func(p *play) {
			j := p.begin(sized(0, 2))
			p.shows(j, "nothing")
			p.change(j, parallelism(1))
			p.pass()
			p.shows(j, "active 1")
		},
	},
	{
		name: "pods that are restarted in place succeed", after: "e2e: should run a job to completion when tasks sometimes fail and are locally restarted",
		scenario: func(p *play) {
			j := p.begin(sized(2, 2), onFailure)
			p.restarts(p.active(j)[0], 2)
			p.pass()
			p.shows(j, "active 2, ready 1")
			p.meets(succeeded, p.active(j)...)
			p.Settle()
			p.shows(j, "succeeded 2"+complete)
		},
	},
	{
		name: "restarts in place count against the limit", after: "TestJobBackoffForOnFailure",
		scenario: func(p *play) {
			j := p.begin(sized(2, 2), onFailure, backoffLimit(3))
			p.restarts(p.active(j)[0], 1)
			p.restarts(p.active(j)[1], 1)
			p.pass()
			p.shows(j, "active 2, ready 2")
			p.restarts(p.active(j)[1], 2)
			p.Settle()
			p.shows(j, "failed 2"+overLimit)
		},
	},
	{
		name: "the deadline passes", after: "e2e: should fail when exceeds active deadline",
		scenario: func(p *play) {
			j := p.begin(sized(2, 2), func(s *batchv1.JobSpec) { s.ActiveDeadlineSeconds = ptr.To[int64](60) })
			p.Advance(50 * time.Second)
			p.shows(j, "active 2")
			p.Advance(20 * time.Second)
			p.shows(j, "failed 2: FailureTarget DeadlineExceeded, Failed DeadlineExceeded")
			p.showsPods(j, "")
		},
	},
	{
		name: "a deadline that is set later counts from the start", after: "TestPastDeadlineJobFinished",
		scenario: func(p *play) {
			j := p.begin()
			p.Advance(30 * time.Second)
			p.change(j, func(s *batchv1.JobSpec) { s.ActiveDeadlineSeconds = ptr.To[int64](60) })
			p.Advance(20 * time.Second)
			p.shows(j, "active 1")
			p.Advance(20 * time.Second)
			p.shows(j, "failed 1: FailureTarget DeadlineExceeded, Failed DeadlineExceeded")
		},
	},
}

func onFailure(s *batchv1.JobSpec) {
	s.Template.Spec.RestartPolicy = corev1.RestartPolicyOnFailure
}

// restarts reports that the kubelet has restarted a pod's container n times.
func (p *play) restarts(pod *corev1.Pod, n int32) {
	p.runs(pod)
	p.report(pod, func(s *corev1.PodStatus) { s.ContainerStatuses[0].RestartCount = n })
}
