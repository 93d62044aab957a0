package conformance

import (
	"context"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// Ownership of pods, and pods whose Job is gone.
var ownershipCases = []behaviour{
	{
		name: "pods are adopted and released", after: "e2e: should adopt matching orphans and release non-matching pods",
		scenario: func(p *play) {
			j := p.begin(sized(2, 2))
			pod := p.active(j)[0]
			p.orphan(pod)
			p.pass()
			p.Get(pod)
			if owner := metav1.GetControllerOf(pod); owner == nil || owner.UID != j.UID || !hasFinalizer(pod) {
				p.fatalf("the pod was not adopted: owners %v, finalizers %v", pod.OwnerReferences, pod.Finalizers)
			}
			p.shows(j, "active 2")
			pod.Labels = nil
			p.Update(pod)
			p.pass()
			p.Get(pod)
			if len(pod.OwnerReferences) != 0 || hasFinalizer(pod) {
				p.fatalf("the pod was not released: owners %v, finalizers %v", pod.OwnerReferences, pod.Finalizers)
			}
			p.shows(j, "active 2")
		},
	},
	{
		name: "a selector of the user's own", after: "TestGetPodsForJob",
		scenario: func(p *play) {
			labels := map[string]string{"work": "manual"}
			lone := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "lone", Labels: labels}, Spec: job().Spec.Template.Spec}
			p.Create(lone)
			j := p.begin(sized(2, 2), func(s *batchv1.JobSpec) {
				s.ManualSelector, s.Selector = ptr.To(true), &metav1.LabelSelector{MatchLabels: labels}
				s.Template.Labels = labels
			})
			p.shows(j, "active 2")
			p.Get(lone)
			if owner := metav1.GetControllerOf(lone); owner == nil || owner.UID != j.UID || !hasFinalizer(lone) {
				p.fatalf("the pod was not adopted: owners %v, finalizers %v", lone.OwnerReferences, lone.Finalizers)
			}
		},
	},
	deleted("Orphan", metav1.DeletePropagationOrphan),
	deleted("Background", metav1.DeletePropagationBackground),
	deleted("Foreground", metav1.DeletePropagationForeground),
	{
		name: "a Job is deleted while there is no controller", after: "TestOrphanPodsFinalizersClearedOnRestart",
		differs: &difference{
			what: "Pods whose Job was deleted while no controller ran", upstream: "keep the finalizer until something changes them", ours: "the controller releases them when it starts",
			why: "upstream's handler of new pods ignores pods whose Job does not exist; the garbage collector's delete triggers a sync",
		},
		scenario: func(p *play) {
			j := p.begin(sized(1, 1))
			p.stop()
			p.Delete(j)
			p.start()
			p.Settle()
			for _, pod := range p.pods() {
				if hasFinalizer(pod) != either(p, false, true) {
					p.fatalf("pod %s has the finalizer: %t", pod.Name, hasFinalizer(pod))
				}
			}
		},
	},
	{
		name: "a Job that is being deleted creates no pods", after: "TestControllerSyncJob",
		scenario: func(p *play) {
			j := job(sized(2, 2))
			j.Finalizers = []string{blocker}
			p.Create(j)
			p.pass()
			p.Delete(j)
			p.pass()
			p.meets(failed, p.active(j)[0])
			p.Advance(30 * time.Second)
			p.reread(j)
			if n := len(p.active(j)); n != 1 {
				p.fatalf("%d pods are active", n)
			}
			if held := p.those(j, func(pod *corev1.Pod) bool { return isFinished(pod) && hasFinalizer(pod) }); len(held) > 0 {
				p.fatalf("finished pods have the finalizer: %s", podsText(held))
			}
			j.Finalizers = nil
			p.Update(j)
			p.pass()
			for _, pod := range p.pods() {
				if hasFinalizer(pod) {
					p.fatalf("pod %s has the finalizer", pod.Name)
				}
			}
		},
	},
}

// deleted deletes a Job of two pods with a garbage collector in the world.
func deleted(name string, policy metav1.DeletionPropagation) behaviour {
	return behaviour{
		name: "a Job is deleted, " + name, after: "TestOrphanPodsFinalizersClearedWithGC; e2e: should delete a job; e2e: should remove pods when job is deleted", collects: true,
		scenario: func(p *play) {
			j := p.begin(sized(2, 2))
			p.shows(j, "active 2")
			p.must(p.client.BatchV1().Jobs(j.Namespace).Delete(context.Background(), j.Name, metav1.DeleteOptions{PropagationPolicy: &policy}))
			p.Settle()
			if p.Get(j) {
				p.fatalf("the Job is still there, with the finalizers %v", j.Finalizers)
			}
			left := p.pods()
			if policy != metav1.DeletePropagationOrphan && len(left) > 0 {
				p.fatalf("pods are left: %s", podsText(left))
			}
			if i := slices.IndexFunc(left, hasFinalizer); i >= 0 {
				p.fatalf("pod %s has the finalizer", left[i].Name)
			}
		},
	}
}

// orphan removes a pod's owner reference.
func (p *play) orphan(pod *corev1.Pod) {
	p.Get(pod)
	pod.OwnerReferences = nil
	p.Update(pod)
}

// pods returns all pods, of any owner.
func (p *play) pods() (pods []*corev1.Pod) {
	for _, u := range p.View().List("pods") {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: u.GetNamespace(), Name: u.GetName()}}
		p.Get(pod)
		pods = append(pods, pod)
	}
	return pods
}

const otherController = "example.com/job-controller"

func managedBy(name string) func(*batchv1.JobSpec) {
	return func(s *batchv1.JobSpec) { s.ManagedBy = ptr.To(name) }
}

// Jobs of other controllers.
var managedByCases = []behaviour{
	{
		name: "a Job that names the controller is reconciled", after: "TestManagedBy",
		scenario: func(p *play) { p.shows(p.begin(managedBy(batchv1.JobControllerName)), "active 1") },
	},
	{
		name: "a Job that names another controller is left alone", after: "TestManagedBy; e2e: should allow to delegate reconciliation to external controller",
		scenario: func(p *play) {
			other := job(managedBy(otherController), suspended)
			other.Name = "other"
			p.Create(other)
			j := p.begin(managedBy(otherController))
			p.shows(other, "nothing")
			p.shows(j, "nothing")
			p.showsPods(j, "")
			if j.Status.StartTime != nil {
				p.fatalf("it started at %s", j.Status.StartTime)
			}
		},
	},
	{
		name: "the same name, created again for another controller", after: "TestManagedBy_RecreatedJob",
		scenario: func(p *play) {
			j := p.begin(sized(1, 1))
			p.meets(succeeded, p.active(j)...)
			p.Delete(j)
			again := job(sized(1, 1), managedBy(otherController))
			p.Create(again)
			p.Settle()
			p.shows(again, "nothing")
			p.showsPods(again, "")
		},
	},
	{
		name: "pods of another controller keep their finalizer", after: "TestManagedBy_UsingReservedJobFinalizers",
		scenario: func(p *play) {
			j := job(managedBy(otherController))
			p.Create(j)
			pod := p.makes(j, "theirs")
			p.meets(succeeded, pod)
			p.report(pod, func(s *corev1.PodStatus) {
				s.Conditions = append(s.Conditions, corev1.PodCondition{Type: "Custom", Status: corev1.ConditionTrue})
			})
			j.Status.StartTime = ptr.To(metav1.NewTime(p.Now()))
			j.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobSuccessCriteriaMet, Status: corev1.ConditionTrue}}
			p.Update(j, "status")
			p.Settle()
			p.Get(pod)
			if !hasFinalizer(pod) {
				p.fatalf("the finalizer is gone")
			}
		},
	},
}

// makes creates a pod of a Job as another controller does, or as a late create of this one.
func (p *play) makes(j *batchv1.Job, name string) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: j.Spec.Template.Labels, Finalizers: []string{batchv1.JobTrackingFinalizer},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(j, batchv1.SchemeGroupVersion.WithKind("Job"))},
		},
		Spec: j.Spec.Template.Spec,
	}
	p.Create(pod)
	return pod
}
