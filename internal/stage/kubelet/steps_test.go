package kubelet

import (
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

type fixedAddresses struct{ err error }

func (f fixedAddresses) NodeIPs(string) ([]string, error) {
	return []string{"10.0.0.1", "fd00::1"}, nil
}

func (f fixedAddresses) PodIPs(types.UID, string) ([]string, error) {
	return []string{"10.1.0.1"}, f.err
}

// pod is a bound pod with one container for each name; init containers are those that begin with "init", sidecars
// those that begin with "side".
func pod(names ...string) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default", UID: "uid-web", Generation: 1, Annotations: map[string]string{}},
		Spec:       corev1.PodSpec{NodeName: "node-0", RestartPolicy: corev1.RestartPolicyAlways},
		Status:     corev1.PodStatus{Phase: corev1.PodPending},
	}
	for _, name := range names {
		c := corev1.Container{Name: name, Image: name + ":1"}
		switch {
		case strings.HasPrefix(name, "side"):
			c.RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
			p.Spec.InitContainers = append(p.Spec.InitContainers, c)
		case strings.HasPrefix(name, "init"):
			p.Spec.InitContainers = append(p.Spec.InitContainers, c)
		default:
			p.Spec.Containers = append(p.Spec.Containers, c)
		}
	}
	return p
}

// play runs steps on the pod, one a second, and fails the test if one fails.
func play(t *testing.T, p *corev1.Pod, steps ...string) {
	t.Helper()
	for i, name := range steps {
		if err := NewStep(name)(p, Moment{Now: start.Add(time.Duration(i) * time.Second), Addresses: fixedAddresses{}}); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
}

// state describes a container in one word and its restarts.
func state(s *corev1.ContainerStatus) string {
	switch {
	case s == nil:
		return "none"
	case s.State.Waiting != nil:
		return s.State.Waiting.Reason
	case s.State.Running != nil:
		return "running"
	case s.State.Terminated != nil:
		return s.State.Terminated.Reason
	}
	return "unknown"
}

// TestSteps: the phase, the readiness and the containers of a pod after a sequence of steps.
func TestSteps(t *testing.T) {
	for name, c := range map[string]struct {
		pod    *corev1.Pod
		change func(p *corev1.Pod)
		steps  []string
		phase  corev1.PodPhase
		ready  bool
		states map[string]string
	}{
		"created": {
			pod: pod("app"), steps: []string{"create"},
			phase: corev1.PodPending, states: map[string]string{"app": "ContainerCreating"},
		},
		"init containers wait for their turn": {
			pod: pod("init-a", "init-b", "app"), steps: []string{"create", "init-start"},
			phase: corev1.PodPending, states: map[string]string{"init-a": "running", "init-b": "PodInitializing", "app": "PodInitializing"},
		},
		"the next init container starts after the first": {
			pod: pod("init-a", "init-b", "app"), steps: []string{"create", "init-start", "init-exit", "init-start"},
			phase: corev1.PodPending, states: map[string]string{"init-a": "Completed", "init-b": "running", "app": "PodInitializing"},
		},
		"a sidecar does not block the next init container": {
			pod: pod("side", "init-a", "app"), steps: []string{"create", "init-start", "init-start"},
			phase: corev1.PodPending, states: map[string]string{"side": "running", "init-a": "running", "app": "PodInitializing"},
		},
		"running": {
			pod: pod("a", "b"), steps: []string{"create", "start"},
			phase: corev1.PodRunning, ready: true, states: map[string]string{"a": "running", "b": "running"},
		},
		"at once": {
			pod: pod("init-a", "side", "app"), steps: []string{"run"},
			phase: corev1.PodRunning, ready: true, states: map[string]string{"init-a": "Completed", "side": "running", "app": "running"},
		},
		"at once, with a gate that is not set": {
			pod: pod("app"),
			change: func(p *corev1.Pod) {
				p.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "example.com/gate"}}
			},
			steps: []string{"run"},
			phase: corev1.PodRunning, states: map[string]string{"app": "running"},
		},
		"succeeded": {
			pod: pod("app"), steps: []string{"run", "succeed"},
			phase: corev1.PodSucceeded, states: map[string]string{"app": "Completed"},
		},
		"a failed container restarts at once the first time": {
			pod:    pod("app"),
			change: func(p *corev1.Pod) { p.Annotations[AnnotationExitCode] = "3" },
			steps:  []string{"create", "start", "complete"},
			phase:  corev1.PodRunning, ready: true, states: map[string]string{"app": "running"},
		},
		"the second failure backs off": {
			pod:    pod("app"),
			change: func(p *corev1.Pod) { p.Annotations[AnnotationExitCode] = "3" },
			steps:  []string{"create", "start", "complete", "complete"},
			phase:  corev1.PodRunning, states: map[string]string{"app": "CrashLoopBackOff"},
		},
		"without restarts a failure fails the pod": {
			pod: pod("a", "side"),
			change: func(p *corev1.Pod) {
				p.Annotations[AnnotationExitCode], p.Spec.RestartPolicy = "OOMKilled", corev1.RestartPolicyNever
			},
			steps: []string{"create", "init-start", "start", "complete"},
			phase: corev1.PodFailed, states: map[string]string{"a": "OOMKilled", "side": "Completed"},
		},
		"an init container that fails fails the pod": {
			pod: pod("init-a", "app"),
			change: func(p *corev1.Pod) {
				p.Annotations[AnnotationExitCode+".init-a"], p.Spec.RestartPolicy = "1", corev1.RestartPolicyNever
			},
			steps: []string{"create", "init-start", "init-exit"},
			phase: corev1.PodFailed, states: map[string]string{"init-a": "Error", "app": "PodInitializing"},
		},
		"an image that cannot be pulled": {
			pod:    pod("a", "b"),
			change: func(p *corev1.Pod) { p.Annotations[AnnotationImagePullFails] = "b" },
			steps:  []string{"create", "pull-fail", "pull-wait"},
			phase:  corev1.PodPending, states: map[string]string{"a": "ContainerCreating", "b": "ImagePullBackOff"},
		},
		"deadline": {
			pod: pod("app"), steps: []string{"create", "start", "deadline"},
			phase: corev1.PodFailed, states: map[string]string{"app": "Error"},
		},
		"evicted": {
			pod: pod("app"), steps: []string{"create", "start", "evict"},
			phase: corev1.PodFailed, states: map[string]string{"app": "Error"},
		},
		"deleted before it started": {
			pod: pod("app"), steps: []string{"create", "end"},
			phase: corev1.PodFailed, states: map[string]string{"app": "ContainerStatusUnknown"},
		},
		"another image": {
			pod: pod("a", "b"), steps: []string{"create", "start", "new image", "observe"},
			phase: corev1.PodRunning, states: map[string]string{"a": "ContainerCreating", "b": "running"},
		},
		"another image, restarted": {
			pod: pod("a", "b"), steps: []string{"create", "start", "new image", "renew"},
			phase: corev1.PodRunning, ready: true, states: map[string]string{"a": "running", "b": "running"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := c.pod
			if c.change != nil {
				c.change(p)
			}
			for _, step := range c.steps {
				if step == "new image" {
					p.Spec.Containers[0].Image, p.Generation = "new:2", 2
					continue
				}
				play(t, p, step)
			}
			if p.Status.Phase != c.phase {
				t.Errorf("phase %s, want %s", p.Status.Phase, c.phase)
			}
			if got := IsConditionTrue(p.Status.Conditions, corev1.PodReady); got != c.ready {
				t.Errorf("ready %v, want %v: %+v", got, c.ready, p.Status.Conditions)
			}
			if p.Status.ObservedGeneration != p.Generation {
				t.Errorf("generation %d is observed, want %d", p.Status.ObservedGeneration, p.Generation)
			}
			for container, want := range c.states {
				s := statusOf(p.Status.ContainerStatuses, container)
				if s == nil {
					s = statusOf(p.Status.InitContainerStatuses, container)
				}
				if got := state(s); got != want {
					t.Errorf("container %s is %s, want %s", container, got, want)
				}
			}
		})
	}
}

// TestBackOff: the wait doubles from 10 s to 5 min, and resets after a long run.
func TestBackOff(t *testing.T) {
	p := pod("app")
	p.Annotations[AnnotationExitCode] = "1"
	now := start
	step := func(name string) {
		t.Helper()
		if err := NewStep(name)(p, Moment{Now: now, Addresses: fixedAddresses{}}); err != nil {
			t.Fatal(err)
		}
	}
	step("create")
	step("start")
	step("complete") // restarts at once
	for _, want := range []time.Duration{10, 20, 40, 80, 160, 300, 300} {
		step("complete")
		due, found := FirstRestart(p)
		if !found || due.Sub(now) != want*time.Second {
			t.Fatalf("restart due after %s (%v), want %s", due.Sub(now), found, want*time.Second)
		}
		now = due.Add(-time.Second)
		step("restart") // a second too early
		if state(&p.Status.ContainerStatuses[0]) != "CrashLoopBackOff" {
			t.Fatal("restarted before the back-off was over")
		}
		now = due
		step("restart")
		if state(&p.Status.ContainerStatuses[0]) != "running" {
			t.Fatal("did not restart after the back-off")
		}
	}
	now = now.Add(10 * time.Minute)
	step("complete")
	if got := state(&p.Status.ContainerStatuses[0]); got != "running" {
		t.Errorf("after a run of 10 minutes the container is %s, want an immediate restart", got)
	}
}

// TestTimes: when the next exit and the deadline of a pod are due.
func TestTimes(t *testing.T) {
	p := pod("a", "b")
	play(t, p, "create", "start")
	if _, found := FirstExit(p); found {
		t.Error("an exit is due without a time to run")
	}
	if _, found := Deadline(p); found {
		t.Error("a deadline is due without activeDeadlineSeconds")
	}
	p.Annotations[AnnotationRunFor] = "1m30s"
	p.Annotations[AnnotationRunFor+".b"] = "20s"
	p.Spec.ActiveDeadlineSeconds = ptr.To(int64(60))
	started := p.Status.ContainerStatuses[0].State.Running.StartedAt.Time
	if at, found := FirstExit(p); !found || at.Sub(started) != 20*time.Second {
		t.Errorf("first exit after %s, %v", at.Sub(started), found)
	}
	delete(p.Annotations, AnnotationRunFor+".b")
	if at, found := FirstExit(p); !found || at.Sub(started) != 90*time.Second {
		t.Errorf("first exit after %s, %v", at.Sub(started), found)
	}
	if at, found := Deadline(p); !found || at.Sub(p.Status.StartTime.Time) != time.Minute {
		t.Errorf("deadline at %s, %v", at, found)
	}
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"x/duration": "5m"}}}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, LastTransitionTime: metav1.NewTime(start)}}
	isReady := func(c *corev1.NodeCondition) bool { return c.Type == corev1.NodeReady }
	if at, found := ConditionUntil(n, "x/duration", isReady); !found || at.Sub(start) != 5*time.Minute {
		t.Errorf("condition until %s, %v", at, found)
	}
	n.Annotations["x/duration"] = "5 minutes"
	if _, found := ConditionUntil(n, "x/duration", isReady); found {
		t.Error("a malformed duration ends the condition")
	}
}

// TestStepErrors: a step that cannot be computed says why.
func TestStepErrors(t *testing.T) {
	for name, c := range map[string]struct {
		annotation, value, step, want string
		addresses                     Addresses
	}{
		"malformed time to run":   {annotation: AnnotationRunFor, value: "soon", step: "create", want: "is not a time in whole seconds"},
		"malformed exit code":     {annotation: AnnotationExitCode, value: "often", step: "complete", want: "is not an exit code"},
		"exit code out of range":  {annotation: AnnotationExitCode, value: "256", step: "complete", want: "is not an exit code"},
		"no free address":         {step: "create", want: "no free address", addresses: fixedAddresses{errors.New("no free address")}},
		"chaos without container": {annotation: "pod-container-running-failed.stage.kwok.x-k8s.io/container-name", value: "other", step: "container-failed", want: `container "other"`},
	} {
		t.Run(name, func(t *testing.T) {
			p := pod("app")
			play(t, p, "create", "start")
			if c.annotation != "" {
				p.Annotations[c.annotation] = c.value
			}
			if c.addresses == nil {
				c.addresses = fixedAddresses{}
			}
			err := NewStep(c.step)(p, Moment{Now: start, Addresses: c.addresses})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v, want %q", c.step, err, c.want)
			}
		})
	}
	if _, err := StatusAfter("nothing", map[string]any{}, Moment{}); err == nil || !strings.HasPrefix(err.Error(), `unknown step "nothing"; known: complete, `) {
		t.Errorf("got %v", err)
	}
}

// TestStatusAfterIsJSON: the template function returns the status as JSON, with null for the reason and the message
// of a condition that has none, so that a merge removes the old ones.
func TestStatusAfterIsJSON(t *testing.T) {
	text, err := StatusAfter("create", map[string]any{
		"metadata": map[string]any{"name": "web", "uid": "u", "generation": 3},
		"spec":     map[string]any{"nodeName": "node-0", "containers": []any{map[string]any{"name": "app", "image": "app:1"}}},
	}, Moment{Now: start, Addresses: fixedAddresses{}})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"phase":"Pending"`, `"podIP":"10.1.0.1"`, `"hostIP":"10.0.0.1"`, `"observedGeneration":3`, `"reason":null`, `"startTime":"2026-03-01T12:00:00Z"`} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in %s", want, text)
		}
	}
}
