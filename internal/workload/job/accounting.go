package job

import (
	"encoding/json"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/rehearse-k8s/rehearse/internal/workload"
)

// count is phase three: it counts recorded pods that have lost the tracking finalizer.
func (p *plan) count() {
	u := ptr.Deref(p.status.UncountedTerminatedPods, batchv1.UncountedTerminatedPods{})
	left := func(recorded []types.UID) (tracked []types.UID) {
		for _, uid := range recorded {
			if p.trackedRecorded[uid] {
				tracked = append(tracked, uid)
			}
		}
		return tracked
	}
	succeeded, failed := left(u.Succeeded), left(u.Failed)
	newlySucceeded, newlyFailed := len(u.Succeeded)-len(succeeded), len(u.Failed)-len(failed)
	p.status.Succeeded += int32(newlySucceeded)
	p.status.Failed += int32(newlyFailed)
	p.status.UncountedTerminatedPods = &batchv1.UncountedTerminatedPods{Succeeded: succeeded, Failed: failed}
	p.counted = newlySucceeded + newlyFailed
	if p.counted > 0 {
		p.decision.Because("Counts", "%d recorded pods have lost the finalizer and are counted", p.counted)
	}
}

// track is phases one and two: it records finished pods, and releases those that the Job shows as
// recorded.
func (p *plan) track() {
	u := p.status.UncountedTerminatedPods
	room := p.Limits.Uncounted - len(u.Succeeded) - len(u.Failed)
	var succeeded, failed []*corev1.Pod
	for _, pod := range p.newSucceeded {
		if p.indexed() {
			succeeded = append(succeeded, pod)
		} else if room > 0 {
			u.Succeeded = append(u.Succeeded, pod.UID)
			succeeded = append(succeeded, pod)
			room--
		}
	}
	for _, pod := range p.newFailed {
		if room > 0 && !p.isLastFailed(pod) {
			u.Failed = append(u.Failed, pod.UID)
			failed = append(failed, pod)
			room--
		}
	}
	p.recorded = len(succeeded) + len(failed)
	if p.recorded > 0 {
		p.decision.Because("Records", "%d pods succeeded and %d failed: the status records them before they are released", len(succeeded), len(failed))
	}
	p.recordedFailures = failed
	p.trackIndexes()
	// Ignored failures are not recorded: the metrics count them when the pods are released.
	p.handled(batchv1.PodFailurePolicyActionIgnore, min(len(p.releasable)+len(p.releasableIgnored), p.Limits.Pods)-len(p.releasable))
	p.removeFinalizers(append(p.releasable, p.releasableIgnored...))
}

// trackIndexes writes the sets of indexes. They may shrink when completions does.
func (p *plan) trackIndexes() {
	if !p.indexed() {
		return
	}
	p.status.CompletedIndexes = p.succeededNow.String()
	p.status.Succeeded = int32(p.succeededNow.Len())
	if !ptr.Equal(p.job.Spec.Completions, p.job.Spec.Parallelism) {
		// The API accepts a lower number only if completions equals parallelism and may have been lowered.
		p.status.Succeeded = max(p.status.Succeeded, p.job.Status.Succeeded)
	}
	if p.perIndex() {
		p.status.FailedIndexes = ptr.To(p.failedNow.String())
	}
}

// tallyHandled counts, for metrics, the failures that this plan records by the action of the pod
// failure policy.
func (p *plan) tallyHandled() {
	if p.job.Spec.PodFailurePolicy == nil {
		return
	}
	for _, pod := range p.recordedFailures {
		if h := handle(p.job.Spec.PodFailurePolicy, pod); h.action != "" {
			p.handled(h.action, 1)
		}
	}
}

func (p *plan) handled(action batchv1.PodFailurePolicyAction, n int) {
	if n <= 0 {
		return
	}
	if p.decision.Tally.Handled == nil {
		p.decision.Tally.Handled = map[batchv1.PodFailurePolicyAction]int{}
	}
	p.decision.Tally.Handled[action] += n
}

// removeFinalizers removes the tracking finalizer from pods. For a pod that has neither
// finished nor been recorded, the write is for the observed version only: the pod may have
// succeeded meanwhile. For a Job that has ended or is being deleted, that does not matter.
func (p *plan) removeFinalizers(pods []*corev1.Pod) {
	over := p.job.DeletionTimestamp != nil || Ended(p.job)
	for _, pod := range pods[:min(len(pods), p.Limits.Pods)] {
		revision := ""
		if !over && !isFinished(pod) && !p.trackedRecorded[pod.UID] {
			revision = pod.ResourceVersion
		}
		p.decision.Act(workload.Action{
			Verb: workload.Patch, Object: pod, PatchType: types.StrategicMergePatchType, Patch: json.RawMessage(releasePatch(pod, revision)), Exact: revision != "",
			Reason: workload.Reason{Code: "Released", Text: "the result of the pod is recorded, or need not be"},
		})
		p.decision.Tally.Released++
	}
	if len(pods) > 0 {
		p.decision.Because("Releases", "%d pods that are recorded, or need not be, are released", len(pods))
	}
}
