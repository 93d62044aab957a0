package conformance

import (
	"fmt"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// What the API shows is compared as text, so that cases are readable.

// statusText returns a Job's status in a line, without times and UIDs: the numbers that are not zero and,
// after a colon, the conditions, with "=False" if one is not true, as in
//
//	active 1, failed 2: Suspended=False JobResumed
func statusText(s *batchv1.JobStatus) string {
	var numbers, conditions []string
	for _, n := range []struct {
		name  string
		value int32
	}{
		{"active", s.Active}, {"ready", ptr.Deref(s.Ready, 0)}, {"terminating", ptr.Deref(s.Terminating, 0)},
		{"succeeded", s.Succeeded}, {"failed", s.Failed},
	} {
		if n.value != 0 {
			numbers = append(numbers, fmt.Sprintf("%s %d", n.name, n.value))
		}
	}
	if s.CompletedIndexes != "" {
		numbers = append(numbers, "completed "+s.CompletedIndexes)
	}
	if ptr.Deref(s.FailedIndexes, "") != "" {
		numbers = append(numbers, "failed indexes "+*s.FailedIndexes)
	}
	if u := s.UncountedTerminatedPods; u != nil && len(u.Succeeded)+len(u.Failed) > 0 {
		numbers = append(numbers, fmt.Sprintf("uncounted %d", len(u.Succeeded)+len(u.Failed)))
	}
	for _, c := range s.Conditions {
		text := string(c.Type)
		if c.Status != corev1.ConditionTrue {
			text += "=" + string(c.Status)
		}
		if c.Reason != "" {
			text += " " + c.Reason
		}
		conditions = append(conditions, text)
	}
	text := strings.Join(numbers, ", ")
	if text == "" {
		text = "nothing"
	}
	if len(conditions) > 0 {
		text += ": " + strings.Join(conditions, ", ")
	}
	return text
}

// The conditions with which a Job ends, as text.
const (
	complete  = ": SuccessCriteriaMet CompletionsReached, Complete CompletionsReached"
	byPolicy  = ": SuccessCriteriaMet SuccessPolicy, Complete SuccessPolicy"
	overLimit = ": FailureTarget BackoffLimitExceeded, Failed BackoffLimitExceeded"
	byFailure = ": FailureTarget PodFailurePolicy, Failed PodFailurePolicy"
)

// shows compares a Job's status with the expected one and with its pods: the numbers of active and terminating
// pods must be right, a finished Job must have no pods with the finalizer, and times must be set exactly when
// they should be.
func (p *play) shows(j *batchv1.Job, want string) {
	p.reread(j)
	if got := statusText(&j.Status); got != want {
		p.fatalf("Job %s shows\n\t%s\nwant\n\t%s\npods: %s", j.Name, got, want, podsText(p.all(j)))
	}
	if active := len(p.active(j)); active != int(j.Status.Active) {
		p.fatalf("Job %s shows %d active pods; there are %d: %s", j.Name, j.Status.Active, active, podsText(p.all(j)))
	}
	if terminating := len(p.those(j, isTerminating)); terminating != int(ptr.Deref(j.Status.Terminating, 0)) {
		p.fatalf("Job %s shows %d terminating pods; there are %d: %s", j.Name, ptr.Deref(j.Status.Terminating, 0), terminating, podsText(p.all(j)))
	}
	ended := has(j, batchv1.JobComplete) || has(j, batchv1.JobFailed)
	if held := p.those(j, hasFinalizer); ended && len(held) > 0 {
		p.fatalf("Job %s has ended and pods have the finalizer: %s", j.Name, podsText(held))
	}
	if has(j, batchv1.JobComplete) != (j.Status.CompletionTime != nil) {
		p.fatalf("Job %s has the completion time %v: %s", j.Name, j.Status.CompletionTime, want)
	}
}

// showsPods compares the pods of a Job with the expected ones.
func (p *play) showsPods(j *batchv1.Job, want string) {
	if got := podsText(p.all(j)); got != want {
		p.fatalf("Job %s has the pods\n\t%s\nwant\n\t%s", j.Name, got, want)
	}
}

// activeAt compares the indexes of active pods with the expected ones: "0 2 3".
func (p *play) activeAt(j *batchv1.Job, want string) {
	var indexes []string
	for _, pod := range p.active(j) {
		indexes = append(indexes, indexOf(pod))
	}
	slices.Sort(indexes)
	if got := strings.Join(indexes, " "); got != want {
		p.fatalf("pods of Job %s are active for the indexes %q, want %q", j.Name, got, want)
	}
}

func has(j *batchv1.Job, t batchv1.JobConditionType) bool {
	return slices.ContainsFunc(j.Status.Conditions, func(c batchv1.JobCondition) bool {
		return c.Type == t && c.Status == corev1.ConditionTrue
	})
}

func hasFinalizer(pod *corev1.Pod) bool {
	return slices.Contains(pod.Finalizers, batchv1.JobTrackingFinalizer)
}

// podsText returns pods as text, in an order that does not depend on their names.
func podsText(pods []*corev1.Pod) string {
	texts := make([]string, 0, len(pods))
	for _, pod := range pods {
		texts = append(texts, podText(pod))
	}
	slices.Sort(texts)
	return strings.Join(texts, "; ")
}

// podText returns a pod as text: "1 Failed, 2 failures before, terminating, held"; held: it has the finalizer.
func podText(pod *corev1.Pod) string {
	text := string(pod.Status.Phase)
	if i := indexOf(pod); i != "" {
		text = i + " " + text
	}
	if n := pod.Annotations[batchv1.JobIndexFailureCountAnnotation]; n != "" && n != "0" {
		text += ", " + n + " failures before"
	}
	if n := pod.Annotations[batchv1.JobIndexIgnoredFailureCountAnnotation]; n != "" && n != "0" {
		text += ", " + n + " ignored before"
	}
	if pod.DeletionTimestamp != nil {
		text += ", terminating"
	}
	if hasFinalizer(pod) {
		text += ", held"
	}
	return text
}
