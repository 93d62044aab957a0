package job

import (
	"math"
	"strconv"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// indexVariable is the environment variable that contains the index of a container's pod.
const indexVariable = "JOB_COMPLETION_INDEX"

// podFrom returns a pod of the Job's template. index is noIndex for Jobs that are not Indexed; before is the
// failed pod of the index that it replaces, nil if there was none.
func podFrom(j *batchv1.Job, name string, index int, before *corev1.Pod) *corev1.Pod {
	t := j.Spec.Template.DeepCopy()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: j.Namespace, Name: name,
			Labels: t.Labels, Annotations: t.Annotations, Finalizers: t.Finalizers,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(j, batchv1.SchemeGroupVersion.WithKind("Job"))},
		},
		Spec: t.Spec,
	}
	if !hasFinalizer(pod) {
		pod.Finalizers = append(pod.Finalizers, batchv1.JobTrackingFinalizer)
	}
	if index == noIndex {
		return pod
	}
	number := strconv.Itoa(index)
	pod.Labels = with(pod.Labels, batchv1.JobCompletionIndexAnnotation, number)
	pod.Annotations = with(pod.Annotations, batchv1.JobCompletionIndexAnnotation, number)
	pod.Spec.Hostname = j.Name + "-" + number
	for _, all := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range all {
			addIndexVariable(&all[i])
		}
	}
	if j.Spec.BackoffLimitPerIndex != nil {
		counted, ignored := failuresWith(j, before)
		pod.Annotations = with(pod.Annotations, batchv1.JobIndexFailureCountAnnotation, strconv.Itoa(counted))
		if ignored > 0 {
			pod.Annotations = with(pod.Annotations, batchv1.JobIndexIgnoredFailureCountAnnotation, strconv.Itoa(ignored))
		}
	}
	return pod
}

func with(m map[string]string, key, value string) map[string]string {
	if m == nil {
		m = map[string]string{}
	}
	m[key] = value
	return m
}

// addIndexVariable adds the variable, unless the template has one of that name.
func addIndexVariable(c *corev1.Container) {
	for i := range c.Env {
		if c.Env[i].Name == indexVariable {
			return
		}
	}
	c.Env = append(c.Env, corev1.EnvVar{Name: indexVariable, ValueFrom: &corev1.EnvVarSource{
		FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.labels['" + batchv1.JobCompletionIndexAnnotation + "']"},
	}})
}

// failuresWith returns the failures of an index including that of its last pod.
func failuresWith(j *batchv1.Job, last *corev1.Pod) (counted, ignored int) {
	if last == nil {
		return 0, 0
	}
	counted, ignored = indexFailures(last)
	if handle(j.Spec.PodFailurePolicy, last).counts() {
		return min(counted+1, math.MaxInt32), ignored
	}
	return counted, min(ignored+1, math.MaxInt32)
}
