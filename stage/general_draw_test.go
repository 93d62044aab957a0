package stage

import (
	"fmt"
	"time"

	"github.com/rehearse-k8s/rehearse/internal/stage/kubelet"
	"github.com/rehearse-k8s/rehearse/internal/stage/stagetest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"
)

// The generators of general_property_test.go.

// drawGeneralPod generates a pod as the scheduler leaves it.
func drawGeneralPod(t *rapid.T) *corev1.Pod {
	p := stagetest.NewPod()
	p.Spec.RestartPolicy = rapid.SampledFrom([]corev1.RestartPolicy{corev1.RestartPolicyAlways, corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever}).Draw(t, "restartPolicy")
	p.Spec.HostNetwork = rapid.Bool().Draw(t, "hostNetwork")
	if rapid.Bool().Draw(t, "job") {
		stagetest.OwnedByJob(p)
	}
	if rapid.Bool().Draw(t, "gated") {
		gates(p)
	}
	if rapid.IntRange(0, 4).Draw(t, "has deadline") == 0 {
		p.Spec.ActiveDeadlineSeconds = ptr.To(rapid.Int64Range(1, 600).Draw(t, "activeDeadlineSeconds"))
	}
	container := func(name string, i int) corev1.Container {
		c := corev1.Container{Name: fmt.Sprintf("%s-%d", name, i), Image: "img:1"}
		if name == "init" && rapid.Bool().Draw(t, "sidecar") {
			c.RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
		}
		return c
	}
	p.Spec.Containers = nil
	for i := range rapid.IntRange(1, 2).Draw(t, "containers") {
		p.Spec.Containers = append(p.Spec.Containers, container("app", i))
	}
	for i := range rapid.IntRange(0, 3).Draw(t, "init containers") {
		p.Spec.InitContainers = append(p.Spec.InitContainers, container("init", i))
	}
	for range rapid.IntRange(0, 3).Draw(t, "annotations") {
		drawGeneralAnnotation(t)(p)
	}
	return p
}

func drawGeneralAnnotation(t *rapid.T) func(*corev1.Pod) {
	suffix := rapid.SampledFrom([]string{"", ".app-0", ".app-1", ".init-0", ".init-1"}).Draw(t, "container")
	choose := func(values ...string) string { return rapid.SampledFrom(values).Draw(t, "value") }
	switch rapid.SampledFrom([]string{"run-for", "exit-code", "pull", "evict", "delay", "none"}).Draw(t, "annotation") {
	case "run-for":
		return said(kubelet.AnnotationRunFor+suffix, choose("0s", "1s", "30s", "11m", "soon"))
	case "exit-code":
		return said(kubelet.AnnotationExitCode+suffix, choose("0", "1", "1,1,0", "OOMKilled", "x"))
	case "pull":
		return said(kubelet.AnnotationImagePullFails, choose("true", "app-0", "none"))
	case "evict":
		return said(kubelet.AnnotationEvict, choose("memory", "true"))
	case "delay":
		name := choose("pod-create", "pod-ready", "pod-complete", "pod-delete", "pod-terminate", "pod-init-container-completed")
		return said(name+".stage.kwok.x-k8s.io/"+choose("delay", "jitter-delay", "weight"), choose("0s", "10s", "-5", "10m", "never", "3"))
	}
	return func(p *corev1.Pod) { p.Annotations = nil }
}

// interfere is a change of a pod by another client.
func (w *podWorld) interfere() {
	t := w.t
	switch rapid.SampledFrom([]string{"annotate", "delete", "hold", "release", "node", "not ready", "gate", "gone bad", "touch", "image", "resize", "update in place", "conditions", "statuses"}).Draw(t, "interference") {
	case "annotate":
		w.edit("annotations", drawGeneralAnnotation(t))
	case "delete":
		grace := time.Duration(rapid.IntRange(0, 60).Draw(t, "grace")) * time.Second
		w.edit("delete", func(p *corev1.Pod) {
			if p.DeletionTimestamp == nil {
				p.DeletionTimestamp = ptr.To(metav1.NewTime(w.now.Add(grace).Truncate(time.Second).Add(time.Second)))
				p.DeletionGracePeriodSeconds = ptr.To(int64(grace / time.Second))
			}
		})
	case "hold":
		w.edit("finalizer", func(p *corev1.Pod) {
			if p.DeletionTimestamp == nil {
				stagetest.WithFinalizer(p)
			}
		})
	case "release":
		w.edit("no finalizer", func(p *corev1.Pod) { p.Finalizers = nil })
	case "node":
		w.nodeReady = !w.nodeReady
	case "not ready":
		w.edit("not ready", func(p *corev1.Pod) {
			p.Status.Conditions = setReady(p, corev1.PodReady, corev1.ConditionFalse, "").(*corev1.Pod).Status.Conditions
		})
	case "gate":
		status := rapid.SampledFrom([]corev1.ConditionStatus{"True", "False"}).Draw(t, "gate")
		w.edit("gate", func(p *corev1.Pod) {
			c := corev1.PodCondition{Type: "example.com/gate", Status: status}
			p.Status.Conditions = kubelet.SetCondition(p.Status.Conditions, c, seconds(w.now))
		})
	case "gone bad":
		w.edit("phase Failed", func(p *corev1.Pod) {
			if phases[p.Status.Phase] < 2 {
				p.Status.Phase, p.Status.Reason = corev1.PodFailed, "pod-lost"
			}
		})
	case "touch":
		w.edit("label", func(p *corev1.Pod) { p.Labels = map[string]string{"a": "b"} })
	case "image":
		image := rapid.SampledFrom([]string{"img:1", "img:2"}).Draw(t, "image")
		w.edit("image "+image, func(p *corev1.Pod) {
			c := &p.Spec.Containers[0]
			if all := p.Spec.InitContainers; len(all) > 0 && rapid.Bool().Draw(t, "of an init container") {
				c = &all[len(all)-1]
			}
			c.Image, p.Generation = image, p.Generation+1
		})
	case "resize":
		cpu, restart := rapid.SampledFrom([]string{"1", "2"}).Draw(t, "cpu"), rapid.Bool().Draw(t, "restart")
		w.edit("cpu "+cpu, func(p *corev1.Pod) {
			resize(restart)(p)
			p.Spec.Containers[0].Resources.Requests = quantity(cpu)
		})
	case "update in place":
		w.edit("update in place", func(p *corev1.Pod) {
			if containerStatus(p.Status.ContainerStatuses, "app-0") != nil {
				environment("app-0")(p)
			}
		})
	case "conditions":
		w.edit("no conditions", func(p *corev1.Pod) { p.Status.Conditions = nil })
	case "statuses":
		w.edit("no container statuses", func(p *corev1.Pod) {
			p.Status.ContainerStatuses = nil
			if p.Status.Phase == corev1.PodPending {
				p.Status.InitContainerStatuses = nil
			}
		})
	}
}
