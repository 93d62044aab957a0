package cloneset

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/rehearse-k8s/rehearse/api/kruise"
	"github.com/rehearse-k8s/rehearse/api/kruise/v1alpha1"
	"github.com/rehearse-k8s/rehearse/internal/workload"
)

// amounts parses the resources of a container: "cpu=100m memory=1Gi", limits after a slash.
func amounts(words string) corev1.ResourceRequirements {
	list := func(words string) corev1.ResourceList {
		l := corev1.ResourceList{}
		for _, word := range strings.Fields(words) {
			name, amount, _ := strings.Cut(word, "=")
			l[corev1.ResourceName(name)] = resource.MustParse(amount)
		}
		return l
	}
	requests, limits, _ := strings.Cut(words, "/")
	return corev1.ResourceRequirements{Requests: list(requests), Limits: list(limits)}
}

func resources(words string) func(*v1alpha1.CloneSetSpec) {
	return func(s *v1alpha1.CloneSetSpec) { s.Template.Spec.Containers[0].Resources = amounts(words) }
}

// TestWhatCanBeChanged checks that only metadata, images, and cpu and memory can be changed in an existing
// pod, and that the reason names any other field that has changed.
func TestWhatCanBeChanged(t *testing.T) {
	type edit = func(*v1alpha1.CloneSetSpec)
	main := func(f func(*corev1.Container)) edit {
		return func(s *v1alpha1.CloneSetSpec) { f(&s.Template.Spec.Containers[0]) }
	}
	for name, c := range map[string]struct {
		was, is edit
		why     string
	}{
		"image":                 {nil, image("web:2"), ""},
		"label":                 {nil, withLabel("a", "b"), ""},
		"a label removed":       {withLabel("a", "b"), func(s *v1alpha1.CloneSetSpec) { delete(s.Template.Labels, "a") }, ""},
		"annotation":            {nil, func(s *v1alpha1.CloneSetSpec) { s.Template.Annotations = map[string]string{"a": "b"} }, ""},
		"what the API fills in": {nil, func(s *v1alpha1.CloneSetSpec) { fill(&s.Template); image("web:2")(s) }, ""},
		"cpu":                   {resources("cpu=1/cpu=2"), resources("cpu=2/cpu=3"), ""},
		"memory":                {resources("memory=1Gi/memory=2Gi"), resources("memory=2Gi/memory=3Gi"), ""},
		"the same amount":       {resources("cpu=1"), resources("cpu=1000m"), ""},
		"Guaranteed":            {resources("cpu=1 memory=1Gi/cpu=2 memory=1Gi"), resources("cpu=2 memory=1Gi/cpu=2 memory=1Gi"), "QoS class"},
		"no longer Guaranteed":  {resources("/cpu=2 memory=1Gi"), resources("cpu=1/cpu=2 memory=1Gi"), "QoS class"},
		"from BestEffort":       {nil, resources("cpu=1"), "QoS class"},
		"a resource removed":    {resources("cpu=1 memory=1Gi"), resources("cpu=1"), "more than cpu and memory"},
		"storage":               {resources("cpu=1 ephemeral-storage=1Gi"), resources("cpu=1 ephemeral-storage=2Gi"), "more than cpu and memory"},
		"a device":              {resources("cpu=1"), resources("cpu=1 gpu=1"), "more than cpu and memory"},
		"command":               {nil, main(func(c *corev1.Container) { c.Command = []string{"x"} }), "spec.template.spec.containers[0]: more than image and resources"},
		"environment":           {nil, main(func(c *corev1.Container) { c.Env = []corev1.EnvVar{{Name: "A", Value: "b"}} }), "spec.template.spec.containers[0]"},
		"name":                  {nil, main(func(c *corev1.Container) { c.Name = "other" }), "spec.template.spec.containers[0]"},
		"one more container": {nil, func(s *v1alpha1.CloneSetSpec) {
			s.Template.Spec.Containers = append(s.Template.Spec.Containers, corev1.Container{Name: "b"})
		}, "the number of containers has changed"},
		"an init container": {nil, func(s *v1alpha1.CloneSetSpec) { s.Template.Spec.InitContainers = []corev1.Container{{Name: "b"}} }, "spec.template.spec: more than containers"},
		"a node selector":   {nil, func(s *v1alpha1.CloneSetSpec) { s.Template.Spec.NodeSelector = map[string]string{"a": "b"} }, "spec.template.spec: more than containers"},
		"finalizer":         {nil, func(s *v1alpha1.CloneSetSpec) { s.Template.Finalizers = []string{"a/b"} }, "spec.template.metadata.finalizers"},
		"a name":            {nil, func(s *v1alpha1.CloneSetSpec) { s.Template.Name = "web" }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			was := c.was
			if was == nil {
				was = func(*v1alpha1.CloneSetSpec) {}
			}
			w := newRunningWorld(t, 1, inPlace, was)
			uid := w.pod(0).UID
			w.edit(c.is)
			w.settle()
			pods := w.active()
			if len(pods) != 1 || w.updatedPods() != 1 {
				t.Fatalf("pods %s", w.states())
			}
			if kept := pods[0].UID == uid; kept != (c.why == "") {
				t.Errorf("the pod is kept: %t", kept)
			}
			w.checkTemplate(pods[0])

			w = newRunningWorld(t, 1, strategy(v1alpha1.InPlaceOnly), was)
			w.edit(c.is)
			w.settle()
			f := condition(&w.set.Status, v1alpha1.FailedUpdate)
			if said := f != nil; said != (c.why != "") || said && !strings.Contains(f.Message, c.why) {
				t.Errorf("condition %+v, want %q", f, c.why)
			}
		})
	}
}

// TestRelabel checks that a pod stays ready when only metadata changes.
func TestRelabel(t *testing.T) {
	w := newRunningWorld(t, 1, inPlace, withLabel("old", "yes"))
	w.edit(withLabel("new", "yes"), func(s *v1alpha1.CloneSetSpec) {
		delete(s.Template.Labels, "old")
		s.Template.Annotations = map[string]string{"note": "x"}
	})
	w.expect("create revision")
	w.expect("SuccessfulUpdatePodInPlace 0")
	p := w.pod(0)
	if _, ok := p.Labels["old"]; ok || p.Labels["new"] != "yes" || p.Annotations["note"] != "x" || p.Labels[kruise.LabelState] != string(kruise.StateNormal) {
		t.Errorf("labels %v, annotations %v", p.Labels, p.Annotations)
	}
	if p.Status.ContainerStatuses[0].RestartCount != 0 || conditionOf(p, string(corev1.PodReady)).Status != corev1.ConditionTrue {
		t.Errorf("status %+v", p.Status)
	}
}

// TestContainersKeepTheirOrder checks that a patch of several containers has their order, not that of their
// names.
func TestContainersKeepTheirOrder(t *testing.T) {
	agent := func(image, cpu string) func(*v1alpha1.CloneSetSpec) {
		return second(corev1.Container{Name: "agent", Image: image, Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)},
		}})
	}
	w := newRunningWorld(t, 2, inPlace, resources("cpu=1"), agent("agent:1", "1"))
	w.edit(image("web:2"), agent("agent:2", "1"))
	w.settle()
	w.edit(resources("cpu=2"), agent("agent:2", "2"))
	w.settle()
	for i := range 2 {
		c := w.pod(i).Spec.Containers
		if c[0].Image != "web:2" || c[1].Image != "agent:2" || c[0].Resources.Requests.Cpu().Value() != 2 || c[1].Resources.Requests.Cpu().Value() != 2 {
			t.Errorf("pod %d: %+v", i, c)
		}
	}
}

// TestLimitsAreRequests checks that a template with limits only gives pods whose requests equal the limits,
// and that another limit changes the requests too.
func TestLimitsAreRequests(t *testing.T) {
	for name, c := range map[string]struct{ was, is, want string }{
		"more":              {"/cpu=1 memory=1Gi", "/cpu=2 memory=1Gi", "cpu=2 memory=1Gi/cpu=2 memory=1Gi"},
		"less":              {"/cpu=2", "/cpu=1", "cpu=1/cpu=1"},
		"requests added":    {"/cpu=2", "cpu=2/cpu=2", "cpu=2/cpu=2"},
		"requests removed":  {"cpu=2/cpu=2", "/cpu=3", "cpu=3/cpu=3"},
		"explicit requests": {"cpu=1/cpu=2", "/cpu=2 memory=1Gi", ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newRunningWorld(t, 1, inPlace, resources(c.was))
			before := w.pod(0).UID
			w.change(0, func(p *corev1.Pod) { p.Spec.Containers[0].Resources = inPod(p.Spec.Containers[0].Resources) }) // as the API server has created it
			w.edit(resources(c.is))
			w.settle()
			if c.want == "" {
				if w.pod(0) != nil && w.pod(0).UID == before {
					t.Error("an existing pod cannot get an additional resource")
				}
				return
			}
			if got, want := w.pod(0).Spec.Containers[0].Resources, amounts(c.want); w.pod(0).UID != before || !equality.Semantic.DeepEqual(got, want) {
				t.Errorf("%v, want %v", got, want)
			}
		})
	}
}

// TestRejectedOrder checks that a pod whose ordered change the API rejects gets the next template, and that
// the controller does not retry the order forever.
func TestRejectedOrder(t *testing.T) {
	annotated := func(value string) func(*v1alpha1.CloneSetSpec) {
		return func(s *v1alpha1.CloneSetSpec) { s.Template.Annotations = map[string]string{"read": value} }
	}
	reads := func(s *v1alpha1.CloneSetSpec) {
		s.Template.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "READ", ValueFrom: &corev1.EnvVarSource{
			FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.annotations['read']"}}}}
	}
	for name, c := range map[string]struct {
		next      []func(*v1alpha1.CloneSetSpec)
		runs      string
		restarted bool
	}{
		"rollback":     {[]func(*v1alpha1.CloneSetSpec){image("web:1"), resources("cpu=1"), annotated("1")}, "web:1 restarts=0", false},
		"next image":   {[]func(*v1alpha1.CloneSetSpec){image("web:3")}, "web:3 restarts=1", false},
		"other pods":   {[]func(*v1alpha1.CloneSetSpec){image("web:3"), strategy(v1alpha1.ReCreate)}, "web:3 restarts=0", true},
		"half of it":   {[]func(*v1alpha1.CloneSetSpec){image("web:1"), annotated("1")}, "web:1 restarts=0", false},
		"another half": {[]func(*v1alpha1.CloneSetSpec){image("web:1")}, "web:1 restarts=1", false},
		"a hook": {[]func(*v1alpha1.CloneSetSpec){image("web:1"), annotated("1"), func(s *v1alpha1.CloneSetSpec) {
			s.Lifecycle = &kruise.Lifecycle{InPlaceUpdate: &kruise.LifecycleHook{LabelsHandler: map[string]string{"held": "yes"}}}
		}}, "web:1 restarts=0", false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newRunningWorld(t, 2, inPlace, resources("cpu=1"), annotated("1"), reads, withLabel("held", "yes"), maxUnavailable(intstr.FromInt32(1)))
			before := map[types.UID]bool{w.pod(0).UID: true, w.pod(1).UID: true}
			w.rejects = func(a *workload.Action) bool { return strings.Contains(asJSON(a.Patch), `"image":"bad"`) }
			w.edit(image("bad"), resources("cpu=2"), annotated("2"))
			for range 6 {
				w.runKubelet()
				w.carryOut(w.plan())
			}
			w.edit(c.next...)
			w.settleWithHooks()
			wanted := w.set.Spec.Template.Spec.Containers[0].Resources.Requests.Cpu()
			for _, p := range w.active() {
				kept := before[p.UID]
				if kept == c.restarted || p.state != kruise.StateNormal || p.InPlaceGrace != "" || p.Ready.Status != corev1.ConditionTrue ||
					p.Containers[0].Resources.Requests.Cpu().Cmp(*wanted) != 0 || w.set.Status.UpdatedReadyReplicas != 2 {
					t.Errorf("%s: kept %t, state %s, order %q, status %+v", p.Name, kept, p.state, p.InPlaceGrace, w.set.Status)
				}
			}
			for slot := range 2 {
				if w.pod(slot) != nil && w.runs(slot) != c.runs {
					t.Errorf("pod %d runs %s, want %s", slot, w.runs(slot), c.runs)
				}
			}
		})
	}
}

// TestResize checks that resources are patched through their own subresource, before anything else.
func TestResize(t *testing.T) {
	w := newRunningWorld(t, 1, inPlace, resources("cpu=1"))
	w.edit(resources("cpu=2"), image("web:2"))
	w.expect("create revision")
	w.expect("UpdatingPodInPlace 0 then Resized 0 then SuccessfulUpdatePodInPlace 0")
	w.settle()
	if got := w.pod(0).Spec.Containers[0].Resources.Requests.Cpu().String(); got != "2" || w.runs(0) != "web:2 restarts=1" {
		t.Errorf("cpu %s, %s", got, w.runs(0))
	}
}
