package stagetest

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/rehearse-k8s/rehearse/api/kruise"
	"github.com/rehearse-k8s/rehearse/internal/stage/kubelet"
)

// DrawPod draws pods that differ in everything the built-in stages read.
func DrawPod(t *rapid.T) *corev1.Pod {
	p := NewPod()
	p.UID = types.UID(rapid.SampledFrom([]string{"u1", "u2"}).Draw(t, "uid"))
	p.Generation = rapid.Int64Range(0, 3).Draw(t, "generation")
	p.Spec.NodeName = rapid.SampledFrom([]string{"node-1", "dual"}).Draw(t, "node")
	p.Spec.HostNetwork = rapid.Bool().Draw(t, "hostNetwork")
	p.Labels = drawMap(t, "labels")
	p.Annotations = drawMap(t, "annotations")
	if rapid.Bool().Draw(t, "deleting") {
		Deleting(p)
	}
	if rapid.Bool().Draw(t, "held") {
		WithFinalizer(p)
	}
	for i := range rapid.IntRange(0, 2).Draw(t, "owners") {
		p.OwnerReferences = append(p.OwnerReferences, metav1.OwnerReference{
			Kind: rapid.SampledFrom([]string{"Job", "ReplicaSet", ""}).Draw(t, "owner"), Name: fmt.Sprint(i),
		})
	}
	p.Status.Phase = rapid.SampledFrom([]corev1.PodPhase{"", corev1.PodPending, corev1.PodRunning, corev1.PodSucceeded, corev1.PodFailed}).Draw(t, "phase")
	p.Status.PodIP = rapid.SampledFrom([]string{"", "10.128.0.11"}).Draw(t, "podIP")
	if rapid.Bool().Draw(t, "started") {
		at := metav1.NewTime(Start.Add(-5 * time.Second))
		p.Status.StartTime = &at
	}
	gates := []corev1.PodConditionType{"example.com/a", "example.com/b"}
	for _, gate := range gates[:rapid.IntRange(0, 2).Draw(t, "gates")] {
		p.Spec.ReadinessGates = append(p.Spec.ReadinessGates, corev1.PodReadinessGate{ConditionType: gate})
	}
	p.Status.Conditions = nil
	for _, c := range append([]corev1.PodConditionType{
		corev1.PodReady, corev1.ContainersReady, corev1.PodInitialized, corev1.PodScheduled, corev1.PodReadyToStartContainers,
	}, gates...) {
		if !rapid.Bool().Draw(t, string(c)) {
			continue
		}
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{
			Type:               c,
			Status:             rapid.SampledFrom([]corev1.ConditionStatus{"True", "False", "Unknown"}).Draw(t, "status"),
			Reason:             rapid.SampledFrom([]string{"", "Because"}).Draw(t, "reason"),
			Message:            rapid.SampledFrom([]string{"", "some text"}).Draw(t, "message"),
			LastTransitionTime: metav1.NewTime(Start.Add(-time.Duration(rapid.IntRange(1, 99).Draw(t, "ago")) * time.Second)),
		})
	}
	p.Spec.RestartPolicy = rapid.SampledFrom([]corev1.RestartPolicy{"", corev1.RestartPolicyAlways, corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever}).Draw(t, "restartPolicy")
	if rapid.Bool().Draw(t, "deadline") {
		p.Spec.ActiveDeadlineSeconds = ptr.To(rapid.Int64Range(1, 1<<31-1).Draw(t, "activeDeadlineSeconds"))
	}
	if rapid.Bool().Draw(t, "observed") {
		p.Status.ObservedGeneration = p.Generation
	}
	for _, key := range rapid.SliceOfN(rapid.SampledFrom([]string{
		kubelet.AnnotationRunFor, kubelet.AnnotationRunFor + ".app-0", kubelet.AnnotationRunFor + ".init-1",
	}), 0, 2).Draw(t, "run-for") {
		SetAnnotation(p, key, rapid.SampledFrom([]string{"", "0s", "90s", "1m", "1h0m5s", "5", "1s1m", "123456h", "1.5s", "x"}).Draw(t, "time"))
	}
	for _, key := range rapid.SliceOfN(rapid.SampledFrom([]string{kubelet.AnnotationExitCode, kubelet.AnnotationExitCode + ".app-0", kubelet.AnnotationExitCode + ".init-0"}), 0, 2).Draw(t, "exit-code") {
		SetAnnotation(p, key, rapid.SampledFrom([]string{"0", "1", "OOMKilled", "2,0", "0, 3"}).Draw(t, "code"))
	}
	for _, key := range rapid.SliceOfN(rapid.SampledFrom([]string{kubelet.AnnotationImagePullFails, kubelet.AnnotationEvict}), 0, 2).Draw(t, "faults") {
		SetAnnotation(p, key, rapid.SampledFrom([]string{"true", "app-0", "cpu"}).Draw(t, "which"))
	}
	for range rapid.IntRange(0, 1).Draw(t, "update in place") {
		SetAnnotation(p, kruise.AnnotationInPlaceState, rapid.SampledFrom([]string{
			"", "{", "null", "[]", `"updateEnvFromMetadata"`, `{"updateEnvFromMetadata":true}`,
			`{"updateEnvFromMetadata":true,"lastContainerStatuses":{"app-0":{"containerID":"x://1"}}}`,
			`{"lastContainerStatuses": {"app-1": {"containerID": "x:\/\/1"}, "init-0": 3}, "updateEnvFromMetadata": true}`,
			`{"lastContainerStatuses":{"init-0":{"containerID":"x://1"}},"updateEnvFromMetadata":true}`,
			`{"updateEnvFromMetadata":"true","lastContainerStatuses":{"app-0":{"containerID":"x://1"}}}`,
			`{"updateEnvFromMetadata":true,"lastContainerStatuses":["x://1"]}`,
			`{"updateenvfrommetadata":true,"updateEnvFromMetadata":false,"lastContainerStatuses":{"app-0":{"containerID":"x://1"}}}`,
		}).Draw(t, "state of the update"))
	}
	p.Spec.Containers, p.Status.ContainerStatuses = drawContainers(t, "app", 1)
	p.Spec.InitContainers, p.Status.InitContainerStatuses = drawContainers(t, "init", 0)
	return p
}

func SetAnnotation(p *corev1.Pod, key, value string) {
	if p.Annotations == nil {
		p.Annotations = map[string]string{}
	}
	p.Annotations[key] = value
}

func drawMap(t *rapid.T, label string) map[string]string {
	return rapid.MapOfN(rapid.SampledFrom([]string{"a", "b/c", "go", "with space", `quote"d`}),
		rapid.SampledFrom([]string{"", "x", "yes", "3", "true", "5s"}), 0, 3).Draw(t, label)
}

func drawContainers(t *rapid.T, prefix string, least int) (spec []corev1.Container, status []corev1.ContainerStatus) {
	at := metav1.NewTime(Start.Add(-9 * time.Second))
	for i := range rapid.IntRange(least, 2).Draw(t, prefix) {
		c := corev1.Container{Name: fmt.Sprintf("%s-%d", prefix, i), Image: "img:1"}
		if prefix == "init" && rapid.Bool().Draw(t, "sidecar") {
			c.RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
		}
		quantities := func(label string) (r corev1.ResourceRequirements) {
			for _, list := range []*corev1.ResourceList{&r.Requests, &r.Limits} {
				if cpu := rapid.SampledFrom([]string{"", "1", "2"}).Draw(t, label); cpu != "" {
					*list = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
				}
			}
			return r
		}
		c.Resources = quantities("resources")
		if rapid.Bool().Draw(t, "resize policy") {
			c.ResizePolicy = []corev1.ContainerResizePolicy{{ResourceName: corev1.ResourceCPU, RestartPolicy: corev1.RestartContainer}}
		}
		spec = append(spec, c)
		s := corev1.ContainerStatus{Name: c.Name, Image: rapid.SampledFrom([]string{c.Image, "img:0"}).Draw(t, "image"), Ready: rapid.Bool().Draw(t, "ready"), Started: ptr.To(rapid.Bool().Draw(t, "is started")), ContainerID: rapid.SampledFrom([]string{"", "x://1"}).Draw(t, "id")}
		switch rapid.SampledFrom([]string{"none", "waiting", "running", "terminated"}).Draw(t, "state") {
		case "none":
			continue
		case "waiting":
			s.State.Waiting = &corev1.ContainerStateWaiting{
				Reason:  rapid.SampledFrom([]string{"ContainerCreating", "PodInitializing", "CrashLoopBackOff", "ErrImagePull", "ImagePullBackOff"}).Draw(t, "waiting"),
				Message: rapid.SampledFrom([]string{"", "back-off 10s restarting", "back-off 2m40s restarting", "back-off 5m0s", "back-off 1h0s x", "back-off m5s x", "back-off 7s x", "x back-off 7s x"}).Draw(t, "words"),
			}
		case "running":
			s.State.Running = &corev1.ContainerStateRunning{StartedAt: at}
		case "terminated":
			s.State.Terminated = &corev1.ContainerStateTerminated{ExitCode: 3, Reason: "Error", StartedAt: at, FinishedAt: at}
		}
		if rapid.Bool().Draw(t, "restarted") {
			s.RestartCount = rapid.Int32Range(0, 3).Draw(t, "restartCount")
			ago := metav1.NewTime(at.Add(-time.Duration(rapid.IntRange(0, 400).Draw(t, "last")) * time.Second))
			s.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: 1, FinishedAt: ago}
		}
		if rapid.Bool().Draw(t, "resources known") {
			s.Resources = ptr.To(quantities("known resources"))
			s.AllocatedResources = s.Resources.Requests
		}
		status = append(status, s)
	}
	return spec, status
}

func DrawNode(t *rapid.T) *corev1.Node {
	n := NewNode()
	n.Labels, n.Annotations = drawMap(t, "labels"), drawMap(t, "annotations")
	if rapid.Bool().Draw(t, "kept not ready") {
		n.Labels = map[string]string{"node-not-ready.stage.kwok.x-k8s.io": rapid.SampledFrom([]string{"", "true", "no"}).Draw(t, "not-ready label")}
	}
	quantities := func(label string) corev1.ResourceList {
		var out corev1.ResourceList
		for _, name := range []corev1.ResourceName{"cpu", "memory", "pods", "nvidia.com/gpu"} {
			if rapid.Bool().Draw(t, label+string(name)) {
				if out == nil {
					out = corev1.ResourceList{}
				}
				out[name] = resource.MustParse(rapid.SampledFrom([]string{"4", "8Gi", "500m"}).Draw(t, "quantity"))
			}
		}
		return out
	}
	n.Status.Capacity, n.Status.Allocatable = quantities("capacity "), quantities("allocatable ")
	n.Status.NodeInfo.Architecture = rapid.SampledFrom([]string{"", "arm64"}).Draw(t, "architecture")
	n.Status.NodeInfo.KubeletVersion = rapid.SampledFrom([]string{"", "v1.30.0"}).Draw(t, "version")
	n.Status.Phase = rapid.SampledFrom([]corev1.NodePhase{"", corev1.NodeRunning}).Draw(t, "phase")
	if rapid.Bool().Draw(t, "addressed") {
		n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2.1"}}
	}
	for _, c := range []corev1.NodeConditionType{corev1.NodeReady, corev1.NodeDiskPressure, "Custom"} {
		if rapid.Bool().Draw(t, string(c)) {
			n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{
				Type: c, Status: rapid.SampledFrom([]corev1.ConditionStatus{"True", "False", "Unknown"}).Draw(t, "status"),
				Reason:             rapid.SampledFrom([]string{"", "Because"}).Draw(t, "reason"),
				Message:            rapid.SampledFrom([]string{"", "the label node-pressure.stage.kwok.x-k8s.io is set"}).Draw(t, "message"),
				LastTransitionTime: metav1.NewTime(Start.Add(-time.Minute)),
			})
		}
	}
	for _, key := range rapid.SliceOfN(rapid.SampledFrom([]string{"node-not-ready.stage.kwok.x-k8s.io", "node-pressure.stage.kwok.x-k8s.io"}), 0, 2).Draw(t, "durations") {
		if n.Annotations == nil {
			n.Annotations = map[string]string{}
		}
		n.Annotations[key+"/duration"] = rapid.SampledFrom([]string{"", "30s", "1h5s", "1.5s"}).Draw(t, "duration")
	}
	return n
}
