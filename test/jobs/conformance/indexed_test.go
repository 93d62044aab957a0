package conformance

import (
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// Indexed and elastic Jobs.
var indexedCases = []behaviour{
	{
		name: "each index gets a pod, a failed one another", after: "TestIndexedJob",
		scenario: func(p *play) {
			j := p.begin(indexed(3, 4))
			p.activeAt(j, "0 1 2")
			p.meets(succeeded, p.at(j, "1"))
			p.pass()
			p.shows(j, "active 3, succeeded 1, completed 1")
			p.activeAt(j, "0 2 3")
			p.meets(failed, p.at(j, "2"))
			p.Settle()
			p.pass()
			p.shows(j, "active 3, succeeded 1, failed 1, completed 1")
			p.activeAt(j, "0 2 3")
			p.meets(succeeded, p.active(j)...)
			p.Settle()
			p.shows(j, "succeeded 4, failed 1, completed 0-3"+complete)
		},
	},
	{
		name: "a pod knows its index", after: "e2e: should create pods for an Indexed job with completion indexes and specified hostname",
		scenario: func(p *play) {
			j := p.begin(indexed(2, 2), func(s *batchv1.JobSpec) {
				s.Template.Spec.InitContainers = []corev1.Container{{Name: "first", Image: "first"}}
			})
			for _, index := range []string{"0", "1"} {
				pod := p.at(j, index)
				if pod.Labels[batchv1.JobCompletionIndexAnnotation] != index || pod.Spec.Hostname != "work-"+index {
					p.fatalf("pod of index %s: labels %v, hostname %s", index, pod.Labels, pod.Spec.Hostname)
				}
				for _, c := range append(pod.Spec.InitContainers, pod.Spec.Containers...) {
					if len(c.Env) != 1 || c.Env[0].Name != "JOB_COMPLETION_INDEX" ||
						c.Env[0].ValueFrom.FieldRef.FieldPath != fmt.Sprintf("metadata.labels['%s']", batchv1.JobCompletionIndexAnnotation) {
						p.fatalf("container %s has the environment %v", c.Name, c.Env)
					}
				}
			}
		},
	},
	{
		name: "the fields of a pod", after: "TestCreatePodsWithGenerateName",
		scenario: func(p *play) {
			j := p.begin(func(s *batchv1.JobSpec) {
				s.Template.Labels = map[string]string{"app": "work"}
				s.Template.Annotations = map[string]string{"note": "mine"}
				s.Template.Finalizers = []string{blocker}
			})
			pod := p.active(j)[0]
			for key, want := range map[string]string{
				"app": "work", batchv1.JobNameLabel: "work", "job-name": "work",
				batchv1.ControllerUidLabel: string(j.UID), "controller-uid": string(j.UID),
			} {
				if pod.Labels[key] != want {
					p.fatalf("label %s is %q, want %q", key, pod.Labels[key], want)
				}
			}
			owner := pod.OwnerReferences[0]
			if len(pod.OwnerReferences) != 1 || owner.UID != j.UID || !ptr.Deref(owner.Controller, false) || !ptr.Deref(owner.BlockOwnerDeletion, false) {
				p.fatalf("owners %v", pod.OwnerReferences)
			}
			if pod.Annotations["note"] != "mine" || len(pod.Finalizers) != 2 || !hasFinalizer(pod) {
				p.fatalf("annotations %v, finalizers %v", pod.Annotations, pod.Finalizers)
			}
		},
	},
	{
		name: "a second pod of one index is removed", after: "TestControllerSyncJob",
		scenario: func(p *play) {
			j := p.begin(indexed(2, 2))
			p.runs(p.active(j)...)
			p.pass()
			again := p.at(j, "0").DeepCopy()
			again.Name, again.ResourceVersion, again.UID = "again", "", ""
			again.Status, again.Spec.Hostname = corev1.PodStatus{}, ""
			p.Create(again)
			p.pass()
			p.shows(j, "active 2, ready 2")
			p.activeAt(j, "0 1")
			p.showsPods(j, "0 Running, held; 1 Running, held")
		},
	},
	{
		name: "more indexes", after: "TestElasticIndexedJob scale up",
		scenario: func(p *play) {
			j := p.begin(indexed(3, 3))
			p.change(j, indexed(4, 4))
			p.pass()
			p.activeAt(j, "0 1 2 3")
			p.meets(succeeded, p.active(j)...)
			p.Settle()
			p.shows(j, "succeeded 4, completed 0-3"+complete)
		},
	},
	{
		name: "fewer indexes: failures stay counted, successes do not", after: "TestElasticIndexedJob scale down",
		scenario: func(p *play) {
			j := p.begin(indexed(3, 3))
			p.meets(succeeded, p.at(j, "1"))
			p.meets(failed, p.at(j, "2"))
			p.Settle()
			p.pass()
			p.shows(j, "active 2, succeeded 1, failed 1, completed 1")
			p.activeAt(j, "0 2")
			p.change(j, indexed(1, 1))
			p.pass()
			p.shows(j, "active 1, failed 1")
			p.activeAt(j, "0")
			p.meets(succeeded, p.at(j, "0"))
			p.Settle()
			p.shows(j, "succeeded 1, failed 1, completed 0"+complete)
		},
	},
	{
		name: "an index that was out of range runs again", after: "TestElasticIndexedJob scale down, scale up",
		scenario: func(p *play) {
			j := p.begin(indexed(3, 3))
			p.meets(succeeded, p.at(j, "2"))
			p.pass()
			p.shows(j, "active 2, succeeded 1, completed 2")
			p.change(j, indexed(2, 2))
			p.pass()
			p.shows(j, "active 2")
			p.change(j, indexed(3, 3))
			p.pass()
			p.shows(j, "active 3")
			p.meets(succeeded, p.active(j)...)
			p.Settle()
			p.shows(j, "succeeded 3, completed 0-2"+complete)
		},
	},
	{
		name: "no indexes are left", after: "TestElasticIndexedJob scale down to 0",
		scenario: func(p *play) {
			j := p.begin(indexed(3, 3))
			p.change(j, indexed(0, 0))
			p.Settle()
			p.shows(j, "nothing"+complete)
			p.showsPods(j, "")
		},
	},
}
