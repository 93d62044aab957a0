package expr

// Form says as which Go type the objects of a kind come.
type Form uint8

// The forms of objects.
const (
	Unstructured Form = iota // *unstructured.Unstructured
	Pod                      // *corev1.Pod
	Node                     // *corev1.Node
)
