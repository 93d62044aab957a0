package conformance

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// stepKinds are the kinds of steps; frequent ones are listed several times.
var stepKinds = []string{
	"runs", "runs", "succeeds", "succeeds", "succeeds", "fails", "fails", "fails", "fails", "is disrupted", "is disrupted", "is deleted", "restarts",
	"leaves", "leaves", "ends while it goes", "suspend or resume", "more at once", "another size", "nothing",
	"all succeed", "a new controller", "fails without a word", "fails before it begins",
	"less at once", "another limit", "another deadline", "loses its owner", "loses its labels",
}

// mostTicks is how long a Job that does not end is observed.
const mostTicks = 40

// play runs the script, and reports what the API shows before each step and what the step does. After the last
// step the Job is resumed and all pods succeed, one after the other.
func (s *script) play(p *play, report func(string)) {
	j := job()
	j.Spec = *s.spec.DeepCopy()
	began := p.Now()
	p.Create(j)
	for n := range mostTicks {
		p.Advance(began.Add(time.Duration(n+1) * tick).Sub(p.Now()))
		report(p.picture(j))
		if p.endsSuspended(j) {
			return
		}
		what := step{what: "leaves or succeeds"}
		if n < len(s.steps) {
			what = s.steps[n]
		}
		done := p.happens(j, what)
		report(fmt.Sprintf("%s: %s", p.Now().Sub(began).Round(time.Second), done))
		if n >= len(s.steps) && done == "nothing" && (has(j, batchv1.JobComplete) || has(j, batchv1.JobFailed)) {
			return
		}
	}
}

// endsSuspended reports whether upstream would never end the Job because its end was decided while it is
// suspended (see the differences).
func (p *play) endsSuspended(j *batchv1.Job) bool {
	return has(j, batchv1.JobSuspended) && (has(j, batchv1.JobFailureTarget) || has(j, batchv1.JobSuccessCriteriaMet))
}

// picture returns what the API shows, without what two controllers may do differently.
func (p *play) picture(j *batchv1.Job) string {
	p.reread(j)
	if p.endsSuspended(j) {
		return "it ends while it is suspended"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s; started %v, completed %v", statusText(&j.Status), j.Status.StartTime != nil, j.Status.CompletionTime != nil)
	pods := p.all(j)
	for _, c := range j.Status.Conditions {
		message := c.Message
		for _, pod := range pods {
			message = strings.ReplaceAll(message, pod.Name, "POD")
		}
		if !strings.Contains(message, "POD") && strings.Contains(message, "for pod") {
			message = "a pod that is gone"
		}
		fmt.Fprintf(&b, "\n  %s: %s", c.Type, message)
	}
	fmt.Fprintf(&b, "\n  pods: %s", podsText(pods))
	return b.String()
}

// ranked returns the pods of a Job that keep accepts, in an order in which only equal pods can be exchanged.
func (p *play) ranked(j *batchv1.Job, keep func(*corev1.Pod) bool) []*corev1.Pod {
	pods := p.those(j, keep)
	slices.SortStableFunc(pods, func(a, b *corev1.Pod) int {
		return cmp.Or(cmp.Compare(indexOf(a), indexOf(b)), cmp.Compare(a.Status.Phase, b.Status.Phase), a.CreationTimestamp.Compare(b.CreationTimestamp.Time))
	})
	return pods
}

// happens takes a step, and returns what was done.
func (p *play) happens(j *batchv1.Job, s step) string {
	switch s.what {
	case "all succeed":
		if j.Spec.SuccessPolicy != nil {
			return "nothing" // upstream observes all of them before it evaluates the policy, this controller the first one
		}
		pods := p.ranked(j, isActive)
		p.meets(succeeded, pods...)
		return fmt.Sprintf("%d pods succeed", len(pods))
	case "a new controller":
		if p.hasFailures(j) {
			return "nothing" // upstream would forget how long to wait
		}
		p.restart()
		return s.what
	case "suspend or resume", "more at once", "less at once", "another size", "another limit", "another deadline":
		return p.userDoes(j, s)
	case "leaves", "ends while it goes":
		return p.lastOf(j, s)
	case "leaves or succeeds":
		switch {
		case ptr.Deref(j.Spec.Suspend, false):
			return p.userDoes(j, step{what: "suspend or resume"})
		case *j.Spec.Parallelism == 0:
			return p.userDoes(j, step{what: "more at once"})
		}
		if done := p.lastOf(j, step{what: "leaves"}); done != "nothing" {
			return done
		}
		s.what = "succeeds"
	}
	pods := p.ranked(j, isActive)
	if len(pods) == 0 || s.what == "nothing" {
		return "nothing"
	}
	pod := pods[s.which%len(pods)]
	done := fmt.Sprintf("%s %s", strings.TrimSpace(indexOf(pod)+" "+string(pod.Status.Phase)), s.what)
	switch s.what {
	case "runs":
		p.runs(pod)
	case "succeeds":
		p.meets(succeeded, pod)
	case "fails":
		p.meets(exits(s.code), pod)
	case "fails without a word":
		if p.hasFailures(j) || ignores(j) {
			return "nothing" // upstream would wait from the creation of this pod on, or forget it
		}
		p.report(pod, func(s *corev1.PodStatus) { s.Phase = corev1.PodFailed })
	case "fails before it begins":
		if len(pod.Spec.InitContainers) == 0 || p.hasFailures(j) || ignores(j) {
			return "nothing" // it has no finish time either
		}
		p.report(pod, func(status *corev1.PodStatus) {
			status.Phase = corev1.PodFailed
			for _, c := range pod.Spec.InitContainers {
				status.ContainerStatuses = nil
				status.InitContainerStatuses = []corev1.ContainerStatus{{Name: c.Name, Image: c.Image, State: corev1.ContainerState{
					Terminated: &corev1.ContainerStateTerminated{ExitCode: s.code, FinishedAt: metav1.NewTime(p.Now())},
				}}}
			}
		})
	case "is disrupted":
		p.meets(disrupted, pod)
	case "is deleted":
		p.Delete(pod)
	case "loses its owner":
		p.orphan(pod)
	case "loses its labels":
		pod.Labels = nil
		p.Update(pod)
	case "restarts":
		if j.Spec.Template.Spec.RestartPolicy != corev1.RestartPolicyOnFailure {
			return "nothing"
		}
		p.restarts(pod, s.code)
	}
	return done
}

// hasFailures reports whether pods of a Job have failed, counted or not.
func (p *play) hasFailures(j *batchv1.Job) bool {
	return j.Status.Failed > 0 || len(p.those(j, func(pod *corev1.Pod) bool { return pod.Status.Phase == corev1.PodFailed })) > 0
}

// ignores reports whether some failures of a Job do not count.
func ignores(j *batchv1.Job) bool {
	return j.Spec.PodFailurePolicy != nil && slices.ContainsFunc(j.Spec.PodFailurePolicy.Rules, func(r batchv1.PodFailurePolicyRule) bool {
		return r.Action == batchv1.PodFailurePolicyActionIgnore
	})
}

// lastOf finishes a terminating pod.
func (p *play) lastOf(j *batchv1.Job, s step) string {
	all := p.those(j, func(pod *corev1.Pod) bool { return pod.DeletionTimestamp != nil && !hasFinalizer(pod) })
	if s.what == "leaves" && len(all) > 0 {
		slices.SortStableFunc(all, func(a, b *corev1.Pod) int {
			return cmp.Or(cmp.Compare(indexOf(a), indexOf(b)), cmp.Compare(a.Status.Phase, b.Status.Phase))
		})
		p.leaves(all[s.which%len(all)])
		return "a pod leaves"
	}
	going := p.ranked(j, isTerminating)
	if len(going) == 0 {
		return "nothing"
	}
	pod := going[s.which%len(going)]
	if s.code%2 == 0 {
		p.meets(succeeded, pod)
		return "one that goes succeeds"
	}
	p.meets(exits(s.code), pod)
	return "one that goes fails"
}

// userDoes changes the Job as the user.
func (p *play) userDoes(j *batchv1.Job, s step) string {
	if has(j, batchv1.JobComplete) || has(j, batchv1.JobFailed) {
		return "nothing"
	}
	spec := &j.Spec
	isIndexed := ptr.Deref(spec.CompletionMode, "") == batchv1.IndexedCompletion
	switch {
	case s.what == "suspend or resume":
		p.change(j, func(spec *batchv1.JobSpec) { spec.Suspend = ptr.To(!ptr.Deref(spec.Suspend, false)) })
		return fmt.Sprintf("suspended: %v", *j.Spec.Suspend)
	case s.what == "more at once":
		p.change(j, parallelism(*spec.Parallelism+1))
		return fmt.Sprintf("parallelism %d", *j.Spec.Parallelism)
	case s.what == "less at once":
		if isIndexed || *spec.Parallelism == 0 {
			return "nothing" // upstream chooses the index randomly
		}
		p.change(j, parallelism(*spec.Parallelism-1))
		return fmt.Sprintf("parallelism %d", *j.Spec.Parallelism)
	case s.what == "another limit":
		p.change(j, backoffLimit(s.code))
		return fmt.Sprintf("backoffLimit %d", s.code)
	case s.what == "another deadline":
		p.change(j, func(spec *batchv1.JobSpec) { spec.ActiveDeadlineSeconds = ptr.To(deadline(s.code * 3)) })
		return fmt.Sprintf("activeDeadlineSeconds %d", *j.Spec.ActiveDeadlineSeconds)
	case isIndexed && ptr.Equal(spec.Parallelism, spec.Completions) && spec.SuccessPolicy == nil && spec.MaxFailedIndexes == nil:
		size := int32(s.which)
		if spec.BackoffLimitPerIndex != nil {
			size = max(size, 1)
		}
		p.change(j, sized(size, size))
		return fmt.Sprintf("size %d", size)
	}
	return "nothing"
}
