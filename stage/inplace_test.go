package stage

import (
	"encoding/json"
	"slices"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/rehearse-k8s/rehearse/api/kruise"
	"github.com/rehearse-k8s/rehearse/internal/stage/kubelet"
	"github.com/rehearse-k8s/rehearse/internal/stage/stagetest"
)

// rest plays a pod until no stage is left, and counts the writes.
func rest(t *testing.T, set *Set, p *corev1.Pod, now *time.Time) (*corev1.Pod, int) {
	t.Helper()
	past := Past{}
	for writes := 0; writes < 20; writes++ {
		d := set.Decide(*now, 1, p, past, Scene{NodeReady: true})
		past.Decided(&d)
		if !d.Chosen() {
			return p, writes
		}
		if d.Due.After(*now) {
			*now = d.Due
		}
		e, err := set.Play(*now, p, d, stagetest.Facts{})
		if err != nil {
			t.Fatal(err)
		}
		if e.Write == WriteNothing {
			t.Fatalf("%s changes nothing", d.Stage)
		}
		past = past.After(&d, *now, true)
		p = e.Object.(*corev1.Pod).DeepCopy()
		touch(p)
	}
	t.Fatal("it has no end")
	return nil, 0
}

func touch(p *corev1.Pod) {
	n, _ := strconv.Atoi(p.ResourceVersion)
	p.ResourceVersion = strconv.Itoa(n + 1)
}

func twoContainers(p *corev1.Pod) {
	p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "log", Image: "log:1"})
	for i := range p.Spec.Containers {
		p.Spec.Containers[i].Resources = corev1.ResourceRequirements{Requests: quantity("1"), Limits: quantity("2")}
	}
}

func quantity(cpu string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
}

func image(i int, image string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.Containers[i].Image, p.Generation = image, p.Generation+1 }
}

func setGate(status corev1.ConditionStatus) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		c := corev1.PodCondition{Type: "example.com/gate", Status: status}
		p.Status.Conditions = kubelet.SetCondition(slices.Clone(p.Status.Conditions), c, seconds(stagetest.Start))
	}
}

// environment is an update in place that changed the sources of the containers' environment, with
// the annotation that its controller writes.
func environment(names ...string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		u := kruise.InPlaceUpdateState{UpdateEnvFromMetadata: true, LastContainerStatuses: map[string]kruise.InPlaceContainerStatus{}}
		for _, name := range names {
			s := containerStatus(p.Status.ContainerStatuses, name)
			u.LastContainerStatuses[name] = kruise.InPlaceContainerStatus{ImageID: s.ImageID, ContainerID: s.ContainerID}
		}
		data, _ := json.Marshal(u)
		stagetest.SetAnnotation(p, kruise.AnnotationInPlaceState, string(data))
	}
}

func resize(restart bool) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		c := &p.Spec.Containers[0]
		if restart {
			c.ResizePolicy = []corev1.ContainerResizePolicy{{ResourceName: corev1.ResourceCPU, RestartPolicy: corev1.RestartContainer}}
		}
		c.Resources.Requests, p.Generation = quantity("2"), p.Generation+1
	}
}

// TestInPlace changes a running pod, and counts the writes until no stage is left.
func TestInPlace(t *testing.T) {
	for name, c := range map[string]struct {
		changes       []func(*corev1.Pod)
		restarts      [2]int32
		image         bool // the first container's status has another image's ID
		ready         bool
		fast, general int // writes
	}{
		"nothing":                 {[]func(*corev1.Pod){label("a", "b")}, [2]int32{}, false, true, 0, 0},
		"image":                   {[]func(*corev1.Pod){image(0, "nginx:1.28")}, [2]int32{1, 0}, true, true, 1, 2},
		"another spec":            {[]func(*corev1.Pod){func(p *corev1.Pod) { p.Generation++ }}, [2]int32{}, false, true, 1, 1},
		"image and gate":          {[]func(*corev1.Pod){setGate("False"), image(0, "nginx:1.28")}, [2]int32{1, 0}, true, false, 1, 2},
		"gate":                    {[]func(*corev1.Pod){setGate("False")}, [2]int32{}, false, false, 1, 1},
		"unknown gate":            {[]func(*corev1.Pod){setGate("Unknown")}, [2]int32{}, false, false, 1, 1},
		"environment":             {[]func(*corev1.Pod){environment("app")}, [2]int32{1, 0}, false, true, 1, 2},
		"environment of both":     {[]func(*corev1.Pod){environment("app", "log")}, [2]int32{1, 1}, false, true, 1, 2},
		"image and environment":   {[]func(*corev1.Pod){environment("app"), image(0, "nginx:1.28")}, [2]int32{1, 0}, true, true, 1, 2},
		"environment, other spec": {[]func(*corev1.Pod){environment("log"), resize(false)}, [2]int32{0, 1}, false, true, 1, 2},
		"resize":                  {[]func(*corev1.Pod){resize(false)}, [2]int32{}, false, true, 1, 1},
		"resize with restart":     {[]func(*corev1.Pod){resize(true)}, [2]int32{1, 0}, false, true, 1, 2},
		"resize and image":        {[]func(*corev1.Pod){resize(true), image(0, "nginx:1.28")}, [2]int32{1, 0}, true, true, 1, 2},
	} {
		for file, most := range map[string]int{"pod-fast": c.fast, "pod-general": c.general} {
			t.Run(name+" "+file, func(t *testing.T) {
				set, now := mustBuiltin(t, file), stagetest.Start
				before, _ := rest(t, set, stagetest.NewPod(twoContainers, openGate), &now)
				p := before.DeepCopy()
				for _, change := range c.changes {
					change(p)
				}
				touch(p)
				p, writes := rest(t, set, p, &now)
				if writes != most {
					t.Errorf("%d writes, want %d", writes, most)
				}
				if kubelet.IsConditionTrue(p.Status.Conditions, corev1.PodReady) != c.ready || !kubelet.IsConditionTrue(p.Status.Conditions, corev1.ContainersReady) {
					t.Errorf("conditions %+v", p.Status.Conditions)
				}
				if p.Status.ObservedGeneration != p.Generation || kubelet.IsConditionTrue(p.Status.Conditions, "example.com/gate") != c.ready {
					t.Errorf("generation %d is observed of %d", p.Status.ObservedGeneration, p.Generation)
				}
				for i := range p.Spec.Containers {
					sameAsSpec(t, &p.Spec.Containers[i], &before.Status.ContainerStatuses[i], &p.Status.ContainerStatuses[i], c.restarts[i])
				}
				if was, is := before.Status.ContainerStatuses[0].ImageID, p.Status.ContainerStatuses[0].ImageID; (was != is) != c.image {
					t.Errorf("imageID %s after %s", is, was)
				}
			})
		}
	}
}

// sameAsSpec compares the status of a container with its spec.
func sameAsSpec(t *testing.T, c *corev1.Container, was, is *corev1.ContainerStatus, restarts int32) {
	t.Helper()
	if is.Image != c.Image || !is.Ready || is.State.Running == nil || is.RestartCount != restarts {
		t.Errorf("%+v", is)
	}
	if is.Resources == nil || !equality.Semantic.DeepEqual(*is.Resources, c.Resources) || !equality.Semantic.DeepEqual(is.AllocatedResources, c.Resources.Requests) {
		t.Errorf("resources %+v, allocated %+v", is.Resources, is.AllocatedResources)
	}
	last := is.LastTerminationState.Terminated
	if (is.ContainerID != was.ContainerID) != (restarts > 0) || (last != nil) != (restarts > 0) || last != nil && last.ContainerID != was.ContainerID {
		t.Errorf("containerID %s after %s, the last one was %+v", is.ContainerID, was.ContainerID, last)
	}
}

// TestGateOpensAndCloses checks that the time of a condition changes with its status, and that
// conditions of other owners are not changed.
func TestGateOpensAndCloses(t *testing.T) {
	for _, file := range []string{"pod-fast", "pod-general"} {
		set, now := mustBuiltin(t, file), stagetest.Start
		p, _ := rest(t, set, stagetest.NewPod(gates), &now)
		if c := conditionOf(p, corev1.PodReady); c.Status != "False" || c.Reason != "ReadinessGatesNotReady" || p.Status.Phase != corev1.PodRunning {
			t.Errorf("%s: %+v", file, c)
		}
		for _, status := range []corev1.ConditionStatus{"True", "False", "Unknown", "True"} {
			was := *conditionOf(p, corev1.PodReady)
			now = now.Add(time.Minute)
			setGate(status)(p)
			touch(p)
			p, _ = rest(t, set, p, &now)
			is := conditionOf(p, corev1.PodReady)
			if (is.Status == "True") != (status == "True") || (is.LastTransitionTime == was.LastTransitionTime) != (is.Status == was.Status) {
				t.Errorf("%s: gate %s: %+v after %+v", file, status, is, was)
			}
			if c := conditionOf(p, "example.com/gate"); c.Status != status || !c.LastTransitionTime.Time.Equal(stagetest.Start) {
				t.Errorf("%s: the gate is %+v, set %s", file, c, status)
			}
		}
	}
}

func conditionOf(p *corev1.Pod, t corev1.PodConditionType) *corev1.PodCondition {
	for i := range p.Status.Conditions {
		if p.Status.Conditions[i].Type == t {
			return &p.Status.Conditions[i]
		}
	}
	return &corev1.PodCondition{}
}
