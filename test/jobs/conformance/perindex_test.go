package conformance

import (
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/utils/ptr"
)

func maxFailedIndexes(n int32) func(*batchv1.JobSpec) {
	return func(s *batchv1.JobSpec) { s.MaxFailedIndexes = ptr.To(n) }
}

// The conditions with which failed indexes end a Job, as text.
const (
	failedIndexes = ": FailureTarget FailedIndexes, Failed FailedIndexes"
	tooManyFailed = ": FailureTarget MaxFailedIndexesExceeded, Failed MaxFailedIndexesExceeded"
)

// Limits for each index.
var perIndexCases = []behaviour{
	{
		name: "every index succeeds", after: "TestBackoffLimitPerIndex job succeeded",
		scenario: func(p *play) {
			j := p.begin(indexed(2, 2), perIndex(1))
			p.reread(j)
			if j.Status.FailedIndexes == nil || *j.Status.FailedIndexes != "" {
				p.fatalf("failedIndexes is %v, want an empty text", j.Status.FailedIndexes)
			}
			p.meets(failed, p.at(j, "0"))
			p.Settle()
			p.pass()
			p.shows(j, "active 2, failed 1")
			p.meets(succeeded, p.active(j)...)
			p.Settle()
			p.shows(j, "succeeded 2, failed 1, completed 0,1"+complete)
		},
	},
	{
		name: "the failed pod stays until its successor has its count", after: "TestBackoffLimitPerIndex_DelayedPodDeletion",
		scenario: func(p *play) {
			j := p.begin(indexed(1, 1), perIndex(1))
			pod := p.at(j, "0")
			p.meets(failed, pod)
			p.Delete(pod)
			p.Advance(5 * time.Second)
			p.showsPods(j, "0 Failed, terminating, held")
			p.Advance(10 * time.Second)
			p.shows(j, "active 1, failed 1")
			p.showsPods(j, "0 Pending, 1 failures before, held")
			p.meets(succeeded, p.at(j, "0"))
			p.Settle()
			p.shows(j, "succeeded 1, failed 1, completed 0"+complete)
		},
	},
	{
		name: "failures that count and failures that are ignored", after: "e2e: should record the failure-count in the Pod annotation when using backoffLimitPerIndex",
		scenario: func(p *play) {
			j := p.begin(indexed(1, 1), perIndex(2), policy(onCondition(batchv1.PodFailurePolicyActionIgnore)))
			p.meets(disrupted, p.at(j, "0"))
			p.Advance(16 * time.Second)
			p.showsPods(j, "0 Failed; 0 Pending, 1 ignored before, held")
			p.meets(failed, p.at(j, "0"))
			p.Advance(26 * time.Second)
			p.showsPods(j, "0 Failed; 0 Failed, 1 ignored before; 0 Pending, 1 failures before, 1 ignored before, held")
			p.shows(j, "active 1, failed 1")
		},
	},
	{
		name: "each index waits for its own back-off", after: "TestBackoffLimitPerIndex_JobPodsCreatedWithExponentialBackoff",
		scenario: func(p *play) {
			j := p.begin(indexed(2, 2), perIndex(3))
			p.meets(failed, p.at(j, "0"))
			p.Advance(16 * time.Second)
			p.meets(failed, p.at(j, "0"))
			p.Advance(8 * time.Second)
			p.activeAt(j, "1")
			p.meets(failed, p.at(j, "1"))
			p.Advance(8 * time.Second)
			p.activeAt(j, "")
			p.Advance(4 * time.Second) // ten seconds after the failure of index 1, and twenty after that of 0
			p.Advance(4 * time.Second)
			p.activeAt(j, "0 1")
			p.meets(succeeded, p.active(j)...)
			p.Settle()
			p.shows(j, "succeeded 2, failed 3, completed 0,1"+complete)
		},
	},
	{
		name: "the Job continues after an index has failed", after: "TestBackoffLimitPerIndex continues after failed index; e2e: should execute all indexes despite some failing when using backoffLimitPerIndex",
		scenario: func(p *play) {
			j := p.begin(indexed(2, 3), perIndex(0))
			p.meets(failed, p.at(j, "0"))
			p.pass()
			p.shows(j, "active 2, failed 1, failed indexes 0")
			p.activeAt(j, "1 2")
			p.meets(succeeded, p.active(j)...)
			p.Settle()
			p.shows(j, "succeeded 2, failed 1, completed 1,2, failed indexes 0"+failedIndexes)
		},
	},
	{
		name: "an index fails after its last retry", after: "TestBackoffLimitPerIndex job failed due to exceeding per-index limit",
		scenario: func(p *play) {
			j := p.begin(indexed(1, 1), perIndex(1))
			p.fails(j, 10*time.Second)
			p.meets(failed, p.at(j, "0"))
			p.Settle()
			p.shows(j, "failed 2, failed indexes 0"+failedIndexes)
			p.showsPods(j, "0 Failed; 0 Failed, 1 failures before")
		},
	},
	{
		name: "the limit of the Job precedes", after: "TestBackoffLimitPerIndex job failed due to exceeding global limit",
		scenario: func(p *play) {
			j := p.begin(indexed(3, 3), perIndex(1), backoffLimit(1))
			p.meets(failed, p.at(j, "0"))
			p.Advance(3 * time.Second)
			p.meets(failed, p.at(j, "1"))
			p.Settle()
			p.Settle()
			p.shows(j, "failed 3"+overLimit)
		},
	},
	{
		name: "too many indexes have failed", after: "TestBackoffLimitPerIndex maxFailedIndexes; e2e: should terminate job execution when the number of failed indexes exceeds maxFailedIndexes",
		scenario: func(p *play) {
			j := p.begin(indexed(3, 3), perIndex(0), maxFailedIndexes(1))
			p.meets(failed, p.at(j, "0"))
			p.pass()
			p.shows(j, "active 2, failed 1, failed indexes 0")
			p.meets(failed, p.at(j, "1"))
			p.Settle()
			p.shows(j, "failed 3, failed indexes 0,1"+tooManyFailed)
			p.showsPods(j, "0 Failed; 1 Failed")
		},
	},
	{
		name: "the policy fails an index at once", after: "TestBackoffLimitPerIndex FailIndex; e2e: should mark indexes as failed when the FailIndex action is matched in podFailurePolicy",
		scenario: func(p *play) {
			j := p.begin(indexed(2, 2), perIndex(3), policy(onCodes(batchv1.PodFailurePolicyActionFailIndex, 13)))
			p.meets(exits(13), p.at(j, "1"))
			p.Settle()
			p.shows(j, "active 1, failed 1, failed indexes 1")
			p.meets(succeeded, p.at(j, "0"))
			p.Settle()
			p.shows(j, "succeeded 1, failed 1, completed 0, failed indexes 1"+failedIndexes)
		},
	},
	{
		name: "an index that has failed is out of range", after: "TestCalculateFailedIndexes",
		scenario: func(p *play) {
			j := p.begin(indexed(3, 3), perIndex(0))
			p.meets(failed, p.at(j, "2"))
			p.pass()
			p.shows(j, "active 2, failed 1, failed indexes 2")
			p.change(j, indexed(2, 2))
			p.pass()
			p.shows(j, "active 2, failed 1")
			p.meets(succeeded, p.active(j)...)
			p.Settle()
			p.shows(j, "succeeded 2, failed 1, completed 0,1"+complete)
		},
	},
	{
		name: "without its last failed pod, an index continues while others fail", after: "TestBackoffLimitPerIndex job with maxFailedIndexes",
		scenario: func(p *play) {
			j := p.begin(indexed(2, 2), perIndex(1), maxFailedIndexes(2), backoffLimit(10))
			p.meets(failed, p.active(j)...)
			p.Advance(16 * time.Second)
			p.shows(j, "active 2, failed 2")
			p.meets(failed, p.at(j, "0"))
			p.pass()
			p.shows(j, "active 1, failed 3, failed indexes 0")
			p.meets(succeeded, p.at(j, "1"))
			p.Settle()
			p.shows(j, "succeeded 1, failed 3, completed 1, failed indexes 0"+failedIndexes)
		},
	},
	{
		name: "the count of an index survives a restart of the controller",
		scenario: func(p *play) {
			j := p.begin(indexed(1, 1), perIndex(1))
			p.meets(failed, p.at(j, "0"))
			p.Advance(3 * time.Second)
			p.restart()
			p.Advance(15 * time.Second)
			p.showsPods(j, "0 Failed; 0 Pending, 1 failures before, held")
			p.restart()
			p.meets(failed, p.at(j, "0"))
			p.Settle()
			p.shows(j, "failed 2, failed indexes 0"+failedIndexes)
		},
	},
}
