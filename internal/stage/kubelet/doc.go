// Package kubelet computes the status that a kubelet would report for a simulated pod.
//
// Each step of a pod's lifecycle is a Step: create, start, exit, restart and so on (StepNames). It changes the
// status of a working copy of the pod: containers, conditions and phase. The stages pod-fast, pod-general and
// pod-chaos say when a step happens; their templates call it, as {{ Kubelet "create" . }}. FirstExit, FirstRestart,
// Deadline and ConditionUntil say when the next step is due.
//
// It is not a kubelet: it runs nothing, keeps nothing between two steps and writes nothing. What it must remember
// it reads from the status, as the back-off of a container from its last termination.
//
// Floor: F1, pure. Imports api/kruise, k8s.io/api and apimachinery.
package kubelet
