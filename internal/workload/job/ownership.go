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

// claimOwnership adopts orphans that match the selector, releases pods that do not, and puts the
// tracking finalizer back on pods that finished before they could be deleted. If it returns true, it
// has decided the whole plan.
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
			p.own(pod, adoptPatch(p.job, pod), "Adopted", "the selector matches and the pod has no controller")
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

// Matcher returns a function that reports whether labels match the Job's selector.
func Matcher(j *batchv1.Job) (func(map[string]string) bool, error) {
	return workload.Matcher(j.Spec.Selector)
}

// Leftover returns the actions for pods that no Job counts, because theirs does not exist any more: the tracking finalizer
// would keep them forever. It is removed only from the observed version: another Job, with
// spec.manualSelector, may have adopted the pod since and needs the finalizer.
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
			Exact: true, Reason: workload.Reason{Code: "Unowned", Text: "no Job counts it"},
		})
	}
	return actions
}

// HasFinalizer reports whether a pod has the tracking finalizer.
func HasFinalizer(pod *corev1.Pod) bool { return hasFinalizer(pod) }

// FinishedWithFinalizer reports whether a pod has finished and has the tracking finalizer.
func FinishedWithFinalizer(pod *corev1.Pod) bool { return isFinished(pod) && hasFinalizer(pod) }

// cleanUp is the plan for a Job that has ended. It deletes active pods, which a controller created
// before it had observed the end; they do not count. Orphans that match are not adopted any more, so their
// finalizer is removed, as upstream's orphan workers do (pkg/controller/job, syncOrphanPod).
func (p *plan) cleanUp(ended *batchv1.JobCondition) Decision {
	var tracked, active []*corev1.Pod
	for _, pod := range p.Pods {
		switch {
		case isActive(pod) && p.job.DeletionTimestamp == nil:
			active = append(active, pod)
		case hasFinalizer(pod):
			tracked = append(tracked, pod)
		}
	}
	p.remove(active, "the Job has ended")
	p.removeFinalizers(tracked)
	p.releaseOrphans(func(*corev1.Pod) bool { return true })
	p.decision.Because("Ended", "the Job is %s; %d pods are left to be released or deleted", ended.Type, len(active)+len(tracked))
	return p.decision
}

// releaseOrphans removes the finalizer of orphans that match and that this Job will not adopt: it would keep them as long as the Job exists.
func (p *plan) releaseOrphans(which func(*corev1.Pod) bool) {
	match, err := Matcher(p.job)
	if err != nil {
		return
	}
	orphans := slices.DeleteFunc(slices.Clone(p.Orphans), func(pod *corev1.Pod) bool {
		return metav1.GetControllerOfNoCopy(pod) != nil || !match(pod.Labels) || !which(pod)
	})
	for _, a := range Leftover(orphans, p.Limits.Pods) {
		p.decision.Act(a)
	}
}

// releasePatch removes the tracking finalizer, only from one revision if one is given. It also removes
// the mark of a removal that was not carried out, or the pod would count twice. UIDs and revisions
// that the API creates need no escapes in JSON; %q is for those of other origin.
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
