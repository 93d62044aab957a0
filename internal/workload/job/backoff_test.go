package job

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func after(seconds int) time.Time { return noon.Add(time.Duration(seconds) * time.Second) }

// finishedIn returns a failed pod whose container finished so many seconds after noon.
func finishedIn(n, seconds int) *corev1.Pod {
	p := newPod(n, "F exit=1")
	p.Status.ContainerStatuses[0].State.Terminated.FinishedAt = metav1.NewTime(after(seconds))
	return p
}

// TestRecordOfFailures contains the cases of upstream's TestNewBackoffRecord; comments mark the differences.
func TestRecordOfFailures(t *testing.T) {
	for _, c := range []struct {
		name              string
		before            Past
		succeeded, failed []int // finish times in seconds after noon
		failures, last    int
	}{
		{name: "one failure", failed: []int{0}, failures: 1, last: 0},
		{name: "two", failed: []int{0, -1}, failures: 2, last: 0},
		{name: "two, then a success", failed: []int{-2, -1}, succeeded: []int{0}},
		{name: "a success, then two", failed: []int{0, -4, -3, -1}, succeeded: []int{-2}, failures: 2, last: 0},
		{name: "one more", before: Past{Failures: 2}, failed: []int{0}, failures: 3, last: 0},
		{name: "success and failure at the same time", failed: []int{0}, succeeded: []int{0}},
		{name: "nothing"},
		{name: "a success", succeeded: []int{0}},
		{name: "a success resets the count", before: Past{Failures: 3, LastFailure: after(-5)}, succeeded: []int{0}},
		// Upstream resets the count because it observes the success later.
		{name: "a success before the last failure, observed later", before: Past{Failures: 3, LastFailure: after(0)}, succeeded: []int{-5}, failures: 3, last: 0},
		{name: "an old failure does not move the last", before: Past{Failures: 1, LastFailure: after(0)}, failed: []int{-9}, failures: 2, last: 0},
	} {
		var succeeded, failed []*corev1.Pod
		for i, s := range c.succeeded {
			succeeded = append(succeeded, finishedIn(i, s))
		}
		for i, s := range c.failed {
			failed = append(failed, finishedIn(100+i, s))
		}
		held := append(append([]*corev1.Pod{}, succeeded...), failed...)
		got := c.before.with(succeeded, failed, held)
		if got.Failures != c.failures || c.failures > 0 && !got.LastFailure.Equal(after(c.last)) {
			t.Errorf("%s: %d failures, the last at %v; want %d, %v", c.name, got.Failures, got.LastFailure, c.failures, after(c.last))
		}
		if again := got.with(succeeded, failed, held); again.Failures != got.Failures || !again.LastFailure.Equal(got.LastFailure) {
			t.Errorf("%s: seen twice: %+v", c.name, again)
		}
	}
}

// TestFinishedAt contains the cases of upstream's TestGetFinishedTime.
func TestFinishedAt(t *testing.T) {
	done := func(seconds int) corev1.ContainerStatus {
		return corev1.ContainerStatus{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{FinishedAt: metav1.NewTime(after(seconds))}}}
	}
	named := func(name string, s corev1.ContainerStatus) corev1.ContainerStatus { s.Name = name; return s }
	running := corev1.ContainerStatus{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}
	withoutTime := corev1.ContainerStatus{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}}
	ready := func(is corev1.ConditionStatus, seconds int) corev1.PodCondition {
		return corev1.PodCondition{Type: corev1.PodReady, Status: is, LastTransitionTime: metav1.NewTime(after(seconds))}
	}
	type all = []corev1.ContainerStatus
	for _, c := range []struct {
		name       string
		containers all
		inits      all
		condition  *corev1.PodCondition
		deleted    *int
		grace      int64
		want       int
	}{
		{name: "the last container", containers: all{done(-1), done(0), done(-2)}, want: 0},
		{name: "one runs: the time of the deletion", containers: all{done(-1), running}, deleted: ptr.To(7), want: 7},
		{name: "less the grace period", containers: all{running}, deleted: ptr.To(7), grace: 30, want: -23},
		{name: "when it ceased to be ready", containers: all{withoutTime}, condition: ptr.To(ready(corev1.ConditionFalse, 3)), deleted: ptr.To(7), want: 3},
		{name: "not when it became ready", containers: all{withoutTime}, condition: ptr.To(ready(corev1.ConditionTrue, 3)), deleted: ptr.To(7), want: 7},
		{name: "when it was created", containers: all{withoutTime}, want: -2000},
		{name: "no status at all", want: -2000},
		{name: "a sidecar finishes last", containers: all{done(-1)}, inits: all{named("sidecar", done(0))}, want: 0},
		{name: "a sidecar runs", containers: all{done(-1)}, inits: all{named("sidecar", running)}, condition: ptr.To(ready(corev1.ConditionFalse, 3)), want: 3},
		{name: "init containers do not matter", containers: all{done(-1)}, inits: all{named("init", done(5))}, want: -1},
	} {
		p := newPod(0, "R")
		p.Spec.InitContainers = []corev1.Container{{Name: "init"}, {Name: "sidecar", RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways)}}
		p.Status.ContainerStatuses, p.Status.InitContainerStatuses = c.containers, c.inits
		if c.condition != nil {
			p.Status.Conditions = append(p.Status.Conditions, *c.condition)
		}
		if c.deleted != nil {
			p.DeletionTimestamp = ptr.To(metav1.NewTime(after(*c.deleted)))
			p.DeletionGracePeriodSeconds = &c.grace
		}
		if got := finishedAt(p); !got.Equal(after(c.want)) {
			t.Errorf("%s: %v, want %v", c.name, got, after(c.want))
		}
	}
}

// TestRemaining contains the cases of upstream's TestGetRemainingBackoffTime.
func TestRemaining(t *testing.T) {
	l := Limits{Backoff: 5 * time.Second, BackoffMax: 700 * time.Second}
	for _, c := range []struct{ failures, since, want int }{
		{0, 0, 0}, {1, 0, 5}, {1, 1, 4}, {1, 5, 0}, {1, 6, 0}, {2, 0, 10}, {3, 0, 20}, {8, 0, 640}, {9, 0, 700}, {90, 0, 700}, {1 << 30, 699, 1},
	} {
		if got := l.remaining(after(c.since), c.failures, noon); got != time.Duration(c.want)*time.Second {
			t.Errorf("%d failures, %ds since: %s, want %ds", c.failures, c.since, got, c.want)
		}
	}
}

// TestBackoffGrows checks, for a pod that fails again and again, that the wait doubles with each failure, that
// a restart of the controller loses only the failures whose pods are deleted, and that a success resets the
// wait.
func TestBackoffGrows(t *testing.T) {
	for _, restart := range []bool{false, true} {
		s := newHarness(t, newJob("p=1 c=9 backoff=99"), nil)
		var waited []string
		for n := range 8 {
			s.settle()
			last := s.pods[len(s.pods)-1]
			for i, p := range s.pods {
				if isActive(p) {
					s.pods[i] = p.DeepCopy()
					last = s.pods[i]
				}
			}
			last.Status.Phase = corev1.PodFailed
			if n == 5 {
				last.Status.Phase = corev1.PodSucceeded
			}
			last.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: metav1.NewTime(s.now)}}
			if restart {
				s.past = Past{Batch: 1000}
			}
			failed := s.now
			before := s.created
			for s.settle(); s.created == before; s.settle() {
				s.now = s.now.Add(s.last.Wake)
			}
			waited = append(waited, s.now.Sub(failed).String())
			s.now = s.now.Add(time.Second) // it runs for a second
		}
		if got, want := strings.Join(waited, " "), "10s 20s 40s 1m20s 2m40s 0s 10s 20s"; got != want {
			t.Errorf("restarts %t: waits %s, want %s", restart, got, want)
		}
	}
}
