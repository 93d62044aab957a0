package kubeletapi

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestLogInstance: the run that a request selects, or a kubelet's error, for each state of a container.
func TestLogInstance(t *testing.T) {
	at := func(minute int) metav1.Time { return metav1.NewTime(time.Date(2027, 3, 1, 9, minute, 0, 0, time.UTC)) }
	runs := corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: at(2)}}
	ended := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{StartedAt: at(1)}}
	waits := func(reason string) corev1.ContainerState {
		return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}
	}
	for name, c := range map[string]struct {
		phase       corev1.PodPhase
		state, last corev1.ContainerState
		absent      bool
		previous    bool
		minute      int
		running     bool
		err         string
	}{
		"running":                   {state: runs, minute: 2, running: true},
		"running after a restart":   {state: runs, last: ended, minute: 2, running: true},
		"previous":                  {state: runs, last: ended, previous: true, minute: 1},
		"no previous":               {state: runs, previous: true, err: `previous terminated container "c" in pod "p" not found`},
		"terminated":                {state: ended, minute: 1},
		"waits for a restart":       {state: waits("CrashLoopBackOff"), last: ended, minute: 1},
		"image":                     {state: waits("ErrImagePull"), err: `container "c" in pod "p" is waiting to start: image can't be pulled`},
		"creating":                  {state: waits("ContainerCreating"), err: `container "c" in pod "p" is waiting to start: ContainerCreating`},
		"no state":                  {err: `container "c" in pod "p" is waiting to start - no logs yet`},
		"no status":                 {absent: true, phase: corev1.PodPending, err: `container "c" in pod "p" is not available`},
		"only a phase":              {absent: true, phase: corev1.PodRunning, minute: 5, running: true},
		"only a final phase":        {absent: true, phase: corev1.PodSucceeded, minute: 5},
		"running in a failed pod":   {phase: corev1.PodFailed, state: runs, minute: 2},
		"previous without a status": {absent: true, previous: true, phase: corev1.PodRunning, err: `previous terminated container "c" in pod "p" not found`},
	} {
		start := at(5)
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Status: corev1.PodStatus{Phase: c.phase, StartTime: &start}}
		if !c.absent {
			pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "c", State: c.state, LastTerminationState: c.last}}
		}
		got, err := logInstance(pod, "c", c.previous)
		if c.err != "" {
			if err == nil || err.Error() != c.err {
				t.Errorf("%s: got %+v, %v, want %s", name, got, err, c.err)
			}
			continue
		}
		if want := at(c.minute); err != nil || !got.started.Equal(want.Time) || got.running != c.running {
			t.Errorf("%s: got %+v, %v", name, got, err)
		}
	}
}

// TestInstanceRuns: a run goes on until its container terminates or restarts, or its pod ends or is replaced.
func TestInstanceRuns(t *testing.T) {
	pod := func(change func(*corev1.Pod)) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u"}, Status: corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{
			{Name: "c", RestartCount: 1, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}},
		}}}
		change(p)
		return p
	}
	for name, c := range map[string]struct {
		change func(*corev1.Pod)
		want   bool
	}{
		"the same":     {func(*corev1.Pod) {}, true},
		"terminating":  {func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{} }, true},
		"another pod":  {func(p *corev1.Pod) { p.UID = "v" }, false},
		"failed pod":   {func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }, false},
		"restarted":    {func(p *corev1.Pod) { p.Status.ContainerStatuses[0].RestartCount = 2 }, false},
		"waits":        {func(p *corev1.Pod) { p.Status.ContainerStatuses[0].State = corev1.ContainerState{} }, false},
		"only a phase": {func(p *corev1.Pod) { p.Status.ContainerStatuses = nil }, true},
	} {
		if got := (instance{restarts: 1, running: true}).runs(pod(c.change), "u", "c"); got != c.want {
			t.Errorf("%s: got %t", name, got)
		}
	}
}
