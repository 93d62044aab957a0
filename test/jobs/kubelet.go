package jobs

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/rehearse-k8s/rehearse/examples/kubelet"
	"github.com/rehearse-k8s/rehearse/simtest"
)

// Outcome is what a pod does.
type Outcome = kubelet.Outcome

// Kubelet is a kubelet whose pods do what outcome returns for them. A pod is Running and ready as soon as it is observed.
func Kubelet(outcome func(*corev1.Pod) Outcome) simtest.Constructor { return kubelet.New(outcome) }
