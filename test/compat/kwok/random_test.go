package kwok

import (
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/rehearse-k8s/rehearse/stage"
)

// TestRandomPods compares both on random pods: any phase, conditions, container states, owners, finalizers,
// and the annotations that stages read.
func TestRandomPods(t *testing.T) {
	root, err := shipped()
	if err != nil {
		t.Fatal(err)
	}
	for _, dirs := range [][]string{{"pod/fast"}, {"pod/general"}, {"pod/general", "pod/chaos"}} {
		t.Run(filepath.Join(dirs...), func(t *testing.T) {
			var paths []string
			for _, d := range dirs {
				paths = append(paths, filepath.Join(root, d))
			}
			b, err := load(paths...)
			if err != nil {
				t.Fatal(err)
			}
			rapid.Check(t, func(r *rapid.T) { agree(r, b, randomPod(r), stage.KindPod) })
		})
	}
}

func randomPod(r *rapid.T) *corev1.Pod {
	maybe := func(what string) bool { return rapid.Bool().Draw(r, what) }
	at := metav1.NewTime(start)
	p := &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p", UID: types.UID("aaaa-bbbb"), ResourceVersion: "7", Labels: map[string]string{}, Annotations: map[string]string{}},
		Spec: corev1.PodSpec{
			NodeName: "n", HostNetwork: maybe("host network"),
			Containers: []corev1.Container{{Name: "app", Image: "app:1"}, {Name: "log", Image: "log:1"}}[:rapid.IntRange(1, 2).Draw(r, "containers")],
		},
		Status: corev1.PodStatus{Phase: rapid.SampledFrom([]corev1.PodPhase{"Pending", "Pending", "Running", "Running", "Succeeded", "Failed", ""}).Draw(r, "phase")},
	}
	if maybe("owned by a Job") {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: "j", UID: "1"}}
	}
	if maybe("deleted") {
		later := metav1.NewTime(now.Add(time.Duration(rapid.IntRange(-5, 60).Draw(r, "grace")) * time.Second))
		p.DeletionTimestamp = &later
	}
	if maybe("finalizer") {
		p.Finalizers = []string{"example.com/x"}
	}
	if maybe("address") {
		p.Status.PodIP, p.Status.PodIPs = "10.1.0.7", []corev1.PodIP{{IP: "10.1.0.7"}}
	}
	for _, c := range []corev1.PodConditionType{"Ready", "Initialized", "ContainersReady", "PodScheduled", "example.com/gate"} {
		if status := rapid.SampledFrom([]corev1.ConditionStatus{"", "True", "False"}).Draw(r, string(c)); status != "" {
			is := corev1.PodCondition{Type: c, Status: status, LastTransitionTime: at}
			if maybe("words") {
				is.Reason, is.Message, is.LastProbeTime, is.ObservedGeneration = "Because", "of something", at, 3
			}
			p.Status.Conditions = append(p.Status.Conditions, is)
		}
	}
	if maybe("conditions in another order") {
		slices.Reverse(p.Status.Conditions)
	}
	if maybe("readiness gate") {
		p.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "example.com/gate"}, {ConditionType: "example.com/other"}}[:rapid.IntRange(1, 2).Draw(r, "gates")]
	}
	if maybe("an image that YAML writes in another way") {
		p.Spec.Containers[0].Image = `a"'<\`
	}
	if maybe("init containers") {
		always := corev1.ContainerRestartPolicyAlways
		p.Spec.InitContainers = []corev1.Container{{Name: "first", Image: "first:1"}, {Name: "proxy", Image: "proxy:1", RestartPolicy: &always}}[:rapid.IntRange(1, 2).Draw(r, "inits")]
		p.Status.InitContainerStatuses = statuses(r, p.Spec.InitContainers)
	}
	if maybe("container statuses") {
		p.Status.ContainerStatuses = statuses(r, p.Spec.Containers)
	}
	for _, s := range []string{"pod-create", "pod-ready", "pod-complete", "pod-delete", "pod-container-running-failed", "pod-init-container-running-failed"} {
		name := s + ".stage.kwok.x-k8s.io"
		if maybe("label of " + s) {
			p.Labels[name] = "true"
		}
		if maybe("weight of " + s) {
			p.Annotations[name+"/weight"] = strconv.Itoa(rapid.IntRange(0, 5).Draw(r, "weight"))
		}
		if maybe("delay of " + s) {
			p.Annotations[name+"/delay"] = rapid.SampledFrom([]string{"0s", "2s", "10m", "nonsense", ""}).Draw(r, "delay")
		}
		if maybe("jitter of " + s) {
			p.Annotations[name+"/jitter-delay"] = rapid.SampledFrom([]string{"1s", "20s", "1h", "x"}).Draw(r, "jitter")
		}
	}
	return p
}

func statuses(r *rapid.T, of []corev1.Container) (out []corev1.ContainerStatus) {
	at := metav1.NewTime(start)
	for _, c := range of {
		s := corev1.ContainerStatus{Name: c.Name, Image: c.Image, RestartCount: int32(rapid.IntRange(0, 2).Draw(r, "restarts"))}
		switch rapid.IntRange(0, 2).Draw(r, "state of "+c.Name) {
		case 0:
			s.State.Waiting = &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}
		case 1:
			s.State.Running = &corev1.ContainerStateRunning{StartedAt: at}
			s.Ready = true
		default:
			s.State.Terminated = &corev1.ContainerStateTerminated{Reason: "Completed", StartedAt: at, FinishedAt: at}
		}
		out = append(out, s)
	}
	return out
}
