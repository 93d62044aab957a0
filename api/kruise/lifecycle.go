package kruise

// LifecycleState is the value of LabelState on a pod.
type LifecycleState string

// The states, in the order of a life. A pod without the label is Normal.
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
	// PreDelete holds a pod that is to be deleted while it has a handler.
	PreDelete *LifecycleHook `json:"preDelete,omitempty"`
	// InPlaceUpdate holds a pod that is to be updated in place while it has a handler, and
	// after the update until it has all of them again.
	InPlaceUpdate *LifecycleHook `json:"inPlaceUpdate,omitempty"`
	// PreNormal holds a new pod until it has all handlers.
	PreNormal *LifecycleHook `json:"preNormal,omitempty"`
}

// LifecycleHook is what somebody else puts on a pod and takes off it.
type LifecycleHook struct {
	LabelsHandler     map[string]string `json:"labelsHandler,omitempty"`
	FinalizersHandler []string          `json:"finalizersHandler,omitempty"`
	// MarkPodNotReady takes the pod out of traffic while the hook holds it.
	MarkPodNotReady bool `json:"markPodNotReady,omitempty"`
}
