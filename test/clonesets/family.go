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

// Case is one CloneSet of the family: its spec, the behaviour of its pods and hooks, and the changes that its
// user makes.
type Case struct {
	// Seed is the seed from which the case is drawn.
	Seed     int
	Replicas int32
	Spec     v1alpha1.CloneSetSpec
	// Excludes: pods that wait for their preDelete hook do not count.
	Excludes bool
	Changes  []Change

	// Of ten pods, so many have a container that is never ready, get no node, and are ignored by the hook
	// controller.
	Unready, Unbound, Never int
	Start, Restart, Stop    time.Duration
	SameImage               bool
	// Drain, Register, Early and OneByOne are those of Hooks; Born: pods get the handlers of preDelete and
	// inPlaceUpdate from the template.
	Drain, Register       time.Duration
	Early, OneByOne, Born bool
	// Notice and the following fields are those of Behaviour.
	Notice, Kill, Report, Crash, CrashOnChange, Resize time.Duration
}

// Change is an action of the user after some time: a patch of the CloneSet, or an action on one of its pods.
type Change struct {
	After time.Duration
	// Patch is a merge patch of the CloneSet.
	Patch string
	// Recreate deletes the CloneSet without its pods, claims and revisions, and creates it again.
	Recreate bool
	// Pod is the action on a pod, the one at position Which of the existing pods, by name; Fewer also reduces
	// replicas by one.
	Pod   string
	Which int
	Fewer bool
}

// The actions on a pod: delete it; set the label that specifies its deletion, or add its name to podsToDelete;
// change its labels so that they do not match.
const (
	deletes   = "delete"
	specifies = "specified-delete"
	names     = "podsToDelete"
	leaves    = "leave"
)

// broken is the tag of images whose containers are never ready.
const broken = "broken"

// Draws returns the cases of n consecutive seeds.
func Draws(from, n int) []Case { return family.Draws(Draw, from, n) }

// String returns the case as text.
func (c Case) String() string {
	spec, err := yaml.Marshal(c.set().Spec)
	if err != nil {
		return err.Error()
	}
	text := fmt.Sprintf("case %d: of 10 pods %d are never ready, %d get no node, %d are ignored by hooks; start %s, restart %s, stop %s, drain %s, register %s; same image %t, early %t, one by one %t, excludes %t\n%s",
		c.Seed, c.Unready, c.Unbound, c.Never, c.Start, c.Restart, c.Stop, c.Drain, c.Register, c.SameImage, c.Early, c.OneByOne, c.Excludes, spec)
	text += fmt.Sprintf("notice %s, kill %s, report %s, crash %s, crash on change %s, resize %s\n", c.Notice, c.Kill, c.Report, c.Crash, c.CrashOnChange, c.Resize)
	for _, change := range c.Changes {
		text += fmt.Sprintf("after %s: %s\n", change.After, change)
	}
	return text
}

// String returns the change as text.
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

// Test returns the test of the case with a controller. The faults are some of the patterns; without patterns,
// those of AnyFault.
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
		c.deleteReleased(w)
	}
}

// deleteReleased deletes, some time later, the pods that the user has taken out of the set: their claims may be
// waiting for it.
func (c Case) deleteReleased(w *simtest.World) {
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

// make applies a change, if its object still exists. Another client may delete the set or the pod just before,
// so a rejection by the API is not an error.
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
		if !slices.Contains(list, pod.GetName()) { // the API rejects duplicate names
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

// recreate deletes a CloneSet without its dependents and, when it is gone, creates it again with the same
// spec.
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

// draw draws a property of a pod, keyed by its name: a later pod with the same name gets the same.
func (c Case) draw(pod *corev1.Pod, of int, what string) int {
	return fault.Pick(of, uint64(c.Seed), pod.Name, what)
}

// behaviour returns the behaviour of a pod.
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

// Found is a failure that the search of one case has found.
type Found = family.Found[Case]

// Rehearse searches each of some cases for a number of runs, up to the first failure of each, and returns
// those that failed and how many runs there were. It logs failures, and does not fail the test.
func Rehearse(t testing.TB, controller simtest.Constructor, cases []Case, runs int, patterns ...fault.Fault) (found []Found, played int) {
	t.Helper()
	return family.Rehearse(t, Options().Seeds(runs), controller, cases, patterns...)
}
