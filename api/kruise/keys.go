package kruise

// GroupName is the API group of CloneSet.
const GroupName = "apps.kruise.io"

// Labels of pods, claims and CloneSets.
const (
	// LabelInstanceID has the same value on a pod and on its claims.
	LabelInstanceID = "apps.kruise.io/cloneset-instance-id"
	// LabelSpecifiedDelete on a pod, with any value, requests the deletion of this pod.
	LabelSpecifiedDelete = "apps.kruise.io/specified-delete"
	// LabelExcludePreparingDelete with "true" on a CloneSet: pods that wait for their preDelete hook do not
	// count as replicas.
	LabelExcludePreparingDelete = "apps.kruise.io/cloneset-scaling-exclude-preparing-delete"
	// LabelRevision is the name of the ControllerRevision from which a pod was created, or to which it was
	// updated.
	LabelRevision = "controller-revision-hash"
	// LabelTemplateHash is the hash of that revision.
	LabelTemplateHash = "pod-template-hash"
	// LabelState is the lifecycle state of a pod (LifecycleState).
	LabelState = "lifecycle.apps.kruise.io/state"
)

// Annotations of pods.
const (
	// AnnotationStateSince is the time of the last write of LabelState, in RFC 3339.
	AnnotationStateSince = "lifecycle.apps.kruise.io/timestamp"
	// AnnotationInPlaceState is the InPlaceUpdateState of a pod that was updated in place.
	AnnotationInPlaceState = "apps.kruise.io/inplace-update-state"
	// AnnotationInPlaceGrace is the change of the spec that an in-place update applies after the grace period
	// (InPlaceUpdateSpec). The pod is not ready during that period.
	AnnotationInPlaceGrace = "apps.kruise.io/inplace-update-grace"
	// AnnotationDeletionCost orders pods that are to be deleted (KEP-2255).
	AnnotationDeletionCost = "controller.kubernetes.io/pod-deletion-cost"
	// AnnotationLaunchPriority with LaunchOrdered on a pod: its containers are launched in the order of the
	// spec.
	AnnotationLaunchPriority = "apps.kruise.io/container-launch-priority"
	LaunchOrdered            = "Ordered"
)

// Annotations of CloneSets for which v1beta1 has fields (InPlaceUpdateStrategy).
const (
	AnnotationPreDownloadParallelism         = "apps.kruise.io/image-predownload-parallelism"
	AnnotationPreDownloadTimeoutSeconds      = "apps.kruise.io/image-predownload-timeout-seconds"
	AnnotationPreDownloadMinUpdatedReadyPods = "apps.kruise.io/image-predownload-min-updated-ready-pods"
)

// AnnotationClaimsHash on a ControllerRevision is the hash of its claim templates.
const AnnotationClaimsHash = "kruise.io/cloneset-volumeclaimtemplate-hash"

// Conditions of pods that are readiness gates.
const (
	// ConditionInPlaceUpdateReady is False while a pod is updated in place. Every pod of a CloneSet has it as
	// a readiness gate.
	ConditionInPlaceUpdateReady = "InPlaceUpdateReady"
	// ConditionPodReady is False while hooks with markPodNotReady keep a pod from traffic. It affects pods
	// that have it as a readiness gate.
	ConditionPodReady = "KruisePodReady"
)
