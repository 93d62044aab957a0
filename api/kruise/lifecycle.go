package kruise

// LifecycleState is the value of LabelState on a pod.
type LifecycleState string

// The states, in order. A pod without the label is Normal.
const (
	StatePreparingNormal LifecycleState = "PreparingNormal"
	StateNormal          LifecycleState = "Normal"
	StatePreparingUpdate LifecycleState = "PreparingUpdate"
	StateUpdating        LifecycleState = "Updating"
	StateUpdated         LifecycleState = "Updated"
	StatePreparingDelete LifecycleState = "PreparingDelete"
)

// Lifecycle are the hooks of pods.
type Lifecycle struct {
	// PreDelete delays the deletion of a pod while the pod has a handler.
	PreDelete *LifecycleHook `json:"preDelete,omitempty"`
	// InPlaceUpdate delays the in-place update of a pod while the pod has a handler, and completes the update
	// when the pod has all handlers again.
	InPlaceUpdate *LifecycleHook `json:"inPlaceUpdate,omitempty"`
	// PreNormal delays a new pod until it has all handlers.
	PreNormal *LifecycleHook `json:"preNormal,omitempty"`
}

// LifecycleHook names the labels and finalizers (handlers) that another agent adds to a pod and removes.
type LifecycleHook struct {
	LabelsHandler     map[string]string `json:"labelsHandler,omitempty"`
	FinalizersHandler []string          `json:"finalizersHandler,omitempty"`
	// MarkPodNotReady takes the pod out of traffic while the hook delays it.
	MarkPodNotReady bool `json:"markPodNotReady,omitempty"`
}
