package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/rehearse-k8s/rehearse/api/kruise"
	"github.com/rehearse-k8s/rehearse/api/kruise/v1alpha1"
	"github.com/rehearse-k8s/rehearse/api/kruise/v1beta1"
)

var inPlace = policy(v1beta1.InPlaceIfPossible)

// TestSameImageID covers upstream's "in-place update images with the same imageID". The containerID shows that
// a container was restarted.
func TestSameImageID(t *testing.T) {
	s := begin(t)
	s.make(1, inPlace, annotation("e2e/same-image", "true"))
	before := s.see("the pod", allReady(1)).pods
	was := container(&before[0], "main")
	s.edit(image("main:2"))
	v := s.see("it is updated", all(allReady(1), kept(before, 1), states(kruise.StateNormal, 1), func(v view) error {
		if v.set.Status.UpdatedAvailableReplicas != 1 || v.pods[0].Spec.Containers[0].Image != "main:2" {
			return errors.New("the container is not restarted")
		}
		return nil
	}))
	if is := container(&v.pods[0], "main"); is.ContainerID == was.ContainerID || is.ImageID != was.ImageID || is.RestartCount != 1 {
		t.Errorf("the container was %+v, is %+v", was, is)
	}
}

// fromLabel returns a variable whose value is a label of the pod.
func fromLabel(name, label string) corev1.EnvVar {
	return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.labels['" + label + "']"}}}
}

// TestImageAndEnvironment covers upstream's "in-place update both image and env from label". The container
// restarts once, not once for each.
func TestImageAndEnvironment(t *testing.T) {
	s := begin(t)
	s.make(1, inPlace, label("test-env", "one"), func(c *v1beta1.CloneSet) {
		c.Spec.Template.Spec.Containers[0].Env = []corev1.EnvVar{fromLabel("TEST_ENV", "test-env")}
	})
	before := s.see("the pod", allReady(1)).pods
	s.edit(image("main:2"), label("test-env", "two"))
	v := s.see("it is updated", all(allReady(1), kept(before, 1), states(kruise.StateNormal, 1)))
	p := &v.pods[0]
	if c := container(p, "main"); c.RestartCount != 1 || c.Image != "main:2" || p.Labels["test-env"] != "two" {
		t.Errorf("labels %v, container %+v", p.Labels, c)
	}
	s.edit(label("test-env", "three"))
	v = s.see("the environment alone", all(allReady(1), kept(before, 1), states(kruise.StateNormal, 1), func(v view) error {
		if v.pods[0].Labels["test-env"] != "three" {
			return errors.New("the label is the old one")
		}
		return nil
	}))
	if c := container(&v.pods[0], "main"); c.RestartCount != 2 {
		t.Errorf("container %+v", c)
	}
}

// pair sets two containers, nginx and redis, of which redis has the higher priority; each takes some time to
// restart.
func pair(c *v1beta1.CloneSet) {
	of := func(name, priority string) corev1.Container {
		return corev1.Container{Name: name, Image: name + ":1", Env: []corev1.EnvVar{
			{Name: "KRUISE_CONTAINER_PRIORITY", Value: priority}, fromLabel("CONFIG", name+"-config"),
		}}
	}
	c.Spec.Template.Spec.Containers = []corev1.Container{of("nginx", "0"), of("redis", "10")}
	c.Spec.Template.Annotations["pod-container-renewed.stage.kwok.x-k8s.io/delay"] = "2s"
}

func images(nginx, redis string) change {
	return func(c *v1beta1.CloneSet) {
		c.Spec.Template.Spec.Containers[0].Image, c.Spec.Template.Spec.Containers[1].Image = nginx, redis
	}
}

// updateOf returns the record of a pod's last update in place.
func updateOf(t *testing.T, p *corev1.Pod) (u kruise.InPlaceUpdateState) {
	t.Helper()
	if err := json.Unmarshal([]byte(p.Annotations[kruise.AnnotationInPlaceState]), &u); err != nil {
		t.Fatal(err)
	}
	return u
}

// batches returns the containers of each batch, such as "redis nginx".
func batches(u kruise.InPlaceUpdateState) string {
	var all []string
	for _, b := range u.ContainerBatchesRecord {
		all = append(all, strings.Join(b.Containers, "+"))
	}
	return strings.Join(all, " ")
}

// inOrder checks that redis ran again before nginx was stopped.
func inOrder(t *testing.T, p *corev1.Pod) {
	t.Helper()
	nginx, redis := container(p, "nginx"), container(p, "redis")
	if nginx.RestartCount != 1 || redis.RestartCount != 1 || nginx.LastTerminationState.Terminated == nil || redis.State.Running == nil {
		t.Fatalf("nginx %+v, redis %+v", nginx, redis)
	}
	if ended, ran := nginx.LastTerminationState.Terminated.FinishedAt, redis.State.Running.StartedAt; ended.Before(&ran) {
		t.Errorf("nginx ended at %s, redis runs since %s", ended, ran)
	}
	if down := redis.State.Running.StartedAt.Sub(redis.LastTerminationState.Terminated.FinishedAt.Time); down < time.Second {
		t.Errorf("redis was down for only %s, too short to show the order", down)
	}
}

// TestPriorities covers upstream's "in-place update two container images with priorities successfully": the
// container with the higher priority first, the other when it runs. A restart takes two seconds here and ten
// upstream.
func TestPriorities(t *testing.T) {
	s := begin(t)
	s.make(1, inPlace, pair)
	before := s.see("the pod", allReady(1)).pods
	s.edit(images("nginx:2", "redis:2"))
	v := s.see("both are updated", all(allReady(1), kept(before, 1), states(kruise.StateNormal, 1)))
	u := updateOf(t, &v.pods[0])
	if got := batches(u); got != "redis nginx" || len(u.NextContainerImages) > 0 {
		t.Errorf("batches %q, left %v", got, u.NextContainerImages)
	}
	inOrder(t, &v.pods[0])
}

// TestPrioritiesFailed covers upstream's "in-place update two container images with priorities, should not
// update the next when the previous one failed". In addition it checks that the next follows when the image of
// the first can be pulled.
func TestPrioritiesFailed(t *testing.T) {
	const fails = "rehearse-k8s.github.io/image-pull-fails"
	s := begin(t)
	s.make(1, inPlace, pair)
	before := s.see("the pod", allReady(1)).pods
	s.edit(images("nginx:2", "redis:none"), annotation(fails, "true"))
	stuck := all(kept(before, 1), func(v view) error {
		p := &v.pods[0]
		if w := container(p, "redis").State.Waiting; w == nil || !slices.Contains([]string{"ErrImagePull", "ImagePullBackOff"}, w.Reason) {
			return fmt.Errorf("redis waits: %+v", w)
		}
		u := updateOf(t, p)
		if batches(u) != "redis" || u.NextContainerImages["nginx"] != "nginx:2" || container(p, "nginx").Image != "nginx:1" || container(p, "nginx").RestartCount != 0 {
			return fmt.Errorf("batches %q, left %v, nginx %+v", batches(u), u.NextContainerImages, container(p, "nginx"))
		}
		return nil
	})
	s.see("the image of redis cannot be pulled", all(stuck, numbers(1, 0, 1, 0), states(kruise.StateUpdating, 1)))
	s.stays("nginx is left alone", stuck)
	s.edit(images("nginx:2", "redis:2"), without(fails))
	v := s.see("both are updated", all(allReady(1), kept(before, 1), states(kruise.StateNormal, 1)))
	if p := &v.pods[0]; container(p, "nginx").Image != "nginx:2" || container(p, "redis").Image != "redis:2" {
		t.Errorf("%s", s.picture())
	}
}

// TestPrioritiesOfEnvironment covers upstream's "in-place update two container image and env from metadata
// with priorities". The environment of a container that waits for another also waits, and the container
// restarts once.
func TestPrioritiesOfEnvironment(t *testing.T) {
	s := begin(t)
	s.make(1, inPlace, pair, label("nginx-config", "one"), label("redis-config", "one"))
	before := s.see("the pod", allReady(1)).pods
	s.edit(images("nginx:2", "redis:2"), label("nginx-config", "two"), label("redis-config", "two"))
	v := s.see("both are updated", all(allReady(1), kept(before, 1), states(kruise.StateNormal, 1)))
	p := &v.pods[0]
	if got := batches(updateOf(t, p)); got != "redis nginx" || p.Labels["nginx-config"] != "two" || p.Labels["redis-config"] != "two" {
		t.Errorf("batches %q, labels %v", got, p.Labels)
	}
	inOrder(t, p)
	s.edit(label("nginx-config", "three"), label("redis-config", "three"))
	v = s.see("the environment alone", all(allReady(1), kept(before, 1), states(kruise.StateNormal, 1), func(v view) error {
		if p := &v.pods[0]; p.Labels["nginx-config"] != "three" || p.Labels["redis-config"] != "three" {
			return fmt.Errorf("labels %v", p.Labels)
		}
		return nil
	}))
	if got := batches(updateOf(t, &v.pods[0])); got != "redis nginx" || container(&v.pods[0], "nginx").RestartCount != 2 {
		t.Errorf("batches %q\n%s", got, s.picture())
	}
}

// TestPartition covers upstream's "partition=99%, replicas=4 makes sure 1 pod is upgraded".
func TestPartition(t *testing.T) {
	s := begin(t)
	s.make(4, inPlace, deadline(600))
	before := s.see("four pods", all(allReady(4), reason(v1alpha1.ReasonAvailable))).pods
	s.edit(image("main:2"), partition(percent("99%")))
	one := all(numbers(4, 4, 1, 1), kept(before, 4), reason(v1alpha1.ReasonPartitionAvailable), func(v view) error {
		if n := v.set.Status.ExpectedUpdatedReplicas; n != 1 {
			return fmt.Errorf("%d are expected", n)
		}
		return nil
	})
	s.see("one is updated", all(one, states(kruise.StateNormal, 4)))
	s.stays("no other is", one)
}

// TestQualityOfService covers upstream's "change resource and qos -> recreate". A pod cannot change its QoS
// class, so it is recreated; a change within the class is made in place.
func TestQualityOfService(t *testing.T) {
	resources := func(cpu, memory, limit string) change {
		return func(c *v1beta1.CloneSet) {
			r := &c.Spec.Template.Spec.Containers[0].Resources
			r.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
			r.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(limit), corev1.ResourceMemory: resource.MustParse(memory)}
		}
	}
	s := begin(t)
	s.make(1, inPlace, resources("100m", "100Mi", "200m"))
	before := s.see("the pod", allReady(1)).pods
	s.edit(resources("200m", "100Mi", "300m"))
	v := s.see("it is resized", all(allReady(1), kept(before, 1), states(kruise.StateNormal, 1), func(v view) error {
		if r := container(&v.pods[0], "main").Resources; r == nil || r.Requests.Cpu().String() != "200m" {
			return fmt.Errorf("resources %+v", r)
		}
		return nil
	}))
	if c := container(&v.pods[0], "main"); c.RestartCount != 0 {
		t.Errorf("container %+v", c)
	}
	s.edit(image("main:2"), resources("300m", "100Mi", "300m"))
	v = s.see("another pod", all(allReady(1), kept(before, 0), states(kruise.StateNormal, 1)))
	if v.pods[0].Status.QOSClass != corev1.PodQOSGuaranteed {
		t.Errorf("class %s", v.pods[0].Status.QOSClass)
	}
}
