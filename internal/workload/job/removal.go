package job

import (
	"encoding/json"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rehearse-k8s/rehearse/internal/workload"
)

// An active pod that the Job does not want any more is removed by two writes: the first takes
// our finalizer away, so that its end is no failure, and the second deletes it. Between the two it
// may finish by itself; then the second, which is for the version that the first has left, is
// rejected, or a crash leaves it out. The first write therefore marks the pod: one that
// bears the mark, has finished and is not being deleted gets its finalizer back and is counted
// like any other. Without the mark it could not be told from a pod that is counted already.

// removalAnnotation marks pods that lost our finalizer although they had not finished.
const removalAnnotation = "rehearse-k8s.github.io/job-removal"

// markedForRemoval tells whether a pod lost our finalizer because it was to be deleted.
func markedForRemoval(p *corev1.Pod) bool {
	return p.Annotations[removalAnnotation] != "" && !hasFinalizer(p)
}

// finishedBeforeDelete tells whether a pod finished between the two writes of its removal.
func finishedBeforeDelete(p *corev1.Pod) bool {
	return isFinished(p) && p.DeletionTimestamp == nil && markedForRemoval(p)
}

// remove removes active pods that are no failures, and only pods that are as they were when this
// was decided.
func (p *plan) remove(pods []*corev1.Pod, why string) {
	for _, pod := range pods[:min(len(pods), p.Limits.Pods)] {
		reason := workload.Reason{Code: "SuccessfulDelete", Text: why}
		gone := workload.Action{Verb: workload.Delete, Object: pod, Exact: true, Reason: reason}
		if hasFinalizer(pod) {
			p.decision.Act(workload.Action{
				Verb: workload.Patch, Object: pod, PatchType: types.StrategicMergePatchType, Patch: p.removalPatch(pod),
				Exact: true, Then: &gone, Reason: reason,
			})
		} else {
			p.decision.Act(gone)
		}
		p.decision.Tally.Removed++
	}
	if len(pods) > 0 {
		p.decision.Because("Removes", "%s: %d active pods are removed", why, len(pods))
	}
}

// removalPatch is the first write of a removal. A pod that is recorded already (its phase
// changed back, kubernetes #125410) is counted by that record, and the end of a Job that has
// ended is not changed by any pod: neither is marked.
func (p *plan) removalPatch(pod *corev1.Pod) json.RawMessage {
	if p.trackedRecorded[pod.UID] || Ended(p.job) {
		return releasePatch(pod, pod.ResourceVersion)
	}
	return fmt.Appendf(nil, `{"metadata":{"uid":%q%s,"annotations":{%q:"true"},"$deleteFromPrimitiveList/finalizers":[%q]}}`,
		pod.UID, revisionField(pod.ResourceVersion), removalAnnotation, batchv1.JobTrackingFinalizer)
}

// trackAgainPatch gives a pod our finalizer back and takes the mark away.
func trackAgainPatch(pod *corev1.Pod) []byte {
	return fmt.Appendf(nil, `{"metadata":{"uid":%q%s,"annotations":{%q:null},"finalizers":[%q]}}`,
		pod.UID, revisionField(pod.ResourceVersion), removalAnnotation, batchv1.JobTrackingFinalizer)
}
