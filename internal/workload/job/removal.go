package job

import (
	"encoding/json"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rehearse-k8s/rehearse/internal/workload"
)

// An active pod that the Job does not want any more is removed by two writes: the first removes the
// tracking finalizer, so that the pod does not count as failed, and the second deletes the pod.
// Between them the pod may finish; then the second write, which is for the version that the first
// has created, is rejected, or a crash prevents it. So the first write marks the pod: a pod that has
// the mark, has finished and is not being deleted gets its finalizer back and is counted. Without
// the mark it would look like a pod that is already counted.

// removalAnnotation marks pods that lost the tracking finalizer before they had finished.
const removalAnnotation = "rehearse-k8s.github.io/job-removal"

// markedForRemoval reports whether a pod lost the tracking finalizer in order to be deleted.
func markedForRemoval(p *corev1.Pod) bool {
	return p.Annotations[removalAnnotation] != "" && !hasFinalizer(p)
}

// finishedBeforeDelete reports whether a pod finished between the two writes of its removal.
func finishedBeforeDelete(p *corev1.Pod) bool {
	return isFinished(p) && p.DeletionTimestamp == nil && markedForRemoval(p)
}

// remove removes active pods without counting them as failed. Each write is for the observed version
// of the pod only.
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

// removalPatch is the first write of a removal. It does not mark a pod that is already recorded (its
// phase changed back, kubernetes #125410), because the record counts it, nor a pod of a Job that has
// ended, because no pod changes its result.
func (p *plan) removalPatch(pod *corev1.Pod) json.RawMessage {
	if p.trackedRecorded[pod.UID] || Ended(p.job) {
		return releasePatch(pod, pod.ResourceVersion)
	}
	return fmt.Appendf(nil, `{"metadata":{"uid":%q%s,"annotations":{%q:"true"},"$deleteFromPrimitiveList/finalizers":[%q]}}`,
		pod.UID, revisionField(pod.ResourceVersion), removalAnnotation, batchv1.JobTrackingFinalizer)
}

// trackAgainPatch adds the tracking finalizer to a pod again and removes the mark.
func trackAgainPatch(pod *corev1.Pod) []byte {
	return fmt.Appendf(nil, `{"metadata":{"uid":%q%s,"annotations":{%q:null},"finalizers":[%q]}}`,
		pod.UID, revisionField(pod.ResourceVersion), removalAnnotation, batchv1.JobTrackingFinalizer)
}
