package clonesets

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/rehearse-k8s/rehearse/api/kruise"
	"github.com/rehearse-k8s/rehearse/api/kruise/v1alpha1"
	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/simtest"
	"github.com/rehearse-k8s/rehearse/test/family"
)

// Case is one CloneSet of the family: its spec, what its pods and the hooks do, and what
// its user changes while it runs.
type Case struct {
	// Seed is what everything of the case was drawn from.
	Seed     int
	Replicas int32
	Spec     v1alpha1.CloneSetSpec
	// Excludes: pods that wait for their preDelete hook are not counted.
	Excludes bool
	Changes  []Change

	// Of ten pods, so many have a container that is never ready, get no node, and are
	// forgotten by the hooks.
	Unready, Unbound, Never int
	Start, Restart, Stop    time.Duration
	SameImage               bool
	// Drain and the next are what hooks do; Born says that pods bear the handlers of
	// preDelete and inPlaceUpdate from the template.
	Drain, Register       time.Duration
	Early, OneByOne, Born bool
	// Notice and the next are those of Behaviour.
	Notice, Kill, Report, Crash, CrashOnChange, Resize time.Duration
}

// Change is what the user does after some time: a patch of the CloneSet, or something to
// one of its pods.
type Change struct {
	After time.Duration
	// Patch is a merge patch of the CloneSet.
	Patch string
	// Recreate deletes the CloneSet without its pods, claims and revisions, and creates it again.
	Recreate bool
	// Pod is what is done to a pod, the one at place Which, by name, among those there are;
	// Fewer takes one off replicas with it.
	Pod   string
	Which int
	Fewer bool
}

// What is done to a pod: it is deleted; the label that asks for its deletion is set, or
// its name is put into podsToDelete; its labels do not match any more.
const (
	deletes   = "delete"
	specifies = "specified-delete"
	names     = "podsToDelete"
	leaves    = "leave"
)

// broken is the tag of images whose containers are never ready.
const broken = "broken"

// Draws are the cases of n seeds from one on.
func Draws(from, n int) []Case { return family.Draws(Draw, from, n) }

// String is the case as people read it.
func (c Case) String() string {
	spec, err := yaml.Marshal(c.set().Spec)
	if err != nil {
		return err.Error()
	}
	text := fmt.Sprintf("case %d: of 10 pods %d are never ready, %d get no node, %d are forgotten by hooks; start %s, restart %s, stop %s, drain %s, register %s; same image %t, early %t, one by one %t, excludes %t\n%s",
		c.Seed, c.Unready, c.Unbound, c.Never, c.Start, c.Restart, c.Stop, c.Drain, c.Register, c.SameImage, c.Early, c.OneByOne, c.Excludes, spec)
	text += fmt.Sprintf("notice %s, kill %s, report %s, crash %s, crash on change %s, resize %s\n", c.Notice, c.Kill, c.Report, c.Crash, c.CrashOnChange, c.Resize)
	for _, change := range c.Changes {
		text += fmt.Sprintf("after %s: %s\n", change.After, change)
	}
	return text
}

// String is the change as people read it.
func (c Change) String() string {
	if c.Recreate {
		return "deleted without its dependents, and created again"
	}
	if c.Pod == "" {
		return c.Patch
	}
	text := fmt.Sprintf("pod %d: %s", c.Which, c.Pod)
	if c.Fewer {
		text += ", and one replica less"
	}
	return text
}

func (c Case) set() *v1alpha1.CloneSet {
	set := SetOf(c.Replicas, (&v1alpha1.CloneSet{Spec: c.Spec}).DeepCopy().Spec)
	if c.Excludes {
		set.Labels = map[string]string{kruise.LabelExcludePreparingDelete: "true"}
	}
	return set
}

// Test tells the case with a controller. What goes wrong is one of some patterns; none
// stands for AnyFault.
func (c Case) Test(controller simtest.Constructor, patterns ...fault.Fault) func(*simtest.World) {
	if len(patterns) == 0 {
		patterns = AnyFault()
	}
	return func(w *simtest.World) {
		open(w, controller, c.behaviour, Timeout)
		if l := c.Spec.Lifecycle; l != nil {
			w.Controller("hooks", Hooks{
				PreDelete: l.PreDelete, InPlaceUpdate: l.InPlaceUpdate, PreNormal: l.PreNormal,
				Drain: c.Drain, Register: c.Register, Early: c.Early, OneByOne: c.OneByOne,
				Never: func(pod *corev1.Pod, in kruise.LifecycleState) bool { return c.draw(pod, 10, string(in)) < c.Never },
			}.Run)
		}
		if len(c.Spec.VolumeClaimTemplates) > 0 {
			w.Controller("claims", Claims)
		}
		if slices.ContainsFunc(c.Changes, func(c Change) bool { return c.Recreate }) {
			collects(w)
		}
		w.Faults(patterns...)
		set := c.set()
		w.Create(set)
		for _, change := range c.Changes {
			w.Advance(change.After)
			change.make(w, set)
		}
		c.farewell(w)
	}
}

// farewell deletes the pods that the user has taken out of the set, some time later: their
// claims may be waiting for it.
func (c Case) farewell(w *simtest.World) {
	if !slices.ContainsFunc(c.Changes, func(c Change) bool { return c.Pod == leaves }) {
		return
	}
	w.Advance(2 * time.Second)
	for _, o := range w.View().List("pods") {
		if o.GetLabels()["app"] != setName {
			Change{Pod: deletes}.pod(w, o)
		}
	}
}

// make makes a change, if there is still something to change. Somebody else may delete
// the set or the pod in the moment before, and so the API's refusal is no mistake.
func (c Change) make(w *simtest.World, set *v1alpha1.CloneSet) {
	if !w.Get(set) || set.DeletionTimestamp != nil {
		return
	}
	if c.Recreate {
		c.recreate(w, set)
		return
	}
	if c.Pod == "" {
		w.Patch(set, types.MergePatchType, c.Patch)
		return
	}
	var there []*unstructured.Unstructured
	for _, o := range w.View().List("pods") {
		if metav1.IsControlledBy(o, set) && o.GetDeletionTimestamp() == nil {
			there = append(there, o)
		}
	}
	if len(there) == 0 {
		return
	}
	pod := there[c.Which%len(there)]
	if c.Pod == names {
		list := set.Spec.ScaleStrategy.PodsToDelete
		if !slices.Contains(list, pod.GetName()) { // the API takes no name twice
			list = append(slices.Clone(list), pod.GetName())
		}
		w.Patch(set, types.MergePatchType, fmt.Sprintf(`{"spec":{"scaleStrategy":{"podsToDelete":["%s"]}}}`, strings.Join(list, `","`)))
	} else {
		c.pod(w, pod)
	}
	if n := ptr.Deref(set.Spec.Replicas, 1); c.Fewer && n > 0 && w.Get(set) {
		w.Patch(set, types.MergePatchType, fmt.Sprintf(`{"spec":{"replicas":%d}}`, n-1))
	}
}

// recreate deletes a CloneSet without its dependents and creates it again, as it was, when it is gone.
func (c Change) recreate(w *simtest.World, set *v1alpha1.CloneSet) {
	client, err := dynamic.NewForConfig(w.Config())
	if err == nil {
		err = client.Resource(v1alpha1.GroupVersion.WithResource(v1alpha1.Resource)).Namespace(set.Namespace).Delete(context.Background(), set.Name,
			metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationOrphan), Preconditions: metav1.NewUIDPreconditions(string(set.UID))})
	}
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		w.Fatalf("%v", err)
	}
	next := &v1alpha1.CloneSet{ObjectMeta: metav1.ObjectMeta{Namespace: set.Namespace, Name: set.Name, Labels: set.Labels}, Spec: set.Spec}
	for range 20 {
		w.Advance(500 * time.Millisecond)
		if !w.Get(set) {
			w.Create(next)
			return
		}
	}
}

func (c Change) pod(w *simtest.World, pod *unstructured.Unstructured) {
	client, err := kubernetes.NewForConfig(w.Config())
	if err != nil {
		w.Fatalf("%v", err)
	}
	pods, ctx := client.CoreV1().Pods(pod.GetNamespace()), context.Background()
	patch := fmt.Sprintf(`{"metadata":{"labels":{%q:"yes"}}}`, kruise.LabelSpecifiedDelete)
	switch c.Pod {
	case deletes:
		_ = pods.Delete(ctx, pod.GetName(), metav1.DeleteOptions{})
		return
	case leaves:
		patch = `{"metadata":{"labels":{"app":"debug"}}}`
	}
	_, _ = pods.Patch(ctx, pod.GetName(), types.MergePatchType, []byte(patch), metav1.PatchOptions{})
}

// draw draws something about a pod, by its name: one of the same name lives the same way.
func (c Case) draw(pod *corev1.Pod, of int, what string) int {
	return fault.Pick(of, uint64(c.Seed), pod.Name, what)
}

// behaviour is how a pod lives.
func (c Case) behaviour(pod *corev1.Pod) Behaviour {
	b := Behaviour{
		Start: c.Start, Restart: c.Restart, Stop: c.Stop, SameImage: c.SameImage,
		Notice: c.Notice, Kill: c.Kill, Report: c.Report, Crash: c.Crash, CrashOnChange: c.CrashOnChange, Resize: c.Resize,
	}
	b.Unbound = c.draw(pod, 10, "unbound") < c.Unbound
	never := c.draw(pod, 10, "unready") < c.Unready
	for i := range pod.Spec.Containers {
		if container := &pod.Spec.Containers[i]; never || strings.HasSuffix(container.Image, ":"+broken) {
			b.Unready = append(b.Unready, container.Name)
		}
	}
	return b
}

// Found is what a search of one case found.
type Found = family.Found[Case]

// Rehearse searches each of some cases for a number of runs, up to the first failure of
// each, and returns those that failed and how many runs there were. It logs what it
// finds, and does not fail the test.
func Rehearse(t testing.TB, controller simtest.Constructor, cases []Case, runs int, patterns ...fault.Fault) (found []Found, played int) {
	t.Helper()
	return family.Rehearse(t, Options().Seeds(runs), controller, cases, patterns...)
}
