package cloneset

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/rehearse-k8s/rehearse/api/kruise"
	"github.com/rehearse-k8s/rehearse/api/kruise/v1alpha1"
)

var inPlace = strategy(v1alpha1.InPlaceIfPossible)

// containers sets the containers of a template: "main=1 redis=10" are two with launch priorities, "app" has
// none. Each has an environment variable from the label with its own name.
func containers(words string) func(*v1alpha1.CloneSetSpec) {
	return func(s *v1alpha1.CloneSetSpec) {
		s.Template.Spec.Containers = nil
		for _, word := range strings.Fields(words) {
			name, priority, ok := strings.Cut(word, "=")
			c := corev1.Container{Name: name, Image: name + ":1", Env: []corev1.EnvVar{{
				Name: "V", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.labels['" + name + "']"}},
			}}}
			if ok {
				c.Env = append(c.Env, corev1.EnvVar{Name: priorityVariable, Value: priority})
			}
			s.Template.Spec.Containers = append(s.Template.Spec.Containers, c)
		}
	}
}

func imageOf(container, image string) func(*v1alpha1.CloneSetSpec) {
	return func(s *v1alpha1.CloneSetSpec) {
		i := slices.IndexFunc(s.Template.Spec.Containers, func(c corev1.Container) bool { return c.Name == container })
		s.Template.Spec.Containers[i].Image = image
	}
}

func withLabel(key, value string) func(*v1alpha1.CloneSetSpec) {
	return func(s *v1alpha1.CloneSetSpec) { s.Template.Labels[key] = value }
}

// record returns the record of a pod's last update in place.
func (w *world) record(slot int) (s kruise.InPlaceUpdateState) {
	w.t.Helper()
	if err := json.Unmarshal([]byte(w.pod(slot).Annotations[kruise.AnnotationInPlaceState]), &s); err != nil {
		w.t.Fatalf("%v", err)
	}
	return s
}

// batches returns the containers of each batch, such as "redis main".
func batches(s kruise.InPlaceUpdateState) string {
	var all []string
	for _, b := range s.ContainerBatchesRecord {
		all = append(all, strings.Join(b.Containers, "+"))
	}
	return strings.Join(all, " ")
}

// runs returns the images and restarts of a pod's containers: "main:2 restarts=1".
func (w *world) runs(slot int) string {
	var all []string
	for _, c := range w.pod(slot).Status.ContainerStatuses {
		all = append(all, fmt.Sprintf("%s restarts=%d", c.Image, c.RestartCount))
	}
	return strings.Join(all, ", ")
}

func (w *world) stateOf(slot int) kruise.LifecycleState {
	return kruise.LifecycleState(w.pod(slot).Labels[kruise.LabelState])
}

// stuckAt makes the kubelet not restart these containers, until it is called again.
func (w *world) stuckAt(names ...string) {
	w.behaves = func(*corev1.Pod) behaviour { return behaviour{stuck: names} }
}

// TestUpdateOverAnUpdate checks that a second update also waits for the unfinished restarts of the first one,
// whether for an image or for an environment.
func TestUpdateOverAnUpdate(t *testing.T) {
	for name, first := range map[string]func(*v1alpha1.CloneSetSpec){
		"environment": withLabel("main", "new"), "image": imageOf("main", "main:2"),
	} {
		for _, grace := range []int32{0, 5} {
			t.Run(fmt.Sprint(name, grace), func(t *testing.T) {
				w := newRunningWorld(t, 1, inPlace, containers("main other"), func(s *v1alpha1.CloneSetSpec) {
					s.UpdateStrategy.InPlaceUpdateStrategy = &kruise.InPlaceUpdateStrategy{GracePeriodSeconds: grace}
				})
				w.stuckAt("main")
				w.edit(first)
				w.settle()
				w.pass(6 * time.Second)
				w.edit(imageOf("other", "other:2"))
				w.settle()
				w.pass(6 * time.Second)
				if got := w.stateOf(0); got != kruise.StateUpdating {
					t.Errorf("main has not restarted, and the pod is %s: %s", got, w.runs(0))
				}
				w.stuckAt()
				w.settle()
				if got := w.runs(0); !strings.Contains(got, "other:2 restarts=1") || !strings.HasSuffix(strings.Split(got, ",")[0], "restarts=1") || w.stateOf(0) != kruise.StateNormal {
					t.Errorf("the pod is %s and runs %s", w.stateOf(0), got)
				}
			})
		}
	}
}

// TestPriorities checks that containers with a higher launch priority are changed first and the others when
// those are ready, and that their environment changes with them.
func TestPriorities(t *testing.T) {
	w := newRunningWorld(t, 1, inPlace, containers("main=1 redis=10"), withLabel("main", "one"), withLabel("redis", "one"))
	w.edit(imageOf("main", "main:2"), imageOf("redis", "redis:2"), withLabel("main", "two"), withLabel("redis", "two"))
	w.behaves = func(*corev1.Pod) behaviour { return behaviour{unready: []string{"redis"}} }
	w.settle()
	if got := batches(w.record(0)); got != "redis" || w.runs(0) != "main:1 restarts=0, redis:2 restarts=1" || w.pod(0).Labels["main"] != "one" {
		t.Errorf("batches %q, %s, labels %v", got, w.runs(0), w.pod(0).Labels)
	}
	w.behaves = nil
	w.settle()
	if got := batches(w.record(0)); got != "redis main" || w.runs(0) != "main:2 restarts=1, redis:2 restarts=1" || w.pod(0).Labels["main"] != "two" || w.stateOf(0) != kruise.StateNormal {
		t.Errorf("batches %q, %s, labels %v", got, w.runs(0), w.pod(0).Labels)
	}
	w.edit(withLabel("main", "three"), withLabel("redis", "three"))
	w.settle()
	if got := batches(w.record(0)); got != "redis main" || w.runs(0) != "main:2 restarts=2, redis:2 restarts=2" {
		t.Errorf("batches %q, %s", got, w.runs(0))
	}
}

// TestPrioritiesShareALabel checks that a container that reads the same label as a container of an earlier
// batch does not wait, because its environment changes at the same time.
func TestPrioritiesShareALabel(t *testing.T) {
	w := newRunningWorld(t, 1, inPlace, containers("main=1 redis=10"), func(s *v1alpha1.CloneSetSpec) {
		for i := range s.Template.Spec.Containers {
			s.Template.Spec.Containers[i].Env[0].ValueFrom.FieldRef.FieldPath = "metadata.labels['shared']"
		}
	})
	w.edit(withLabel("shared", "new"))
	w.settle()
	if got := batches(w.record(0)); got != "main+redis" || w.runs(0) != "main:1 restarts=1, redis:1 restarts=1" {
		t.Errorf("batches %q, %s", got, w.runs(0))
	}
}

// TestNextBatchIsNotLost checks that an update that starts while containers wait for others also changes the
// waiting ones: their images and their environment.
func TestNextBatchIsNotLost(t *testing.T) {
	w := newRunningWorld(t, 1, inPlace, containers("main=1 redis=10"), withLabel("main", "one"))
	w.behaves = func(*corev1.Pod) behaviour { return behaviour{unready: []string{"redis"}} }
	w.edit(imageOf("main", "main:2"), imageOf("redis", "redis:2"), withLabel("main", "two"))
	w.settle()
	w.edit(imageOf("redis", "redis:3"))
	w.settle()
	w.behaves = nil
	w.settle()
	if got := w.runs(0); got != "main:2 restarts=1, redis:3 restarts=2" || w.pod(0).Labels["main"] != "two" || w.stateOf(0) != kruise.StateNormal {
		t.Errorf("%s, labels %v, %s", got, w.pod(0).Labels, w.stateOf(0))
	}
	c := container(w.pod(0), "main")
	if !strings.Contains(c.ContainerID, "main") {
		t.Errorf("container %+v", c)
	}
}

// TestWritesOfInPlaceUpdate checks the three writes of an update in place, to the status, to the spec and to
// the status, and that the readiness gate is false in between.
func TestWritesOfInPlaceUpdate(t *testing.T) {
	w := newRunningWorld(t, 1, inPlace)
	w.edit(image("web:2"))
	w.expect("create revision")
	d := w.expect("UpdatingPodInPlace 0 then SuccessfulUpdatePodInPlace 0")
	if d.Actions[0].Subresource != "status" || d.Actions[0].Then.Subresource != "" || !d.Actions[0].Exact || !d.Actions[0].Then.Exact {
		t.Errorf("actions %+v", d.Actions[0])
	}
	p := w.pod(0)
	for _, kind := range []string{kruise.ConditionInPlaceUpdateReady, string(corev1.PodReady)} {
		if c := conditionOf(p, kind); c.Status != corev1.ConditionFalse {
			t.Errorf("condition %+v", c)
		}
	}
	if s := w.record(0); s.Revision != w.set.Status.UpdateRevision || !s.UpdateImages || s.LastContainerStatuses["main"].ImageID != "id of web:1" || batches(s) != "main" {
		t.Errorf("record %+v", s)
	}
	if p.Labels[kruise.LabelRevision] != w.set.Status.UpdateRevision || w.stateOf(0) != kruise.StateUpdating || p.Spec.Containers[0].Image != "web:2" {
		t.Errorf("labels %v", p.Labels)
	}
	w.runKubelet()
	w.expect("Normal 0")
	w.settle()
	w.expect("")
}

// TestInterruptedUpdateContinues checks that the next plan continues after a crash between the first two
// writes.
func TestInterruptedUpdateContinues(t *testing.T) {
	w := newRunningWorld(t, 1, inPlace)
	w.edit(image("web:2"))
	w.expect("create revision")
	d := w.plan()
	d.Actions[0].Then = nil // the second write is lost
	w.carryOut(d)
	if got := w.pod(0).Spec.Containers[0].Image; got != "web:1" || w.stateOf(0) != kruise.StateUpdating {
		t.Fatalf("image %s, state %s", got, w.stateOf(0))
	}
	w.expect("SuccessfulUpdatePodInPlace 0")
	w.settle()
	if w.runs(0) != "web:2 restarts=1" || w.stateOf(0) != kruise.StateNormal {
		t.Errorf("%s, %s", w.runs(0), w.stateOf(0))
	}
}

// TestGracePeriod checks that a pod is not ready for gracePeriodSeconds before its spec is changed.
func TestGracePeriod(t *testing.T) {
	w := newRunningWorld(t, 1, inPlace, func(s *v1alpha1.CloneSetSpec) {
		s.UpdateStrategy.InPlaceUpdateStrategy = &kruise.InPlaceUpdateStrategy{GracePeriodSeconds: 10}
	})
	w.edit(image("web:2"))
	w.expect("create revision")
	w.past.Rejected = map[types.UID]bool{w.pod(0).UID: true}
	if d := w.plan(); w.acts(d) != "UpdatingPodInPlace 0" || d.Wake != 0 {
		t.Errorf("%s, wake %s for a period that does not begin", w.acts(d), d.Wake)
	}
	w.past.Rejected = nil
	if d := w.expect("UpdatingPodInPlace 0"); d.Wake != 10*time.Second {
		t.Errorf("wake %s", d.Wake)
	}
	w.settle()
	w.now = w.now.Add(4 * time.Second)
	if d := w.expect(""); d.Wake != 6*time.Second || w.runs(0) != "web:1 restarts=0" {
		t.Errorf("wake %s, %s", d.Wake, w.runs(0))
	}
	w.pass(6 * time.Second)
	if _, ok := w.pod(0).Annotations[kruise.AnnotationInPlaceGrace]; ok || w.runs(0) != "web:2 restarts=1" || w.stateOf(0) != kruise.StateNormal {
		t.Errorf("%s, %s", w.runs(0), w.stateOf(0))
	}
}

// TestReadyWithinGrace puts a pod back into service while its update in place waits for the grace period, as a write does
// that commits long after its 504: before its containers are changed, the pod is not ready for the whole period again.
func TestReadyWithinGrace(t *testing.T) {
	w := newRunningWorld(t, 1, inPlace, func(s *v1alpha1.CloneSetSpec) {
		s.UpdateStrategy.InPlaceUpdateStrategy = &kruise.InPlaceUpdateStrategy{GracePeriodSeconds: 10}
	})
	w.edit(image("web:2"))
	w.settle()
	w.now = w.now.Add(4 * time.Second)
	w.change(0, func(p *corev1.Pod) {
		p.Labels[kruise.LabelState] = string(kruise.StateNormal)
		for i := range p.Status.Conditions {
			p.Status.Conditions[i].Status = corev1.ConditionTrue
		}
	})
	w.now = w.now.Add(6 * time.Second)
	w.expect("UpdatingPodInPlace 0")
	w.settle()
	if w.stateOf(0) != kruise.StateUpdating || w.runs(0) != "web:1 restarts=0" {
		t.Errorf("%s, %s", w.stateOf(0), w.runs(0))
	}
	w.pass(10 * time.Second)
	if w.runs(0) != "web:2 restarts=1" || w.stateOf(0) != kruise.StateNormal {
		t.Errorf("%s, %s", w.runs(0), w.stateOf(0))
	}
}

// TestGraceWithoutStart checks that an ordered update whose start time was removed does not wait.
func TestGraceWithoutStart(t *testing.T) {
	w := newRunningWorld(t, 1, inPlace, func(s *v1alpha1.CloneSetSpec) {
		s.UpdateStrategy.InPlaceUpdateStrategy = &kruise.InPlaceUpdateStrategy{GracePeriodSeconds: 10}
	})
	w.edit(image("web:2"))
	w.settle()
	w.change(0, func(p *corev1.Pod) { delete(p.Annotations, kruise.AnnotationInPlaceState) })
	w.settle()
	if w.runs(0) != "web:2 restarts=1" || w.stateOf(0) != kruise.StateNormal {
		t.Errorf("%s, %s", w.runs(0), w.stateOf(0))
	}
}

// TestBackWithinGrace checks that a rollback before the containers were changed does not wait for the grace
// period.
func TestBackWithinGrace(t *testing.T) {
	w := newRunningWorld(t, 1, inPlace, func(s *v1alpha1.CloneSetSpec) {
		s.UpdateStrategy.InPlaceUpdateStrategy = &kruise.InPlaceUpdateStrategy{GracePeriodSeconds: 10}
	})
	w.edit(image("web:2"))
	w.settle()
	w.now = w.now.Add(4 * time.Second)
	w.edit(image("web:1"))
	w.settle()
	if _, ok := w.pod(0).Annotations[kruise.AnnotationInPlaceGrace]; ok || w.runs(0) != "web:1 restarts=0" || w.stateOf(0) != kruise.StateNormal || w.updatedPods() != 1 {
		t.Errorf("%v, %s, %s", w.pod(0).Annotations, w.runs(0), w.stateOf(0))
	}
}

// TestGraceOfAnotherRevision checks that an ordered change is dropped if the pod has another revision by then,
// and that the pod gets the right revision.
func TestGraceOfAnotherRevision(t *testing.T) {
	w := newRunningWorld(t, 1, inPlace, func(s *v1alpha1.CloneSetSpec) {
		s.UpdateStrategy.InPlaceUpdateStrategy = &kruise.InPlaceUpdateStrategy{GracePeriodSeconds: 10}
	})
	first := w.pod(0).Labels[kruise.LabelRevision]
	w.edit(image("web:2"))
	w.settle()
	w.change(0, func(p *corev1.Pod) { p.Labels[kruise.LabelRevision] = first }) // another client changes the revision
	paused := func(is bool) func(*v1alpha1.CloneSetSpec) {
		return func(s *v1alpha1.CloneSetSpec) { s.UpdateStrategy.Paused = is }
	}
	w.edit(paused(true))
	w.expect("Dropped 0")
	w.edit(paused(false))
	w.settle()
	w.pass(10 * time.Second)
	if w.runs(0) != "web:2 restarts=1" || w.stateOf(0) != kruise.StateNormal || w.updatedPods() != 1 {
		t.Errorf("%s, %s", w.runs(0), w.stateOf(0))
	}
}

// TestRollbackWhileUpdating checks a rollback before and after a container has restarted: in the end the pod
// runs the old template and is Normal.
func TestRollbackWhileUpdating(t *testing.T) {
	for _, begun := range []bool{false, true} {
		w := newRunningWorld(t, 1, inPlace)
		w.behaves = func(p *corev1.Pod) behaviour {
			if begun {
				return behaviour{unready: []string{"main"}}
			}
			return behaviour{stuck: []string{"main"}}
		}
		w.edit(image("web:2"))
		w.settle()
		w.edit(image("web:1"))
		w.settle()
		w.behaves = nil
		w.settle()
		if got := w.pod(0); got.Status.ContainerStatuses[0].Image != "web:1" || w.stateOf(0) != kruise.StateNormal || w.updatedPods() != 1 || conditionOf(got, string(corev1.PodReady)).Status != corev1.ConditionTrue {
			t.Errorf("begun %t: %s, %s", begun, w.runs(0), w.stateOf(0))
		}
	}
}

// TestSameImageID checks a container whose new image has the same ID as the old one: it counts as restarted
// when the status has the new image name, or when the container ID has changed and an old container would have
// been terminated by then (kruise #635).
func TestSameImageID(t *testing.T) {
	w := newRunningWorld(t, 1, inPlace)
	w.stuckAt("main")
	w.edit(image("web:2"))
	w.settle()
	w.change(0, func(p *corev1.Pod) {
		p.Spec.TerminationGracePeriodSeconds = ptr.To[int64](20)
		p.Status.ContainerStatuses[0].ContainerID = "another"
		p.Status.ContainerStatuses[0].State.Running = &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(w.now)}
	})
	w.expect("")
	if d := w.plan(); d.Wake != 20*time.Second+startMargin {
		t.Errorf("wake in %s", d.Wake)
	}
	w.now = w.now.Add(20*time.Second + startMargin)
	w.expect("Normal 0")

	w = newRunningWorld(t, 1, inPlace)
	w.stuckAt("main")
	w.edit(image("web:2"))
	w.settle()
	w.change(0, func(p *corev1.Pod) { p.Status.ContainerStatuses[0].Image = "web:2" })
	w.expect("Normal 0")
}

// TestCrashOfTheOldContainer checks a container that crashes after its image was changed and that the kubelet
// restarts before it has observed the change: it has another ID and runs the old image. The pod stays not
// ready until the new image runs.
func TestCrashOfTheOldContainer(t *testing.T) {
	for name, crashed := range map[string]func(p *corev1.Pod, s *corev1.ContainerStatus){
		"the same image":    func(*corev1.Pod, *corev1.ContainerStatus) {},
		"its tag was moved": func(_ *corev1.Pod, s *corev1.ContainerStatus) { s.ImageID = "id of another web:1" },
		"its whole name":    func(_ *corev1.Pod, s *corev1.ContainerStatus) { s.Image = "docker.io/library/web:1" },
		"being created":     func(_ *corev1.Pod, s *corev1.ContainerStatus) { s.Image, s.ImageID, s.ContainerID = "web:2", "", "" },
		"the kubelet is behind": func(p *corev1.Pod, s *corev1.ContainerStatus) {
			p.Generation, p.Status.ObservedGeneration = 2, 1
			s.Image, s.ImageID = "web:2", "id of web:2" // whatever the status reports
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newRunningWorld(t, 1, inPlace)
			w.stuckAt("main")
			w.edit(image("web:2"))
			w.settle()
			w.change(0, func(p *corev1.Pod) {
				s := &p.Status.ContainerStatuses[0]
				s.ContainerID, s.RestartCount = "restarted", 1
				s.State.Running = &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(w.now)}
				crashed(p, s)
			})
			w.expect("")
			w.change(0, func(p *corev1.Pod) {
				s := &p.Status.ContainerStatuses[0]
				p.Status.ObservedGeneration = p.Generation
				s.ContainerID, s.Image, s.ImageID = "new", "docker.io/library/web:2", "id of web:2"
			})
			w.expect("Normal 0")
		})
	}
}

// TestUpdateBeforeTheFirstContainer checks that a pod whose image changes before its kubelet has reported a
// container does not become ready when the first reported container runs the old image.
func TestUpdateBeforeTheFirstContainer(t *testing.T) {
	w := newRunningWorld(t, 1, inPlace)
	w.stuckAt("main")
	w.change(0, func(p *corev1.Pod) { p.Status.ContainerStatuses = nil })
	w.edit(image("web:2"))
	for range 4 { // revision, status, the step into Updating, the spec
		w.carryOut(w.plan())
	}
	if was := w.record(0).LastContainerStatuses["main"]; was != (kruise.InPlaceContainerStatus{}) {
		t.Fatalf("a container was recorded: %+v", was)
	}
	w.expect("")
	w.change(0, func(p *corev1.Pod) {
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{
			Name: "main", ContainerID: "first", Image: "web:1", ImageID: "id of web:1",
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(w.now)}},
		}}
	})
	w.expect("")
	w.change(0, func(p *corev1.Pod) { p.Status.ContainerStatuses[0].State = corev1.ContainerState{} })
	w.expect("")
	w.change(0, func(p *corev1.Pod) {
		s := &p.Status.ContainerStatuses[0]
		s.ContainerID, s.Image, s.ImageID = "second", "web:2", "id of web:2"
	})
	w.expect("Normal 0")
}

func TestSameImage(t *testing.T) {
	for _, same := range [][2]string{
		{"web:1", "docker.io/library/web:1"}, {"web", "docker.io/library/web:latest"}, {"team/web:1", "docker.io/team/web:1"},
		{"docker.io/web", "web:latest"}, {"example.com:5000/web", "example.com:5000/web:latest"}, {"localhost/web:1", "localhost/web:1"},
		{"web@sha256:1", "docker.io/library/web@sha256:1"},
	} {
		if !sameImage(same[0], same[1]) {
			t.Errorf("%s and %s are not the same", same[0], same[1])
		}
	}
	for _, other := range [][2]string{{"web:1", "web:2"}, {"web", "web:1"}, {"", "web"}, {"example.com/web", "web"}, {"localhost/web:1", "web:1"}, {"web@sha256:1", "web"}} {
		if sameImage(other[0], other[1]) {
			t.Errorf("%s and %s are the same", other[0], other[1])
		}
	}
}

// TestResizeKeepsTraffic checks that a pod whose cpu or memory changes stays ready, unless its resizePolicy
// demands a restart or an image changes too, and that it is not Normal until the kubelet has resized it.
func TestResizeKeepsTraffic(t *testing.T) {
	resources := func(cpu, memory string) func(*v1alpha1.CloneSetSpec) {
		return func(s *v1alpha1.CloneSetSpec) {
			c := &s.Template.Spec.Containers[0]
			c.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
			c.ResizePolicy = []corev1.ContainerResizePolicy{
				{ResourceName: corev1.ResourceCPU, RestartPolicy: corev1.NotRequired}, {ResourceName: corev1.ResourceMemory, RestartPolicy: corev1.RestartContainer},
			}
		}
	}
	grace := func(s *v1alpha1.CloneSetSpec) {
		s.UpdateStrategy.InPlaceUpdateStrategy = &kruise.InPlaceUpdateStrategy{GracePeriodSeconds: 5}
	}
	for name, c := range map[string]struct {
		change []func(*v1alpha1.CloneSetSpec)
		keeps  bool
	}{
		"cpu":           {[]func(*v1alpha1.CloneSetSpec){resources("2", "1Gi")}, true},
		"memory":        {[]func(*v1alpha1.CloneSetSpec){resources("1", "2Gi")}, false},
		"cpu and label": {[]func(*v1alpha1.CloneSetSpec){resources("2", "1Gi"), withLabel("more", "yes")}, true},
		"cpu and image": {[]func(*v1alpha1.CloneSetSpec){resources("2", "1Gi"), image("web:2")}, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newRunningWorld(t, 1, inPlace, resources("1", "1Gi"), grace)
			w.edit(c.change...)
			w.expect("create revision")
			d := w.plan()
			w.carryOut(d)
			if w.stateOf(0) != kruise.StateUpdating {
				t.Fatalf("%s; %s", w.stateOf(0), w.acts(d))
			}
			ready := func() bool {
				is := func(kind string) bool { return conditionOf(w.pod(0), kind).Status == corev1.ConditionTrue }
				return is(kruise.ConditionInPlaceUpdateReady) && is(string(corev1.PodReady))
			}
			if ready() != c.keeps {
				t.Errorf("it is ready: %t; %s", ready(), w.acts(d))
			}
			if w.expect(""); ready() != c.keeps || w.stateOf(0) != kruise.StateUpdating {
				t.Errorf("then it is ready: %t, %s", ready(), w.stateOf(0))
			}
			w.pass(6 * time.Second)
			if !ready() || w.stateOf(0) != kruise.StateNormal {
				t.Errorf("in the end it is ready: %t, %s", ready(), w.stateOf(0))
			}
		})
	}

	w := newRunningWorld(t, 1, inPlace, resources("1", "1Gi"))
	w.stuckAt("main")
	w.edit(image("web:2"))
	w.settle()
	w.edit(resources("2", "1Gi"))
	w.settle()
	if w.stateOf(0) != kruise.StateUpdating || conditionOf(w.pod(0), kruise.ConditionInPlaceUpdateReady).Status != corev1.ConditionFalse {
		t.Errorf("a resize makes the pod ready before its image is changed: %s", w.stateOf(0))
	}
}

// TestLaunchPriorities compares launchPriorities with what Kruise's webhook computes.
func TestLaunchPriorities(t *testing.T) {
	for words, want := range map[string]string{
		"main redis": "[]", "main": "[]", "main=5": "[]", "main=0 redis=0": "[]", "main=3 redis=3": "[]", "main=x redis": "[]",
		"main=1 redis": "[1 0]", "main redis=-1": "[0 -1]", "main=2 app redis=10": "[2 0 10]",
	} {
		s := &v1alpha1.CloneSetSpec{}
		containers(words)(s)
		if got := fmt.Sprint(launchPriorities(&s.Template)); got != want {
			t.Errorf("%s: %s, want %s", words, got, want)
		}
		s.Template.Annotations = map[string]string{kruise.AnnotationLaunchPriority: kruise.LaunchOrdered}
		ordered := map[int]string{1: "[]", 2: "[0 -1]", 3: "[0 -1 -2]"}[len(s.Template.Spec.Containers)]
		if got := fmt.Sprint(launchPriorities(&s.Template)); got != ordered {
			t.Errorf("%s, Ordered: %s, want %s", words, got, ordered)
		}
	}
	w := newRunningWorld(t, 1, inPlace, containers("main=1 redis"))
	w.behaves = func(*corev1.Pod) behaviour { return behaviour{unready: []string{"main"}} }
	w.edit(imageOf("main", "main:2"), imageOf("redis", "redis:2"))
	w.settle()
	if got := batches(w.record(0)); got != "main" {
		t.Errorf("a container without a priority does not wait: batches %q", got)
	}
	w.behaves = nil
	w.settle()
	if got := batches(w.record(0)); got != "main redis" || w.stateOf(0) != kruise.StateNormal {
		t.Errorf("batches %q, %s", got, w.stateOf(0))
	}
}

// TestPrioritiesOfAnnotations checks that the annotations that a container reads change together with it. A
// deleted annotation cannot wait, because the record of the next batch contains only values.
func TestPrioritiesOfAnnotations(t *testing.T) {
	note := func(value string) func(*v1alpha1.CloneSetSpec) {
		return func(s *v1alpha1.CloneSetSpec) { s.Template.Annotations = map[string]string{"note": value} }
	}
	w := newRunningWorld(t, 1, inPlace, containers("main=1 redis=10"), note("one"), func(s *v1alpha1.CloneSetSpec) {
		s.Template.Spec.Containers[0].Env[0].ValueFrom.FieldRef.FieldPath = "metadata.annotations['note']"
	})
	w.behaves = func(*corev1.Pod) behaviour { return behaviour{unready: []string{"redis"}} }
	w.edit(note("two"), imageOf("redis", "redis:2"))
	w.settle()
	if got := w.pod(0).Annotations["note"]; got != "one" || w.runs(0) != "main:1 restarts=0, redis:2 restarts=1" {
		t.Errorf("annotation %q, %s", got, w.runs(0))
	}
	w.edit(note("three")) // while the container waits
	w.settle()
	w.behaves = nil
	w.settle()
	if got := w.pod(0).Annotations["note"]; got != "three" || w.runs(0) != "main:1 restarts=1, redis:2 restarts=1" || w.stateOf(0) != kruise.StateNormal {
		t.Errorf("annotation %q, %s, %s", got, w.runs(0), w.stateOf(0))
	}
	w.behaves = func(*corev1.Pod) behaviour { return behaviour{unready: []string{"redis"}} }
	w.edit(func(s *v1alpha1.CloneSetSpec) { s.Template.Annotations = nil }, imageOf("redis", "redis:3"))
	w.settle()
	if _, ok := w.pod(0).Annotations["note"]; ok || w.runs(0) != "main:1 restarts=2, redis:3 restarts=2" {
		t.Errorf("annotations %v, %s", w.pod(0).Annotations, w.runs(0))
	}
}
