package kruise

// GroupName is the API group of CloneSet.
const GroupName = "apps.kruise.io"

// Labels of pods, claims and CloneSets.
const (
	// LabelInstanceID is the same on a pod and on the claims that are its own.
	LabelInstanceID = "apps.kruise.io/cloneset-instance-id"
	// LabelSpecifiedDelete on a pod, with any value, asks that this one be deleted.
	LabelSpecifiedDelete = "apps.kruise.io/specified-delete"
	// LabelExcludePreparingDelete with "true" on a CloneSet has pods that wait for their
	// preDelete hook not counted as replicas.
	LabelExcludePreparingDelete = "apps.kruise.io/cloneset-scaling-exclude-preparing-delete"
	// LabelRevision is the name of the ControllerRevision that a pod was made of, or
	// updated to.
	LabelRevision = "controller-revision-hash"
	// LabelTemplateHash is that revision's hash alone.
	LabelTemplateHash = "pod-template-hash"
	// LabelState is where a pod is in its life (LifecycleState).
	LabelState = "lifecycle.apps.kruise.io/state"
)

// Annotations of pods.
const (
	// AnnotationStateSince is when LabelState was last written, as RFC 3339.
	AnnotationStateSince = "lifecycle.apps.kruise.io/timestamp"
	// AnnotationInPlaceState is the InPlaceUpdateState of a pod that was updated in place.
	AnnotationInPlaceState = "apps.kruise.io/inplace-update-state"
	// AnnotationInPlaceGrace is the change of spec that an in-place update has still to
	// make (InPlaceUpdateSpec). The pod is not ready already, and gets its grace period.
	AnnotationInPlaceGrace = "apps.kruise.io/inplace-update-grace"
	// AnnotationDeletionCost orders pods that are to be deleted (KEP-2255).
	AnnotationDeletionCost = "controller.kubernetes.io/pod-deletion-cost"
	// AnnotationLaunchPriority with LaunchOrdered on a pod has its containers launched in the
	// order in which the spec lists them.
	AnnotationLaunchPriority = "apps.kruise.io/container-launch-priority"
	LaunchOrdered            = "Ordered"
)

// Annotations of CloneSets that v1beta1 has fields for (InPlaceUpdateStrategy).
const (
	AnnotationPreDownloadParallelism         = "apps.kruise.io/image-predownload-parallelism"
	AnnotationPreDownloadTimeoutSeconds      = "apps.kruise.io/image-predownload-timeout-seconds"
	AnnotationPreDownloadMinUpdatedReadyPods = "apps.kruise.io/image-predownload-min-updated-ready-pods"
)

// AnnotationClaimsHash on a ControllerRevision is the hash of the claim templates that
// belong to it.
const AnnotationClaimsHash = "kruise.io/cloneset-volumeclaimtemplate-hash"

// Conditions of pods that are readiness gates.
const (
	// ConditionInPlaceUpdateReady is False while a pod is updated in place. Every pod of a
	// CloneSet has it as a readiness gate.
	ConditionInPlaceUpdateReady = "InPlaceUpdateReady"
	// ConditionPodReady is False while hooks with markPodNotReady keep a pod from traffic.
	// It has effect on pods that have it as a readiness gate.
	ConditionPodReady = "KruisePodReady"
)
