package job

import (
	"encoding/json"
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rehearse-k8s/rehearse/internal/workload"
)

// claimOwnership adopts orphans that match, disowns pods that do not, and tracks pods again that finished
// before they could be deleted. It tells whether there was anything to do; then that is the
// whole plan.
func (p *plan) claimOwnership() bool {
	if p.job.DeletionTimestamp != nil {
		return false
	}
	match, err := Matcher(p.job)
	if err != nil {
		p.decision.Because("BadSelector", "the selector cannot be read: %s; the Job is left alone", err)
		return true
	}
	for _, pod := range p.Orphans {
		if pod.DeletionTimestamp == nil && metav1.GetControllerOfNoCopy(pod) == nil && match(pod.Labels) {
			p.own(pod, adoptPatch(p.job, pod), "Adopted", "the selector matches and nobody controls the pod")
		}
	}
	for _, pod := range p.Pods {
		switch {
		case !match(pod.Labels):
			p.own(pod, disownPatch(p.job, pod), "Disowned", "the selector does not match any more")
		case finishedBeforeDelete(pod):
			p.own(pod, trackAgainPatch(pod), "TrackedAgain", "it finished before it was deleted, and counts")
		}
	}
	p.decision.Recheck = len(p.decision.Actions) > 0
	return p.decision.Recheck
}

func (p *plan) own(pod *corev1.Pod, patch []byte, code, why string) {
	if len(p.decision.Actions) == p.Limits.Pods {
		return
	}
	reason := workload.Reason{Code: code, Text: fmt.Sprintf("pod %s: %s", pod.Name, why)}
	p.decision.Act(workload.Action{Verb: workload.Patch, Object: pod, PatchType: types.StrategicMergePatchType, Patch: json.RawMessage(patch), Exact: true, Reason: reason})
	p.decision.Reasons = append(p.decision.Reasons, reason)
}

// Matcher tells whether labels match the Job's selector.
func Matcher(j *batchv1.Job) (func(map[string]string) bool, error) {
	return workload.Matcher(j.Spec.Selector)
}

// Leftover is what is to be done with pods of a Job that does not exist any more: our
// finalizer would hold them for ever. It is removed only from the version that was seen: another
// Job, with spec.manualSelector, may have adopted the pod since and count on it.
func Leftover(pods []*corev1.Pod, most int) (actions []workload.Action) {
	for _, pod := range pods {
		if !hasFinalizer(pod) {
			continue
		}
		if len(actions) == most {
			break
		}
		actions = append(actions, workload.Action{
			Verb: workload.Patch, Object: pod, PatchType: types.StrategicMergePatchType, Patch: json.RawMessage(releasePatch(pod, pod.ResourceVersion)),
			Exact: true, Reason: workload.Reason{Code: "Released", Text: "its Job is gone"},
		})
	}
	return actions
}

// Held tells whether a pod waits for its Job controller.
func Held(pod *corev1.Pod) bool { return hasFinalizer(pod) }

// HeldFinished tells whether a pod has finished and waits for its Job controller.
func HeldFinished(pod *corev1.Pod) bool { return isFinished(pod) && hasFinalizer(pod) }

// cleanUp is the plan for a Job that has ended. A pod that turns up late, because it was
// made by somebody who had not seen the end, is removed; it counts for nothing.
func (p *plan) cleanUp(ended *batchv1.JobCondition) Decision {
	var held, active []*corev1.Pod
	for _, pod := range p.Pods {
		switch {
		case isActive(pod) && p.job.DeletionTimestamp == nil:
			active = append(active, pod)
		case hasFinalizer(pod):
			held = append(held, pod)
		}
	}
	p.remove(active, "the Job has ended")
	p.removeFinalizers(held)
	p.decision.Because("Ended", "the Job is %s; %d pods are left to be tidied up", ended.Type, len(active)+len(held))
	return p.decision
}

// releasePatch removes our finalizer, and names a revision if it is to be for that one
// only. A mark of a removal that was not carried out goes too, or the pod would count twice. UIDs and revisions are JSON strings without anything to escape, as the API
// makes them; %q is for those that somebody else made.
func releasePatch(pod *corev1.Pod, revision string) []byte {
	unmark := ""
	if pod.Annotations[removalAnnotation] != "" {
		unmark = fmt.Sprintf(`"annotations":{%q:null},`, removalAnnotation)
	}
	return fmt.Appendf(nil, `{"metadata":{"uid":%q%s,%s"$deleteFromPrimitiveList/finalizers":[%q]}}`, pod.UID, revisionField(revision), unmark, batchv1.JobTrackingFinalizer)
}

func adoptPatch(j *batchv1.Job, pod *corev1.Pod) []byte {
	return fmt.Appendf(nil, `{"metadata":{"uid":%q%s,"ownerReferences":[{"apiVersion":"batch/v1","kind":"Job","name":%q,"uid":%q,"controller":true,"blockOwnerDeletion":true}],"finalizers":[%q]}}`,
		pod.UID, revisionField(pod.ResourceVersion), j.Name, j.UID, batchv1.JobTrackingFinalizer)
}

func disownPatch(j *batchv1.Job, pod *corev1.Pod) []byte {
	finalizers := ""
	if slices.Contains(pod.Finalizers, batchv1.JobTrackingFinalizer) {
		finalizers = fmt.Sprintf(`,"$deleteFromPrimitiveList/finalizers":[%q]`, batchv1.JobTrackingFinalizer)
	}
	return fmt.Appendf(nil, `{"metadata":{"uid":%q%s,"ownerReferences":[{"$patch":"delete","uid":%q}]%s}}`,
		pod.UID, revisionField(pod.ResourceVersion), j.UID, finalizers)
}

func revisionField(revision string) string {
	if revision == "" {
		return ""
	}
	return fmt.Sprintf(`,"resourceVersion":%q`, revision)
}
