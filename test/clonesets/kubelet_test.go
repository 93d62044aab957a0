package clonesets_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rehearse-k8s/rehearse/api/kruise"
	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/invariant"
	"github.com/rehearse-k8s/rehearse/simtest"
	"github.com/rehearse-k8s/rehearse/test/clonesets"
)

// web returns a pod as a CloneSet creates it: with a gate, and two containers.
func web(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: corev1.PodSpec{
			ReadinessGates: []corev1.PodReadinessGate{{ConditionType: kruise.ConditionInPlaceUpdateReady}},
			Containers:     []corev1.Container{{Name: "web", Image: "web:1"}, {Name: "log", Image: "log:1"}},
		},
	}
}

// faults are all legal faults of the kubelet. Two concurrent kubelets of one pod are not legal.
func faults() (patterns []fault.Fault) {
	for _, f := range fault.Any(fault.Legal) {
		if f.Kind != fault.KindOverlap {
			f.Actor = "kubelet"
			patterns = append(patterns, f)
		}
	}
	return patterns
}

// gate sets the pod's readiness gate, as its controller does.
func gate(w *simtest.World, p *corev1.Pod, status corev1.ConditionStatus) {
	w.Patch(p, types.StrategicMergePatchType,
		fmt.Sprintf(`{"status":{"conditions":[{"type":%q,"status":%q}]}}`, kruise.ConditionInPlaceUpdateReady, status), "status")
}

// renewed holds while a pod's containers run and have restarted at most as often as want says: a kubelet that observes the pod
// only after its update has nothing to restart.
func renewed(name string, want map[string]int32) invariant.Invariant {
	return invariant.Func(fmt.Sprintf("restarts of %s are at most %v", name, want), func(v invariant.View) error {
		p, err := read(v, name)
		if err != nil {
			return err
		}
		for _, s := range p.Status.ContainerStatuses {
			if s.RestartCount > want[s.Name] || s.State.Running == nil {
				return fmt.Errorf("container %s: %d restarts, %+v", s.Name, s.RestartCount, s.State)
			}
		}
		return nil
	})
}

// restarted holds once a container of a pod has restarted.
func restarted(name string) invariant.Invariant {
	return invariant.Func("a container of "+name+" restarts", func(v invariant.View) error {
		p, err := read(v, name)
		if err == nil && !slices.ContainsFunc(p.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool { return s.RestartCount > 0 }) {
			err = errors.New("none has restarted")
		}
		return err
	})
}

func read(v invariant.View, name string) (*corev1.Pod, error) {
	for _, o := range v.List("pods") {
		if o.GetName() == name {
			p := &corev1.Pod{}
			return p, runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, p)
		}
	}
	return nil, fmt.Errorf("pod %s does not exist", name)
}

// sound must hold for every status that a kubelet writes.
var sound = invariant.Func("statuses of pods are sound", func(v invariant.View) error {
	for _, o := range v.List("pods") {
		if err := soundPod(o); err != nil {
			return fmt.Errorf("pod %s: %w", o.GetName(), err)
		}
	}
	return nil
})

func soundPod(o *unstructured.Unstructured) error {
	p := &corev1.Pod{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, p); err != nil {
		return err
	}
	for _, s := range p.Status.ContainerStatuses {
		last := s.LastTerminationState.Terminated
		switch {
		case s.RestartCount > 1:
			return fmt.Errorf("container %s has restarted %d times", s.Name, s.RestartCount)
		case s.RestartCount == 1 && (last == nil || last.ContainerID == s.ContainerID):
			return fmt.Errorf("container %s has no last state: %+v", s.Name, last)
		case s.Ready && s.State.Running == nil:
			return fmt.Errorf("container %s is ready but does not run", s.Name)
		case s.State.Running != nil && s.Image != s.ImageID:
			return fmt.Errorf("container %s has image %s and ID %s", s.Name, s.Image, s.ImageID)
		}
	}
	return nil
}

// TestKubelet plays an update in place: the gate becomes false, an image changes, the gate becomes true. There
// are also a pod whose gate no controller sets, one whose gate becomes false, and one that is deleted.
func TestKubelet(t *testing.T) {
	slow := func(*corev1.Pod) clonesets.Behaviour {
		return clonesets.Behaviour{Start: 2 * time.Second, Restart: 3 * time.Second, Stop: 4 * time.Second}
	}
	for name, behaviour := range map[string]func(*corev1.Pod) clonesets.Behaviour{"at once": nil, "slow": slow} {
		t.Run(name, func(t *testing.T) {
			simtest.Run(t, simtest.Seeds(100), func(w *simtest.World) {
				w.Controller("kubelet", clonesets.Kubelet(behaviour))
				w.Faults(faults()...)
				w.AllowDifferentOutcomes()
				w.Always(sound)
				w.Sometimes(restarted("updated"))
				once := map[string]int32{"web": 1}
				w.Eventually(time.Minute, invariant.All(
					is("updated", corev1.ConditionTrue, once), is("unset", corev1.ConditionFalse, nil),
					is("closed", corev1.ConditionFalse, nil), invariant.Gone("pods", "default", "gone"),
				))
				updated, closed, gone := web("updated"), web("closed"), web("gone")
				w.Create(updated, web("unset"), closed, gone)
				w.Settle()
				for _, p := range []*corev1.Pod{updated, closed, gone} {
					gate(w, p, "True")
				}
				w.Delete(gone)
				w.Settle()
				gate(w, closed, "False")
				gate(w, updated, "False")
				w.Patch(updated, types.StrategicMergePatchType, `{"spec":{"containers":[{"name":"web","image":"web:2"}]}}`)
				w.Settle()
				gate(w, updated, "True")
			})
		})
	}
}

// is holds while a pod's containers run and are ready and have restarted at most as often as restarts says, and the
// pod's readiness is the given one because of its gate.
func is(name string, ready corev1.ConditionStatus, restarts map[string]int32) invariant.Invariant {
	return invariant.All(
		renewed(name, restarts),
		invariant.Condition("pods", "default", name, "ContainersReady", "True"),
		invariant.Condition("pods", "default", name, "Ready", string(ready)),
	)
}
