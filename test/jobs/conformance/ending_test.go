package conformance

import (
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// Deleted pods, and when they are replaced.
var replacementCases = []behaviour{
	replaced("a terminating pod of an index is replaced at once", batchv1.TerminatingOrFailed, indexed(2, 2)),
	replaced("a terminating pod is replaced at once", batchv1.TerminatingOrFailed, sized(2, 2)),
	replaced("a terminating pod of an index is replaced once it has failed", batchv1.Failed, indexed(2, 2)),
	replaced("a terminating pod is replaced once it has failed", batchv1.Failed, sized(2, 2)),
	{
		name: "with a failure policy, pods are replaced once they have failed", after: "TestJobPodReplacementPolicy podFailurePolicy",
		scenario: func(p *play) {
			j := p.begin(sized(2, 2), onNode, threeRules)
			if policy := ptr.Deref(j.Spec.PodReplacementPolicy, ""); policy != batchv1.Failed {
				p.fatalf("the API's default is %q", policy)
			}
			gone := p.active(j)[0]
			p.Delete(gone)
			p.pass()
			p.shows(j, "active 1, terminating 1")
			p.meets(disrupted, gone)
			p.Settle()
			p.pass()
			p.shows(j, "active 2")
		},
	},
	{
		name: "a pod that was deleted may still succeed", after: "e2e: should recreate pods only after they have failed if pod replacement policy is set to Failed",
		scenario: func(p *play) {
			j := p.begin(sized(2, 2), onNode, replacing(batchv1.Failed))
			p.Delete(p.active(j)[0])
			p.pass()
			p.shows(j, "active 1, terminating 1")
			p.meets(succeeded, p.those(j, isTerminating)...)
			p.pass()
			p.shows(j, "active 1, succeeded 1")
			p.meets(succeeded, p.active(j)...)
			p.Settle()
			p.shows(j, "succeeded 2"+complete)
		},
	},
	{
		name: "a deleted pod terminates without having run",
		scenario: func(p *play) {
			j := p.begin(sized(2, 2))
			p.Delete(p.active(j)[0])
			p.Settle()
			p.pass()
			p.shows(j, "active 2, failed 1")
			p.showsPods(j, "Pending, held; Pending, held")
		},
	},
}

// replaced deletes two pods that a finalizer keeps, and then lets them fail.
func replaced(name string, policy batchv1.PodReplacementPolicy, size func(*batchv1.JobSpec)) behaviour {
	return behaviour{name: name, after: "TestJobPodReplacementPolicy", scenario: func(p *play) {
		j := p.begin(size, blocked, replacing(policy))
		for _, pod := range p.active(j) {
			p.Delete(pod)
		}
		p.Advance(26 * time.Second)
		if policy == batchv1.Failed {
			p.shows(j, "terminating 2")
		} else {
			p.shows(j, "active 2, terminating 2, failed 2")
		}
		p.meets(failed, p.those(j, isTerminating)...)
		p.Advance(26 * time.Second)
		p.shows(j, "active 2, failed 2")
	}}
}

// The end of a Job waits for its pods.
var endingCases = []behaviour{
	{
		name: "a Job is Failed when its pods have ended", after: "TestDelayTerminalPhaseCondition backoff limit exceeded",
		scenario: func(p *play) {
			j := p.begin(sized(2, 2), blocked, backoffLimit(0))
			p.meets(failed, p.active(j)[0])
			p.Settle()
			p.shows(j, "terminating 1, failed 2: FailureTarget BackoffLimitExceeded")
			p.meets(succeeded, p.those(j, isTerminating)...)
			p.Settle()
			p.shows(j, "failed 2"+overLimit)
		},
	},
	{
		name: "a Job is Complete when its pods have ended", after: "TestDelayTerminalPhaseCondition scale down to meet completions",
		scenario: func(p *play) {
			j := p.begin(indexed(2, 2), blocked)
			p.meets(succeeded, p.at(j, "0"))
			p.change(j, indexed(1, 1))
			p.Settle()
			p.shows(j, "terminating 1, succeeded 1, completed 0: SuccessCriteriaMet CompletionsReached")
			p.meets(succeeded, p.those(j, isTerminating)...)
			p.Settle()
			p.shows(j, "succeeded 1, completed 0"+complete)
		},
	},
	{
		name: "one of ten pods fails, and the controller restarts in between", after: "TestJobFailedWithInterrupts",
		scenario: func(p *play) {
			j := p.begin(sized(10, 10), onNode, backoffLimit(0))
			p.meets(failed, p.active(j)[0])
			for _, pod := range p.those(j, func(pod *corev1.Pod) bool { return !isFinished(pod) }) {
				p.meets(succeeded, pod)
			}
			p.restart()
			p.Settle()
			p.reread(j)
			if !has(j, batchv1.JobFailed) || j.Status.Failed+j.Status.Succeeded != 10 {
				p.fatalf("%s", statusText(&j.Status))
			}
		},
	},
	{
		name: "the finalizer is gone, and the count is not written yet", after: "TestTrackJobStatusAndRemoveFinalizers",
		scenario: func(p *play) {
			j := p.begin(sized(2, 2))
			pod := p.active(j)[0]
			down := p.dies("PATCH", "/pods/"+pod.Name)
			p.meets(succeeded, pod)
			down()
			p.reread(j)
			if u := j.Status.UncountedTerminatedPods; u == nil || len(u.Succeeded) != 1 || u.Succeeded[0] != pod.UID {
				p.fatalf("uncounted pods are %v", u)
			}
			p.leaves(pod)
			p.start()
			p.shows(j, "active 1, succeeded 1")
			p.meets(succeeded, p.active(j)...)
			p.Settle()
			p.shows(j, "succeeded 2"+complete)
		},
	},
	late("a stale Job does not cause another pod after a success", succeeded, "succeeded 1"+complete),
	late("a stale Job does not cause another pod after a failure", failed, "failed 1"+overLimit),
	{
		name: "a stale Job does not cause a second pod of an index", after: "TestDelayedJobUpdateEvent",
		scenario: func(p *play) {
			j := p.begin(indexed(2, 3))
			p.power.late.Store(int64(3 * time.Second))
			p.meets(succeeded, p.at(j, "0"))
			p.Advance(20 * time.Second)
			p.shows(j, "active 2, succeeded 1, completed 0")
			p.meets(succeeded, p.active(j)...)
			p.Advance(40 * time.Second)
			p.shows(j, "succeeded 3, completed 0-2"+complete)
			p.showsPods(j, "0 Succeeded; 1 Succeeded; 2 Succeeded")
		},
	},
	{
		name: "a deadline passes, and pods terminate slowly", after: "e2e: should fail when exceeds active deadline",
		scenario: func(p *play) {
			j := p.begin(sized(2, 2), onNode, func(s *batchv1.JobSpec) { s.ActiveDeadlineSeconds = ptr.To[int64](60) })
			p.Advance(70 * time.Second)
			p.shows(j, "terminating 2, failed 2: FailureTarget DeadlineExceeded")
			p.meets(succeeded, p.those(j, isTerminating)[0])
			p.pass()
			p.shows(j, "terminating 1, failed 2: FailureTarget DeadlineExceeded")
			p.leaves(p.those(j, isTerminating)...)
			p.Settle()
			p.shows(j, "failed 2: FailureTarget DeadlineExceeded, Failed DeadlineExceeded")
		},
	},
	{
		name: "a Job that has ended stays as it is", after: "e2e: should manage the lifecycle of a job",
		scenario: func(p *play) {
			j := p.begin(sized(1, 1))
			pod := p.active(j)[0]
			p.meets(succeeded, pod)
			p.Settle()
			p.leaves(pod)
			p.change(j, parallelism(3))
			p.restart()
			p.Settle()
			p.shows(j, "succeeded 1"+complete)
			p.showsPods(j, "")
		},
	},
	{
		name: "the pod is created, and the controller does not receive the answer",
		scenario: func(p *play) {
			down := p.dies("POST", "/pods")
			j := job(sized(1, 1))
			p.Create(j)
			down()
			p.start()
			p.shows(j, "active 1")
		},
	},
	{
		name: "the end is decided, and a new controller carries it out", after: "TestJobFailedWithInterrupts",
		scenario: func(p *play) {
			j := p.begin(sized(3, 3), onNode, backoffLimit(0))
			pod := p.active(j)[0]
			down := p.dies("DELETE", "/pods/")
			p.meets(failed, pod)
			down()
			p.reread(j)
			p.start()
			p.shows(j, "terminating 2, failed 3: FailureTarget BackoffLimitExceeded")
			p.leaves(p.those(j, isTerminating)...)
			p.Settle()
			p.shows(j, "failed 3"+overLimit)
		},
	},
}

// late finishes the one pod of a Job while events of Jobs are late.
func late(name string, f fate, want string) behaviour {
	return behaviour{name: name, after: "TestDelayedJobUpdateEvent", scenario: func(p *play) {
		j := p.begin(backoffLimit(0))
		p.power.late.Store(int64(3 * time.Second))
		p.meets(f, p.active(j)...)
		p.Advance(time.Minute)
		p.shows(j, want)
		if n := len(p.all(j)); n != 1 {
			p.fatalf("%d pods were created", n)
		}
	}}
}
