package jobs

import (
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/invariant"
	"github.com/rehearse-k8s/rehearse/invariant/job"
	"github.com/rehearse-k8s/rehearse/simtest"
	"github.com/rehearse-k8s/rehearse/test/family"
)

// Actor is the name of the controller in every scenario, for patterns of faults.
const Actor = "job"

// Timeout is how long a Job may take to end after the last fault. The back-off after failures of pods can
// reach 10 minutes; in no scenario do pods fail so often.
const Timeout = 15 * time.Minute

// jobName is the name of the Job in every scenario.
const jobName = "pi"

// begin adds to a world what every scenario has: the controller, the kubelet and the invariants.
func begin(w *simtest.World, c simtest.Constructor, outcome func(*corev1.Pod) Outcome) {
	invariants := job.Invariants(invariant.Owner{Kind: "Job", Namespace: metav1.NamespaceDefault, Name: jobName})
	w.AllowDifferentOutcomes() // the invariants define the correct final state
	w.RequireObservedWrites()
	w.Always(invariants.Always...)
	w.Eventually(Timeout, invariants.AtQuiescence)
	w.Controller(Actor, c)
	w.Controller("kubelet", Kubelet(outcome))
}

// jobOf returns a Job with a spec, completed by fields that no scenario is about.
func jobOf(spec batchv1.JobSpec) *batchv1.Job {
	grace := int64(5)
	spec.Template = corev1.PodTemplateSpec{Spec: corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever, NodeName: "node", TerminationGracePeriodSeconds: &grace,
		Containers: []corev1.Container{{Name: "main", Image: "pi"}},
	}}
	return &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: jobName, Namespace: metav1.NamespaceDefault}, Spec: spec}
}

// AnyFault returns the patterns of all legal faults of the controller, except a second concurrent instance:
// Job controllers rely on one leader at a time.
func AnyFault() []fault.Fault { return family.AnyFault(Actor) }

// LongLags returns the patterns of the races, with events that are late for longer than controllers usually
// wait: a search of few runs finds more with them.
func LongLags() []fault.Fault {
	const late = 40 * time.Second
	return []fault.Fault{
		{Kind: fault.KindLag, Actor: Actor, Resource: "jobs.batch", For: late},
		{Kind: fault.KindLag, Actor: Actor, Resource: "pods", For: late},
		{Kind: fault.KindLostAnswer, Actor: Actor},
		{Kind: fault.KindCrash, Actor: Actor},
	}
}
