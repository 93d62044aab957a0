package job

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/rehearse-k8s/rehearse/internal/workload"
)

// noon is the time of the first plan of each test case.
var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// newJob builds a Job from words: p=2 c=5 backoff=6, indexed, perindex=1, maxfailed=1, suspend,
// replace=Failed, deadline=10, deleting, restarts (OnFailure). Without c= it has no completions. Words for its
// status: started=15 (seconds ago), was-suspended, succeeded=1, failed=1, completed=0-2, failed-indexes=1,
// uncounted-succeeded=a,b uncounted-failed=c, and met=REASON or target=REASON for SuccessCriteriaMet and
// FailureTarget.
func newJob(words string, change ...func(*batchv1.Job)) *batchv1.Job {
	j := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pi", UID: "job", ResourceVersion: "1"},
		Spec: batchv1.JobSpec{
			Parallelism: ptr.To[int32](1), BackoffLimit: ptr.To[int32](6),
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"job": "pi"}},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"job": "pi"}},
				Spec:       corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "main"}}},
			},
		},
	}
	s := &j.Status
	uncounted := batchv1.UncountedTerminatedPods{}
	for word := range strings.FieldsSeq(words) {
		key, value, _ := strings.Cut(word, "=")
		n, _ := strconv.ParseInt(value, 10, 64)
		number := ptr.To(int32(n))
		switch key {
		case "p":
			j.Spec.Parallelism = number
		case "c":
			j.Spec.Completions = number
		case "backoff":
			j.Spec.BackoffLimit = number
		case "indexed":
			j.Spec.CompletionMode = ptr.To(batchv1.IndexedCompletion)
		case "perindex":
			j.Spec.BackoffLimitPerIndex = number
		case "maxfailed":
			j.Spec.MaxFailedIndexes = number
		case "suspend":
			j.Spec.Suspend = ptr.To(true)
		case "replace":
			j.Spec.PodReplacementPolicy = ptr.To(batchv1.PodReplacementPolicy(value))
		case "deadline":
			j.Spec.ActiveDeadlineSeconds = &n
		case "deleting":
			j.DeletionTimestamp = ptr.To(metav1.NewTime(noon))
		case "restarts":
			j.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyOnFailure
		case "started":
			s.StartTime = ptr.To(metav1.NewTime(noon.Add(-time.Duration(n) * time.Second)))
		case "was-suspended":
			s.Conditions = append(s.Conditions, condition(batchv1.JobSuspended, "JobSuspended", "Job suspended"))
		case "succeeded":
			s.Succeeded = *number
		case "failed":
			s.Failed = *number
		case "completed":
			s.CompletedIndexes = value
		case "failed-indexes":
			s.FailedIndexes = &value
		case "uncounted-succeeded":
			uncounted.Succeeded = uids(value)
		case "uncounted-failed":
			uncounted.Failed = uids(value)
		case "met":
			s.Conditions = append(s.Conditions, condition(batchv1.JobSuccessCriteriaMet, value, "met"))
		case "target":
			s.Conditions = append(s.Conditions, condition(batchv1.JobFailureTarget, value, "target"))
		default:
			panic("unknown word of a Job: " + word)
		}
	}
	if len(uncounted.Succeeded)+len(uncounted.Failed) > 0 {
		s.UncountedTerminatedPods = &uncounted
	}
	for _, f := range change {
		f(j)
	}
	return j
}

func condition(t batchv1.JobConditionType, reason, message string) batchv1.JobCondition {
	return batchv1.JobCondition{Type: t, Status: corev1.ConditionTrue, Reason: reason, Message: message, LastTransitionTime: metav1.NewTime(noon.Add(-time.Minute))}
}

func uids(text string) (all []types.UID) {
	for uid := range strings.SplitSeq(text, ",") {
		all = append(all, types.UID(uid))
	}
	return all
}

// newPod builds a pod of such a Job from words, first its UID if it has one ("a:"): the first letter of its
// phase (P, R, S, F, U), #0 for its index, ready, terminating, untracked (without the tracking finalizer),
// fails=1 ignored=1 (annotations), restarts=2, exit=5 init-exit=5 (codes), cond=DisruptionTarget (True; =False
// with !), marked (for removal), ago=20 (seconds since it finished; 1000 by default), age=5 (seconds since it
// was created), node, unmatched (labels that the selector does not match).
func newPod(n int, words string) *corev1.Pod {
	uid, rest, named := strings.Cut(words, ": ")
	if !named {
		uid, rest = fmt.Sprintf("uid-%d", n), words
	}
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: fmt.Sprintf("pod-%04d", n), UID: types.UID(uid), ResourceVersion: "7",
		Labels: map[string]string{"job": "pi"}, Finalizers: []string{batchv1.JobTrackingFinalizer},
		OwnerReferences:   []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: "pi", UID: "job", Controller: ptr.To(true)}},
		CreationTimestamp: metav1.NewTime(noon.Add(-2000 * time.Second)),
	}}
	annotate := func(key, value string) { p.Annotations = with(p.Annotations, key, value) }
	since := 1000
	exit := func(all *[]corev1.ContainerStatus, name string, code int) {
		*all = append(*all, corev1.ContainerStatus{Name: name, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: int32(code)}}})
	}
	for word := range strings.FieldsSeq(rest) {
		key, value, _ := strings.Cut(word, "=")
		number, _ := strconv.Atoi(value)
		switch {
		case len(word) == 1:
			p.Status.Phase = map[string]corev1.PodPhase{"P": corev1.PodPending, "R": corev1.PodRunning, "S": corev1.PodSucceeded, "F": corev1.PodFailed, "U": corev1.PodUnknown}[word]
		case word[0] == '#':
			annotate(batchv1.JobCompletionIndexAnnotation, word[1:])
		case word == "ready":
			p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue})
		case word == "terminating":
			p.DeletionTimestamp = ptr.To(metav1.NewTime(noon.Add(-1000 * time.Second)))
		case word == "untracked":
			p.Finalizers = nil
		case word == "marked":
			annotate(removalAnnotation, "true")
		case word == "node":
			p.Spec.NodeName = "node"
		case word == "unmatched":
			p.Labels = map[string]string{"job": "another"}
		case key == "fails":
			annotate(batchv1.JobIndexFailureCountAnnotation, value)
		case key == "ignored":
			annotate(batchv1.JobIndexIgnoredFailureCountAnnotation, value)
		case key == "restarts":
			p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{Name: "main", RestartCount: int32(number)})
		case key == "exit":
			exit(&p.Status.ContainerStatuses, "main", number)
		case key == "init-exit":
			exit(&p.Status.InitContainerStatuses, "init", number)
		case key == "cond":
			t, no := strings.CutPrefix(value, "!")
			status := corev1.ConditionTrue
			if no {
				status = corev1.ConditionFalse
			}
			p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.PodConditionType(t), Status: status})
		case key == "ago":
			since = number
		case key == "age":
			p.CreationTimestamp = metav1.NewTime(noon.Add(-time.Duration(number) * time.Second))
		default:
			panic("unknown word of a pod: " + word)
		}
	}
	if isFinished(p) {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{
			Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: metav1.NewTime(noon.Add(-time.Duration(since) * time.Second)),
		})
	}
	return p
}

// newPods builds pods from words, separated by commas; "3 R ready" are three.
func newPods(words string) (pods []*corev1.Pod) {
	for one := range strings.SplitSeq(words, ",") {
		one = strings.TrimSpace(one)
		if one == "" {
			continue
		}
		times := 1
		if first, rest, _ := strings.Cut(one, " "); first[0] >= '0' && first[0] <= '9' && !strings.HasSuffix(first, ":") {
			times, _ = strconv.Atoi(first)
			one = rest
		}
		for range times {
			pods = append(pods, newPod(len(pods), one))
		}
	}
	return pods
}

// atOnce returns limits without pauses and without a small batch.
func atOnce() Limits {
	l := DefaultLimits
	l.StatusPause, l.CountPause, l.Pods = 0, 0, 1000
	return l
}

// harness has a Job and its pods, and an API that applies a plan at once. No other actor changes anything:
// pods keep their phase, and deleted pods stay terminating.
type harness struct {
	t      *testing.T
	now    time.Time
	job    *batchv1.Job
	pods   []*corev1.Pod
	past   Past
	limits Limits

	created, removed, released int
	indexes                    []int
	events                     []string
	handled                    map[batchv1.PodFailurePolicyAction]int
	last                       Decision
}

func newHarness(t *testing.T, j *batchv1.Job, pods []*corev1.Pod) *harness {
	return &harness{t: t, now: noon, job: j, pods: pods, past: Past{Batch: 1000}, limits: atOnce(), handled: map[batchv1.PodFailurePolicyAction]int{}}
}

// step makes one plan and applies it. It reports whether the plan contained anything.
func (s *harness) step() bool {
	s.t.Helper()
	d := Plan(s.now, State{Job: s.job, Pods: s.pods, Past: s.past, Limits: s.limits})
	s.past, s.last = d.Past, d
	if d.Status != nil {
		next := s.job.DeepCopy()
		next.Status = *d.Status
		for _, why := range rejections(s.job, next) {
			s.t.Errorf("the API would reject the status: %s", why)
		}
		s.job = next
		for _, e := range d.Events {
			s.events = append(s.events, e.Reason)
		}
	}
	for action, n := range d.Tally.Handled {
		s.handled[action] += n
	}
	for i := range d.Actions {
		s.apply(&d.Actions[i])
	}
	slices.SortFunc(s.pods, func(a, b *corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	return d.Status != nil || len(d.Actions) > 0
}

// settle makes plans until one contains nothing to do at this time.
func (s *harness) settle() {
	s.t.Helper()
	for range 200 {
		if !s.step() {
			return
		}
	}
	s.t.Fatalf("200 plans were not enough: %+v", s.last.Reasons)
}

func (s *harness) apply(a *workload.Action) {
	pod := a.Object.(*corev1.Pod).DeepCopy()
	at := slices.IndexFunc(s.pods, func(p *corev1.Pod) bool { return p.Name == pod.Name })
	switch {
	case a.Verb == workload.Create:
		if at >= 0 {
			s.t.Fatalf("the name %s is taken", pod.Name)
		}
		pod.UID, pod.CreationTimestamp = types.UID(fmt.Sprintf("created-%d", s.created)), metav1.NewTime(s.now)
		pod.Status.Phase = corev1.PodPending
		s.created++
		if i := completionIndex(pod); i != noIndex {
			s.indexes = append(s.indexes, i)
		}
		s.pods = append(s.pods, pod)
		return
	case a.Verb == workload.Delete:
		s.removed++
		pod.DeletionTimestamp = ptr.To(metav1.NewTime(s.now))
	case bytes.Contains(a.Body(), []byte(`"finalizers"`)):
		pod.Finalizers = []string{batchv1.JobTrackingFinalizer}
		delete(pod.Annotations, removalAnnotation)
	case bytes.Contains(a.Body(), []byte("deleteFromPrimitiveList")):
		pod.Finalizers = nil
		if bytes.Contains(a.Body(), fmt.Appendf(nil, `%q:"true"`, removalAnnotation)) {
			pod.Annotations = with(pod.Annotations, removalAnnotation, "true")
		}
		if a.Then == nil {
			s.released++
		}
	}
	s.pods[at] = pod
	if a.Then != nil {
		then := *a.Then
		then.Object = pod
		s.apply(&then)
	}
}

// String returns the state in words, without what is zero.
func (s *harness) String() string {
	var out []string
	add := func(name string, n int) {
		if n != 0 {
			out = append(out, fmt.Sprintf("%s=%d", name, n))
		}
	}
	st := &s.job.Status
	add("active", int(st.Active))
	add("ready", int(ptr.Deref(st.Ready, 0)))
	add("terminating", int(ptr.Deref(st.Terminating, 0)))
	add("succeeded", int(st.Succeeded))
	add("failed", int(st.Failed))
	if st.CompletedIndexes != "" {
		out = append(out, "completed="+st.CompletedIndexes)
	}
	if st.FailedIndexes != nil {
		out = append(out, "failed-indexes="+*st.FailedIndexes)
	}
	if u := st.UncountedTerminatedPods; u != nil {
		add("uncounted", len(u.Succeeded)+len(u.Failed))
	}
	add("created", s.created)
	if s.indexes != nil {
		slices.Sort(s.indexes)
		out = append(out, strings.ReplaceAll(fmt.Sprint(s.indexes), " ", ","))
	}
	add("removed", s.removed)
	add("released", s.released)
	for _, c := range st.Conditions {
		text := string(c.Type)
		if c.Status != corev1.ConditionTrue {
			text += "=" + string(c.Status)
		}
		out = append(out, text+"("+c.Reason+")")
	}
	return strings.Join(out, " ")
}
