package clonesets

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/rehearse-k8s/rehearse/api/kruise"
	"github.com/rehearse-k8s/rehearse/api/kruise/v1alpha1"
	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/internal/sim"
	"github.com/rehearse-k8s/rehearse/simtest"
	"github.com/rehearse-k8s/rehearse/simtest/kubecontrollers"
)

// Repair is the time within which a race must converge after the last fault: watches are connected again and
// the user makes no more changes.
const Repair = 15 * time.Second

// Race is a known way to mislead a CloneSet controller: a scenario, and the faults in it.
type Race struct {
	// Name is the number of kruise's issue, or a keyword; What is a sentence that describes it.
	Name, What string
	// Faults are the only faults. They leave open which event or write they apply to, because that depends on
	// what a controller writes: the search tries all.
	Faults []fault.Fault
	// Runs is the number of runs that suffices to try every single fault.
	Runs int

	replicas  int32
	spec      v1alpha1.CloneSetSpec
	hooks     *Hooks
	behaviour func(*corev1.Pod) Behaviour
	act       func(w *simtest.World, set *v1alpha1.CloneSet) // what the user does after creating it
}

// Test returns the test of the race with a controller.
func (r Race) Test(c simtest.Constructor) func(*simtest.World) {
	return func(w *simtest.World) {
		open(w, c, r.behaviour, Repair)
		if r.hooks != nil {
			w.Controller("hooks", r.hooks.Run)
		}
		if len(r.spec.VolumeClaimTemplates) > 0 {
			w.Controller("claims", Claims)
		}
		w.Faults(r.Faults...)
		set := SetOf(r.replicas, (&v1alpha1.CloneSet{Spec: r.spec}).DeepCopy().Spec)
		w.Create(set)
		if r.act != nil {
			r.act(w, set)
		}
	}
}

// Play searches the race with a controller for a number of runs, up to the first violated invariant. It does
// not fail the test.
func (r Race) Play(t testing.TB, c simtest.Constructor, runs int) *sim.Result {
	t.Helper()
	return simtest.Explore(t, Options().Seeds(runs), r.Test(c))
}

// lags delays events of a resource on their way to the controller; lost replaces them by a new list, which
// does not contain what was created and deleted meanwhile.
func lags(resource string) fault.Fault {
	return fault.Fault{Kind: fault.KindLag, Actor: Actor, Resource: resource}
}

func lost(resource string) fault.Fault {
	return fault.Fault{Kind: fault.KindRelist, Actor: Actor, Resource: resource}
}

// deleted makes another user delete what the controller has just created.
func deleted(resource string) fault.Fault {
	return fault.Fault{Kind: fault.KindDelete, Actor: Actor, Verb: "create", Resource: resource}
}

// Races returns all known races.
func Races() []Race {
	return append(hookRaces(), append(eventRaces(), writeRaces()...)...)
}

// hookRaces are those of kruise issue 2057: the handler that a preNormal hook waits for is added when nothing
// else happens to the pod.
func hookRaces() []Race {
	race := func(name, what string, h Hooks, hook *kruise.LifecycleHook) Race {
		h.PreNormal = hook
		return Race{
			Name: name, What: what, Faults: []fault.Fault{lags("pods"), lost("pods")}, Runs: 140, replicas: 1,
			spec: v1alpha1.CloneSetSpec{Lifecycle: &kruise.Lifecycle{PreNormal: hook}}, hooks: &h,
			act: func(w *simtest.World, _ *v1alpha1.CloneSet) { w.Advance(25 * time.Second) },
		}
	}
	finalizer := &kruise.LifecycleHook{FinalizersHandler: []string{preNormalFinalizer}}
	return []Race{
		race("2057 finalizer", "a pod has been ready for a long time when its preNormal finalizer is added", Hooks{Register: 20 * time.Second}, finalizer),
		race("2057 label", "the same with a label", Hooks{Register: 20 * time.Second}, &kruise.LifecycleHook{LabelsHandler: preNormalLabels}),
		race("2057 early", "the finalizer is added before the pod is ready", Hooks{Early: true}, finalizer),
		race("2057 one by one", "there are two handlers, and one is added after the other", Hooks{Register: 20 * time.Second, OneByOne: true},
			&kruise.LifecycleHook{LabelsHandler: preNormalLabels, FinalizersHandler: []string{preNormalFinalizer, preNormalFinalizer + "-too"}}),
	}
}

// eventRaces are those in which events never arrive.
func eventRaces() []Race {
	claims := func(s v1alpha1.CloneSetSpec) v1alpha1.CloneSetSpec {
		s.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{{
			ObjectMeta: metav1.ObjectMeta{Name: "data"},
			Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
			},
		}}
		return s
	}
	grows := func(w *simtest.World, set *v1alpha1.CloneSet) {
		w.Advance(2 * time.Second)
		scale(w, set, 2)
		w.Advance(2 * time.Second)
	}
	return []Race{
		{
			Name: "2473", What: "a pod fails, as after an eviction by its node: it is replaced",
			Faults: []fault.Fault{lags("pods"), lost("pods")}, Runs: 200, replicas: 1,
			act: func(w *simtest.World, set *v1alpha1.CloneSet) {
				w.Advance(2 * time.Second)
				onFirst(w, set, func(ctx context.Context, c kubernetes.Interface, pod *corev1.Pod) {
					_, _ = c.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType, []byte(`{"status":{"phase":"Failed","reason":"Evicted"}}`), metav1.PatchOptions{}, "status")
				})
			},
		},
		{
			Name: "1785", What: "a pod is created and deleted while the watch is disconnected, and the new list does not contain it",
			Faults: []fault.Fault{lost("pods"), lags("pods")}, Runs: 330, replicas: 1,
			act: func(w *simtest.World, set *v1alpha1.CloneSet) {
				w.Advance(2 * time.Second)
				scale(w, set, 2)
				w.Advance(100 * time.Millisecond)
				if names := madeNames(w, set); len(names) > 0 {
					now := metav1.DeleteOptions{GracePeriodSeconds: new(int64)}
					_ = clientOf(w).CoreV1().Pods(set.Namespace).Delete(context.Background(), names[len(names)-1], now)
				}
				w.Advance(2 * time.Second)
			},
		},
		{
			Name: "1785 claim", What: "the same with a claim",
			Faults: []fault.Fault{deleted("persistentvolumeclaims"), lost("persistentvolumeclaims"), lost("pods")}, Runs: 300, replicas: 1,
			spec: claims(v1alpha1.CloneSetSpec{}), act: grows,
		},
		{
			Name: "1785 same name", What: "a pod is deleted and created again with the same name while the watch is disconnected: the controller never observes its deletion",
			Faults: []fault.Fault{{Kind: fault.KindRelist, Actor: Actor, Resource: "pods", For: 3 * time.Second}, lags("pods")}, Runs: 330, replicas: 2,
			act: func(w *simtest.World, set *v1alpha1.CloneSet) {
				w.Advance(2 * time.Second)
				onFirst(w, set, func(ctx context.Context, c kubernetes.Interface, pod *corev1.Pod) {
					scale(w, set, 1)
					w.Advance(1500 * time.Millisecond)
					again := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Labels: pod.Labels, OwnerReferences: pod.OwnerReferences}, Spec: pod.Spec}
					again.Spec.NodeName = ""
					for _, name := range madeNames(w, set) {
						again.Name = name // the name of the deleted pod is free, the others are not
						_, _ = c.CoreV1().Pods(pod.Namespace).Create(ctx, again.DeepCopy(), metav1.CreateOptions{})
					}
					w.Advance(2 * time.Second)
				})
			},
		},
		{
			Name: "1785 same set", What: "a CloneSet is deleted and created again with the same name while a pod of the first is being created",
			Faults: []fault.Fault{
				deleted("pods"), lost("pods"), lost("clonesets.apps.kruise.io"),
				{Kind: fault.KindLateRequest, Actor: Actor, Verb: "create", Resource: "pods"},
			}, Runs: 300, replicas: 1,
			act: func(w *simtest.World, set *v1alpha1.CloneSet) {
				w.Controller("garbage-collector", kubecontrollers.GarbageCollectorOf("clonesets.apps.kruise.io", "pods", "controllerrevisions.apps"))
				w.Advance(300 * time.Millisecond)
				w.Delete(set)
				w.Advance(300 * time.Millisecond)
				w.Create(SetOf(1, v1alpha1.CloneSetSpec{}))
				w.Advance(2 * time.Second)
			},
		},
		{
			Name: "claims after pods", What: "a CloneSet is deleted without its dependents and created again; the new one observes the pod without an owner, and the claim of that pod later",
			Faults: []fault.Fault{{Kind: fault.KindLag, Actor: Actor, Resource: "persistentvolumeclaims", For: 3 * time.Second}, lost("persistentvolumeclaims")}, Runs: 60, replicas: 1,
			spec: claims(v1alpha1.CloneSetSpec{}),
			act: func(w *simtest.World, set *v1alpha1.CloneSet) {
				collects(w)
				w.Advance(2 * time.Second)
				if w.Get(set) {
					Change{}.recreate(w, set)
				}
				w.Advance(2 * time.Second)
			},
		},
		{
			Name: "1765", What: "a pod that the controller deletes loses its owner reference before it is gone: the event of its deletion has no owner",
			Faults: []fault.Fault{lost("pods"), lags("pods")}, Runs: 270, replicas: 2,
			behaviour: func(*corev1.Pod) Behaviour { return Behaviour{Stop: time.Second} },
			act: func(w *simtest.World, set *v1alpha1.CloneSet) {
				w.Advance(2 * time.Second)
				scale(w, set, 1)
				w.Advance(300 * time.Millisecond)
				for _, o := range w.View().List("pods") {
					if o.GetDeletionTimestamp() == nil {
						continue
					}
					client := clientOf(w)
					_, _ = client.CoreV1().Pods(o.GetNamespace()).Patch(context.Background(), o.GetName(), types.MergePatchType, []byte(`{"metadata":{"ownerReferences":null}}`), metav1.PatchOptions{})
				}
				w.Advance(2 * time.Second)
				scale(w, set, 2)
			},
		},
	}
}

// writeRaces are those about the controller's own writes.
func writeRaces() []Race {
	inPlace := v1alpha1.CloneSetSpec{UpdateStrategy: v1alpha1.CloneSetUpdateStrategy{Type: v1alpha1.InPlaceIfPossible, MaxUnavailable: number(1)}}
	newImage := func(w *simtest.World, set *v1alpha1.CloneSet) {
		w.Advance(2 * time.Second)
		if w.Get(set) {
			w.Patch(set, types.MergePatchType, `{"spec":{"template":{"spec":{"containers":[{"name":"main","image":"web:2"}]}}}}`)
		}
		w.Advance(2 * time.Second)
	}
	claimed := eventRaces()[2].spec
	return []Race{
		{
			Name: "two instead of one", What: "a pod is created, and its event or the answer is late: another one is created",
			Faults: []fault.Fault{lags("pods"), lost("pods"), {Kind: fault.KindLateAnswer, Actor: Actor, Verb: "create", Resource: "pods"}}, Runs: 200, replicas: 2,
		},
		{
			Name: "two at a time", What: "a user specifies two pods for deletion, one after the other, and the events of pods are late: both are deleted at once",
			Faults: []fault.Fault{lags("pods"), lost("pods")}, Runs: 480, replicas: 3, spec: inPlace,
			act: func(w *simtest.World, set *v1alpha1.CloneSet) {
				w.Advance(2 * time.Second)
				names := madeNames(w, set)
				for n := range min(2, len(names)) {
					if w.Get(set) {
						w.Patch(set, types.MergePatchType, fmt.Sprintf(`{"spec":{"scaleStrategy":{"podsToDelete":[%q]}}}`, names[n]))
					}
					w.Advance(300 * time.Millisecond)
				}
				w.Advance(2 * time.Second)
			},
		},
		{
			Name: "2276", What: "an image is changed in place: the pod is not ready before the change",
			Faults: []fault.Fault{lags("pods"), {Kind: fault.KindConflict, Actor: Actor, Resource: "pods"}, {Kind: fault.KindCrash, Actor: Actor}},
			Runs:   200, replicas: 2, spec: inPlace, act: newImage,
		},
		{
			Name: "claims", What: "the deletion of a pod fails after its claims were marked, and then the pod is wanted again",
			Faults: []fault.Fault{
				{Kind: fault.KindTimeout, Actor: Actor, Verb: "delete"}, {Kind: fault.KindTimeout, Actor: Actor, Verb: "patch"},
				{Kind: fault.KindCrash, Actor: Actor, Verb: "delete"},
			},
			Runs: 150, replicas: 2, spec: claimed,
			act: func(w *simtest.World, set *v1alpha1.CloneSet) {
				w.Advance(2 * time.Second)
				scale(w, set, 1)
				w.Advance(500 * time.Millisecond)
				scale(w, set, 2)
				w.Advance(2 * time.Second)
			},
		},
	}
}

// collects adds the garbage collector, for what CloneSets own.
func collects(w *simtest.World) {
	w.Controller("garbage-collector", kubecontrollers.GarbageCollectorOf("clonesets.apps.kruise.io", "pods", "persistentvolumeclaims", "controllerrevisions.apps"))
}

func scale(w *simtest.World, set *v1alpha1.CloneSet, replicas int) {
	if w.Get(set) {
		w.Patch(set, types.MergePatchType, fmt.Sprintf(`{"spec":{"replicas":%d}}`, replicas))
	}
}

func clientOf(w *simtest.World) kubernetes.Interface {
	client, err := kubernetes.NewForConfig(w.Config())
	if err != nil {
		w.Fatalf("%v", err)
	}
	return client
}

// onFirst calls do for the first pod of a set, by name, if there is one.
func onFirst(w *simtest.World, set *v1alpha1.CloneSet, do func(context.Context, kubernetes.Interface, *corev1.Pod)) {
	w.Get(set)
	for _, name := range madeNames(w, set) {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: set.Namespace, Name: name}}
		if w.Get(pod) {
			do(context.Background(), clientOf(w), pod)
			return
		}
	}
}

// madeNames returns the names of all pods that were ever created for a set, in the order of creation.
func madeNames(w *simtest.World, set *v1alpha1.CloneSet) (made []string) {
	run := w.View().Run()
	for i := range run.Steps {
		if s := &run.Steps[i]; s.Verb == "create" && s.Resource == "pods" && s.Subresource == "" && s.Wrote() && s.Namespace == set.Namespace {
			made = append(made, s.Name)
		}
	}
	return made
}
