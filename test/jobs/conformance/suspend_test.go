package conformance

import (
	"context"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func resumed(s *batchv1.JobSpec) { s.Suspend = ptr.To(false) }

func needs(cpu string) func(*batchv1.JobSpec) {
	return func(s *batchv1.JobSpec) {
		s.Template.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
	}
}

// The conditions of a Job that was suspended or resumed, as text.
const (
	isSuspended = ": Suspended JobSuspended"
	isResumed   = ": Suspended=False JobResumed"
)

// Suspended Jobs, and the fields that may change in them.
var suspendCases = []behaviour{
	{
		name: "a Job is suspended", after: "TestSuspendJob; e2e: should delete pods when suspended",
		scenario: func(p *play) {
			j := p.begin(sized(2, 4), backoffLimit(0))
			p.shows(j, "active 2")
			p.change(j, suspended)
			p.pass()
			p.shows(j, "nothing"+isSuspended)
			p.showsPods(j, "")
		},
	},
	{
		name: "a Job is created suspended, and resumed", after: "TestSuspendJob; e2e: should not create pods when created in suspend state",
		scenario: func(p *play) {
			j := p.begin(sized(2, 4), suspended)
			p.shows(j, "nothing"+isSuspended)
			if j.Status.StartTime != nil {
				p.fatalf("it started at %s", j.Status.StartTime)
			}
			p.change(j, resumed)
			p.pass()
			p.shows(j, "active 2"+isResumed)
			if j.Status.StartTime == nil {
				p.fatalf("it has no start time")
			}
		},
	},
	{
		name: "the start time is that of the resumption", after: "TestStartTimeUpdateOnResume",
		scenario: func(p *play) {
			j := p.begin(sized(1, 2), func(s *batchv1.JobSpec) { s.ActiveDeadlineSeconds = ptr.To[int64](30) })
			p.reread(j)
			before := j.Status.StartTime
			p.change(j, suspended)
			p.pass()
			p.shows(j, "nothing"+isSuspended)
			if j.Status.StartTime != nil {
				p.fatalf("while suspended it started at %s", j.Status.StartTime)
			}
			p.Advance(60 * time.Second)
			p.change(j, resumed)
			p.pass()
			p.shows(j, "active 1"+isResumed)
			if j.Status.StartTime == nil || !before.Before(j.Status.StartTime) {
				p.fatalf("it started at %v, before at %s", j.Status.StartTime, before)
			}
			p.Advance(15 * time.Second)
			p.shows(j, "active 1"+isResumed)
		},
	},
	{
		name: "a suspended Job with zero completions is Complete", after: "TestSuspendJobWithZeroCompletions",
		scenario: func(p *play) {
			j := p.begin(sized(1, 0), suspended)
			p.Settle()
			p.reread(j)
			if !has(j, batchv1.JobComplete) || !has(j, batchv1.JobSuccessCriteriaMet) {
				p.fatalf("%s", statusText(&j.Status))
			}
		},
	},
	{
		name: "a suspended Job stays so under a new controller", after: "TestSuspendJobControllerRestart",
		scenario: func(p *play) {
			j := p.begin(sized(2, 4), suspended)
			p.restart()
			p.pass()
			p.shows(j, "nothing"+isSuspended)
			p.showsPods(j, "")
		},
	},
	{
		name: "successes stay counted over a pause", after: "e2e: should delete pods when suspended",
		scenario: func(p *play) {
			j := p.begin(indexed(2, 3))
			p.meets(succeeded, p.at(j, "1"))
			p.pass()
			p.change(j, suspended)
			p.pass()
			p.shows(j, "succeeded 1, completed 1"+isSuspended)
			p.change(j, resumed)
			p.pass()
			p.activeAt(j, "0 2")
			p.meets(succeeded, p.active(j)...)
			p.Settle()
			p.shows(j, "succeeded 3, completed 0-2: Suspended=False JobResumed, "+complete[2:])
		},
	},
	{
		name: "the node selector is changed while suspended", after: "TestNodeSelectorUpdate",
		scenario: func(p *play) {
			selecting := func(s *batchv1.JobSpec) { s.Template.Spec.NodeSelector = map[string]string{"disk": "ssd"} }
			j := p.begin(suspended)
			p.change(j, selecting)
			p.change(j, resumed)
			p.pass()
			if s := p.active(j)[0].Spec.NodeSelector; s["disk"] != "ssd" {
				p.fatalf("the pod has the selector %v", s)
			}
			p.rejected(j, func(s *batchv1.JobSpec) { s.Template.Spec.NodeSelector = nil })
		},
	},
	{
		name: "resources are changed before the start", after: "TestUpdateJobPodResources; TestMutablePodResourcesForSuspendedJobsNotYetStarted",
		scenario: func(p *play) {
			j := job(suspended, needs("1"))
			p.Create(j)
			p.change(j, needs("2")) // the controller has not observed the change yet
			p.pass()
			p.change(j, needs("3"))
			p.change(j, resumed)
			p.pass()
			p.requests(j, "3")
			p.rejected(j, needs("4"))
		},
	},
	{
		name: "resources are changed while suspended", after: "TestUpdateJobPodResources; e2e: should allow updating pod resources for a job that started and then was suspended",
		scenario: func(p *play) {
			j := p.begin(sized(2, 2), needs("1"), onNode)
			p.change(j, suspended)
			p.pass()
			p.shows(j, "terminating 2"+isSuspended)
			p.leaves(p.those(j, isTerminating)...)
			p.Settle()
			p.shows(j, "nothing"+isSuspended)
			p.change(j, needs("2"))
			p.change(j, resumed)
			p.pass()
			p.shows(j, "active 2"+isResumed)
			p.requests(j, "2")
		},
	},
	{
		name: "scheduling directives are changed while suspended", after: "TestMutableSchedulingDirectivesForSuspendedJobs",
		scenario: func(p *play) {
			j := p.begin(sized(1, 1))
			p.change(j, suspended)
			p.pass()
			p.change(j, func(s *batchv1.JobSpec) {
				s.Template.Labels["zone"] = "b"
				s.Template.Spec.Tolerations = []corev1.Toleration{{Key: "busy", Operator: corev1.TolerationOpExists}}
			})
			p.change(j, resumed)
			p.pass()
			if pod := p.active(j)[0]; pod.Labels["zone"] != "b" || pod.Spec.Tolerations[0].Key != "busy" {
				p.fatalf("labels %v, tolerations %v", pod.Labels, pod.Spec.Tolerations)
			}
		},
	},
	{
		name: "old pods are gone before new ones with other resources are created", after: "TestMutablePodResourcesWithPodReplacementPolicyFailed",
		scenario: func(p *play) {
			j := p.begin(sized(2, 2), needs("1"), onNode, replacing(batchv1.Failed))
			p.change(j, suspended)
			p.pass()
			p.shows(j, "terminating 2"+isSuspended)
			p.change(j, needs("2"))
			p.change(j, resumed)
			p.pass()
			p.shows(j, "terminating 2"+isResumed)
			p.leaves(p.those(j, isTerminating)[0])
			p.pass()
			p.shows(j, "active 1, terminating 1"+isResumed)
			p.leaves(p.those(j, isTerminating)...)
			p.pass()
			p.shows(j, "active 2"+isResumed)
			p.requests(j, "2")
		},
	},
}

// rejected checks that the API rejects a change of a Job.
func (p *play) rejected(j *batchv1.Job, how func(*batchv1.JobSpec)) {
	p.reread(j)
	how(&j.Spec)
	if _, err := p.client.BatchV1().Jobs(j.Namespace).Update(context.Background(), j, metav1.UpdateOptions{}); !apierrors.IsInvalid(err) {
		p.fatalf("the change was answered %v", err)
	}
}

// requests compares the CPU requests of active pods with the expected ones.
func (p *play) requests(j *batchv1.Job, want string) {
	for _, pod := range p.active(j) {
		if got := pod.Spec.Containers[0].Resources.Requests.Cpu().String(); got != want {
			p.fatalf("pod %s requests %s, want %s", pod.Name, got, want)
		}
	}
}
