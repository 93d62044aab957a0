package clonesets

import (
	"encoding/json"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rehearse-k8s/rehearse/api/kruise"
)

var (
	early = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	late  = early.Add(time.Minute)
)

// run calls update for a pod whose spec the kubelet has acted on long ago, and whose environment is unchanged.
func run(pod *corev1.Pod, b Behaviour, now time.Time) time.Duration {
	kept := func(string) bool { return true }
	return update(pod, b, acting{restartsAsked(pod, kept), time.Hour}, now)
}

// alive returns a pod that has run since early, with its readiness gate true.
func alive() *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "u", Generation: 1},
		Spec: corev1.PodSpec{
			ReadinessGates: []corev1.PodReadinessGate{{ConditionType: "gate"}},
			Containers:     []corev1.Container{{Name: "a", Image: "a:1"}, {Name: "b", Image: "b:1"}},
		},
		Status: corev1.PodStatus{Conditions: []corev1.PodCondition{
			{Type: "gate", Status: corev1.ConditionTrue}, {Type: "other", Status: corev1.ConditionUnknown},
		}},
	}
	run(p, Behaviour{}, early)
	return p
}

// TestNothingToWrite checks that a status without a change is not written.
func TestNothingToWrite(t *testing.T) {
	p := alive()
	before := p.DeepCopy()
	if wake := run(p, Behaviour{}, late); wake != 0 || !equality.Semantic.DeepEqual(before, p) {
		t.Errorf("wake %s, %+v", wake, p.Status)
	}
	if conditionOf(p, "other") == nil {
		t.Error("the condition of another client is lost")
	}
}

func TestGates(t *testing.T) {
	p := alive()
	for i, step := range []struct{ gate, ready corev1.ConditionStatus }{
		{"True", "True"}, {"False", "False"}, {"Unknown", "False"}, {"True", "True"},
	} {
		now := late.Add(time.Duration(i) * time.Minute)
		before := *conditionOf(p, corev1.PodReady)
		conditionOf(p, "gate").Status = step.gate
		run(p, Behaviour{}, now)
		got := conditionOf(p, corev1.PodReady)
		if got.Status != step.ready || (got.Reason == "ReadinessGatesNotReady") != (step.ready == "False") {
			t.Errorf("gate %s: %+v", step.gate, got)
		}
		if moved := got.LastTransitionTime != before.LastTransitionTime; moved != (before.Status != got.Status) {
			t.Errorf("gate %s: the transition time has changed: %v", step.gate, moved)
		}
		if c := conditionOf(p, corev1.ContainersReady); c.Status != corev1.ConditionTrue || !c.LastTransitionTime.Time.Equal(early) {
			t.Errorf("gate %s: %+v", step.gate, c)
		}
	}
	p.Status.Conditions = nil
	run(p, Behaviour{}, late)
	want := `corresponding condition of pod readiness gate "gate" does not exist.`
	if got := conditionOf(p, corev1.PodReady); got.Message != want {
		t.Errorf("a gate that no client set: %q", got.Message)
	}
}

// updated writes the record of an update in place that has changed the environment.
func updated(p *corev1.Pod, names ...string) {
	u := kruise.InPlaceUpdateState{UpdateEnvFromMetadata: true, LastContainerStatuses: map[string]kruise.InPlaceContainerStatus{}}
	for _, name := range names {
		for _, s := range p.Status.ContainerStatuses {
			if s.Name == name {
				u.LastContainerStatuses[name] = kruise.InPlaceContainerStatus{ImageID: s.ImageID, ContainerID: s.ContainerID}
			}
		}
	}
	data, _ := json.Marshal(u)
	p.Annotations = map[string]string{kruise.AnnotationInPlaceState: string(data)}
}

func TestRestarts(t *testing.T) {
	for name, c := range map[string]struct {
		change   func(p *corev1.Pod)
		restarts [2]int32
		image    bool // the first container has another image ID
	}{
		"nothing":               {func(p *corev1.Pod) { p.Labels = map[string]string{"x": "y"} }, [2]int32{0, 0}, false},
		"image":                 {func(p *corev1.Pod) { p.Spec.Containers[0].Image = "a:2" }, [2]int32{1, 0}, true},
		"environment":           {func(p *corev1.Pod) { updated(p, "a") }, [2]int32{1, 0}, false},
		"environment of both":   {func(p *corev1.Pod) { updated(p, "a", "b") }, [2]int32{1, 1}, false},
		"image and environment": {func(p *corev1.Pod) { updated(p, "a", "b"); p.Spec.Containers[0].Image = "a:2" }, [2]int32{1, 1}, true},
		"no state of an update": {func(p *corev1.Pod) { p.Annotations = map[string]string{kruise.AnnotationInPlaceState: "{"} }, [2]int32{0, 0}, false},
	} {
		for _, restart := range []time.Duration{0, 5 * time.Second} {
			p := alive()
			old := p.Status.ContainerStatuses[0]
			c.change(p)
			b := Behaviour{Restart: restart}
			if wake := run(p, b, late); wake > 0 {
				if wake != restart || conditionOf(p, corev1.PodReady).Status != corev1.ConditionFalse {
					t.Errorf("%s: wake %s, %+v", name, wake, p.Status.Conditions)
				}
				if s := p.Status.ContainerStatuses[0]; s.ImageID != old.ImageID || s.RestartCount != 0 {
					t.Errorf("%s: %+v while it is down", name, s)
				}
				run(p, b, late.Add(wake))
			}
			run(p, b, late.Add(time.Hour))
			for i, s := range p.Status.ContainerStatuses {
				if s.RestartCount != c.restarts[i] || !s.Ready || (s.RestartCount > 0) != (s.LastTerminationState.Terminated != nil) {
					t.Errorf("%s: %+v", name, s)
				}
			}
			s := p.Status.ContainerStatuses[0]
			if (s.ContainerID != old.ContainerID) != (c.restarts[0] > 0) || (s.ImageID != old.ImageID) != c.image {
				t.Errorf("%s: IDs %s and %s, were %s and %s", name, s.ContainerID, s.ImageID, old.ContainerID, old.ImageID)
			}
		}
	}
}

func TestResize(t *testing.T) {
	p := alive()
	p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}
	run(p, Behaviour{}, late)
	s := p.Status.ContainerStatuses[0]
	if s.Resources == nil || !equality.Semantic.DeepEqual(s.AllocatedResources, s.Resources.Requests) || s.RestartCount != 0 {
		t.Errorf("%+v", s)
	}
}
