package conformance

import (
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// threeRules ignore disruptions, count exit code 10 and fail the Job at 5, 6 and 7.
var threeRules = policy(
	onCondition(batchv1.PodFailurePolicyActionIgnore),
	onCodes(batchv1.PodFailurePolicyActionCount, 10),
	onCodes(batchv1.PodFailurePolicyActionFailJob, 5, 6, 7),
)

// Pod failure policies.
var failurePolicyCases = []behaviour{
	{
		name: "an exit code fails the Job", after: "TestJobPodFailurePolicy FailJob; e2e: should allow to use the pod failure policy on exit code to fail the job early",
		scenario: func(p *play) {
			j := p.begin(threeRules)
			p.meets(exits(5), p.active(j)...)
			p.Settle()
			p.shows(j, "failed 1"+byFailure)
			for _, c := range j.Status.Conditions {
				if !strings.HasSuffix(c.Message, " failed with exit code 5 matching FailJob rule at index 2") || !strings.HasPrefix(c.Message, "Container main for pod default/work-") {
					p.fatalf("%s says %q", c.Type, c.Message)
				}
			}
		},
	},
	{
		name: "an exit code fails the Job of several pods", after: "e2e: should allow to use the pod failure policy on exit code to fail the job early",
		scenario: func(p *play) {
			j := p.begin(sized(3, 3), onNode, threeRules)
			p.meets(exits(6), p.active(j)[0])
			p.pass()
			p.shows(j, "terminating 2, failed 3: FailureTarget PodFailurePolicy")
			p.meets(exits(137), p.those(j, isTerminating)...)
			p.Settle()
			p.shows(j, "failed 3"+byFailure)
		},
	},
	{
		name: "an exit code fails the Job, and a new controller observes it", after: "TestJobPodFailurePolicy with controller restart",
		scenario: func(p *play) {
			j := p.begin(threeRules)
			p.meets(exits(5), p.active(j)...)
			p.restart()
			p.Settle()
			p.shows(j, "failed 1"+byFailure)
		},
	},
	{
		name: "a disruption is not counted", after: "TestJobPodFailurePolicy Ignore; e2e: should allow to use a pod failure policy to ignore failure matching on DisruptionTarget condition",
		scenario: func(p *play) {
			j := p.begin(threeRules, backoffLimit(0))
			p.meets(disrupted, p.active(j)...)
			p.Settle()
			p.pass()
			p.shows(j, "active 1")
			p.meets(succeeded, p.active(j)...)
			p.Settle()
			p.shows(j, "succeeded 1"+complete)
			p.showsPods(j, "Failed; Succeeded")
		},
	},
	{
		name: "an exit code is not counted", after: "e2e: should allow to use a pod failure policy to ignore failure matching on exit code",
		scenario: func(p *play) {
			j := p.begin(sized(2, 2), backoffLimit(0), policy(onCodes(batchv1.PodFailurePolicyActionIgnore, 42)))
			p.meets(exits(42), p.active(j)[0])
			p.Settle()
			p.pass()
			p.shows(j, "active 2")
			p.meets(succeeded, p.active(j)...)
			p.Settle()
			p.shows(j, "succeeded 2"+complete)
		},
	},
	{
		name: "a failure is counted by a rule", after: "TestJobPodFailurePolicy Count",
		scenario: func(p *play) {
			j := p.begin(threeRules)
			p.meets(exits(10), p.active(j)...)
			p.Settle()
			p.pass()
			p.shows(j, "active 1, failed 1")
			p.meets(succeeded, p.active(j)...)
			p.Settle()
			p.shows(j, "succeeded 1, failed 1"+complete)
		},
	},
	{
		name: "a failure that no rule matches is counted", after: "TestJobPodFailurePolicy non-matching",
		scenario: func(p *play) {
			j := p.begin(threeRules)
			p.meets(exits(0), p.active(j)...)
			p.Settle()
			p.pass()
			p.shows(j, "active 1, failed 1")
		},
	},
	{
		name: "exit codes may be negative", after: "TestJobPodFailurePolicy negative exit code",
		scenario: func(p *play) {
			j := p.begin(policy(onCodes(batchv1.PodFailurePolicyActionFailJob, -1073741510, 137)))
			p.meets(exits(-1073741510), p.active(j)...)
			p.Settle()
			p.shows(j, "failed 1"+byFailure)
		},
	},
	{
		name: "NotIn, for one container", after: "TestMatchPodFailurePolicy",
		scenario: func(p *play) {
			j := p.begin(policy(batchv1.PodFailurePolicyRule{
				Action: batchv1.PodFailurePolicyActionFailJob,
				OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{
					ContainerName: ptr.To("main"), Operator: batchv1.PodFailurePolicyOnExitCodesOpNotIn, Values: []int32{3},
				},
			}))
			p.meets(exits(3), p.active(j)...)
			p.Settle()
			p.pass()
			p.shows(j, "active 1, failed 1")
			p.meets(exits(4), p.active(j)...)
			p.Settle()
			p.shows(j, "failed 2"+byFailure)
		},
	},
	{
		name: "a container that was restarted by its own rules does not trigger the policy", after: "e2e: containers restarted by container restart policy should not trigger PodFailurePolicy",
		scenario: func(p *play) {
			j := p.begin(policy(onCodes(batchv1.PodFailurePolicyActionFailJob, 42)))
			pod := p.active(j)[0]
			p.runs(pod)
			p.report(pod, func(s *corev1.PodStatus) {
				s.ContainerStatuses[0].RestartCount = 1
				s.ContainerStatuses[0].LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: 42}
			})
			p.pass()
			p.shows(j, "active 1, ready 1")
			p.meets(succeeded, pod)
			p.Settle()
			p.shows(j, "succeeded 1"+complete)
		},
	},
	{
		name: "the failed pod is gone before the Job is marked", after: "TestJobPodFailurePolicyWithFailedPodDeletedDuringControllerRestart",
		scenario: func(p *play) {
			j := p.begin(sized(3, 3), policy(onCodes(batchv1.PodFailurePolicyActionFailJob, 5)))
			pod := p.active(j)[1]
			down := p.dies("PATCH", "/pods/"+pod.Name)
			p.meets(exits(5), pod)
			down()
			p.Delete(pod)
			p.start()
			p.Settle()
			p.shows(j, "failed 3"+byFailure)
			p.showsPods(j, "")
		},
	},
}

// success sets a success policy of one rule.
func success(indexes string, count int32) func(*batchv1.JobSpec) {
	rule := batchv1.SuccessPolicyRule{}
	if indexes != "" {
		rule.SucceededIndexes = ptr.To(indexes)
	}
	if count > 0 {
		rule.SucceededCount = ptr.To(count)
	}
	return func(s *batchv1.JobSpec) {
		s.SuccessPolicy = &batchv1.SuccessPolicy{Rules: []batchv1.SuccessPolicyRule{rule}}
	}
}

// Success policies.
var successPolicyCases = []behaviour{
	{
		name: "all indexes succeed, by policy", after: "TestSuccessPolicy all indexes; e2e: with successPolicy should succeeded when all indexes succeeded",
		scenario: func(p *play) {
			j := p.begin(indexed(1, 1), success("0", 0))
			p.meets(succeeded, p.at(j, "0"))
			p.Settle()
			p.shows(j, "succeeded 1, completed 0"+byPolicy)
			if m := j.Status.Conditions[0].Message; m != "Matched rules at index 0" {
				p.fatalf("the message is %q", m)
			}
		},
	},
	{
		name: "the indexes of the rule succeed", after: "TestSuccessPolicy succeededIndexes; e2e: with successPolicy succeededIndexes rule should succeeded even when some indexes remain pending",
		scenario: func(p *play) {
			j := p.begin(indexed(2, 2), success("1", 0))
			p.meets(succeeded, p.at(j, "1"))
			p.Settle()
			p.shows(j, "succeeded 1, completed 1"+byPolicy)
			p.showsPods(j, "1 Succeeded")
		},
	},
	{
		name: "enough indexes succeed", after: "TestSuccessPolicy succeededCount; e2e: with successPolicy succeededCount rule should succeeded even when some indexes remain pending",
		scenario: func(p *play) {
			j := p.begin(indexed(3, 3), success("", 2))
			p.meets(succeeded, p.at(j, "1"))
			p.pass()
			p.shows(j, "active 2, succeeded 1, completed 1")
			p.meets(succeeded, p.at(j, "0"))
			p.Settle()
			p.shows(j, "succeeded 2, completed 0,1"+byPolicy)
		},
	},
	{
		name: "enough of the indexes of the rule succeed", after: "TestMatchSuccessPolicy",
		scenario: func(p *play) {
			j := p.begin(indexed(4, 4), success("0-2", 2))
			p.meets(succeeded, p.at(j, "0"))
			p.meets(succeeded, p.at(j, "3"))
			p.pass()
			p.shows(j, "active 2, succeeded 2, completed 0,3")
			p.meets(succeeded, p.at(j, "2"))
			p.Settle()
			p.shows(j, "succeeded 3, completed 0,2,3"+byPolicy)
		},
	},
	{
		name: "pods that still run are not failures, and delay the end", after: "TestSyncJobWithJobSuccessPolicy",
		scenario: func(p *play) {
			j := p.begin(indexed(2, 2), onNode, success("0", 0))
			p.meets(succeeded, p.at(j, "0"))
			p.pass()
			p.shows(j, "terminating 1, succeeded 1, completed 0: SuccessCriteriaMet SuccessPolicy")
			p.leaves(p.those(j, isTerminating)...)
			p.Settle()
			p.shows(j, "succeeded 1, completed 0"+byPolicy)
		},
	},
	{
		name: "without a policy the reason differs", after: "TestSuccessPolicy without successPolicy",
		scenario: func(p *play) {
			j := p.begin(indexed(1, 1))
			p.meets(succeeded, p.at(j, "0"))
			p.Settle()
			p.shows(j, "succeeded 1, completed 0"+complete)
		},
	},
	{
		name: "failed indexes precede the policy", after: "TestSuccessPolicy versus backoffLimitPerIndex",
		scenario: func(p *play) {
			j := p.begin(indexed(2, 2), perIndex(0), success("", 1))
			p.meets(failed, p.at(j, "0"))
			p.pass()
			p.shows(j, "active 1, failed 1, failed indexes 0")
			p.meets(succeeded, p.at(j, "1"))
			p.Settle()
			p.shows(j, "succeeded 1, failed 1, completed 1, failed indexes 0"+failedIndexes)
		},
	},
}
