package clonesets_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/rehearse-k8s/rehearse/api/kruise"
	"github.com/rehearse-k8s/rehearse/api/kruise/v1alpha1"
	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/history"
	controller "github.com/rehearse-k8s/rehearse/internal/controller/clonesets"
	"github.com/rehearse-k8s/rehearse/invariant"
	"github.com/rehearse-k8s/rehearse/simtest"
	"github.com/rehearse-k8s/rehearse/test/clonesets"
	"github.com/rehearse-k8s/rehearse/test/family"
)

// writesOf returns the controller's writes of pods since a step, as "verb resource code".
func writesOf(w *simtest.World, since int) (writes []string) {
	for _, s := range w.View().Run().Steps[since:] {
		if s.Kind == history.Request && s.Actor == clonesets.Actor && s.Resource == "pods" && history.IsWriteVerb(s.Verb) {
			writes = append(writes, fmt.Sprintf("%s pods %s%d", s.Verb, s.Subresource, s.Code))
		}
	}
	return writes
}

// TestWrites counts requests: two writes for a pod that is created, three for an update in place, one for an
// update of labels, one for a deletion, and no rejected one, with patches and with whole pods.
func TestWrites(t *testing.T) {
	for name, c := range map[string]struct {
		runner func(context.Context, *rest.Config) error
		verb   string // of a change
	}{"patched": {ours, "patch"}, "whole": {fed, "update"}} {
		t.Run(name, func(t *testing.T) {
			simtest.Run(t, clonesets.Options().Seeds(1), func(w *simtest.World) { countWrites(w, c.runner, c.verb) })
		})
	}
}

func countWrites(w *simtest.World, runner func(context.Context, *rest.Config) error, verb string) {
	const n = 4
	set := clonesets.SetOf(n, v1alpha1.CloneSetSpec{UpdateStrategy: v1alpha1.CloneSetUpdateStrategy{
		Type: v1alpha1.InPlaceIfPossible, MaxUnavailable: ptr.To(intstr.FromInt32(n)),
	}})
	w.Controller(clonesets.Actor, runner)
	w.Controller("kubelet", clonesets.Kubelet(nil))
	since := 0
	for _, step := range []struct {
		what, patch string
		want        map[string]int
	}{
		{"created", "", map[string]int{"create pods 201": n, "patch pods status200": n}},
		{"updated in place", `{"spec":{"template":{"spec":{"containers":[{"name":"main","image":"web:2"}]}}}}`, map[string]int{verb + " pods status200": 2 * n, verb + " pods 200": n}},
		{"relabelled", `{"spec":{"template":{"metadata":{"labels":{"more":"yes"},"annotations":{"note":"x"}}}}}`, map[string]int{verb + " pods 200": n}},
		{"deleted", `{"spec":{"replicas":0}}`, map[string]int{"delete pods 200": n}},
	} {
		if step.patch == "" {
			w.Create(set)
		} else {
			w.Patch(set, types.MergePatchType, step.patch)
		}
		w.Settle()
		got := map[string]int{}
		for _, write := range writesOf(w, since) {
			if step.patch == "" { // the kubelet writes at the same time; the controller sends pods whole that the kubelet has written
				write = strings.Replace(write, "update", "patch", 1)
			}
			got[write]++
		}
		if fmt.Sprint(got) != fmt.Sprint(step.want) {
			w.Fatalf("%d pods %s: writes %v, want %v", n, step.what, got, step.want)
		}
		since = len(w.View().Run().Steps)
	}
}

// TestConflictIsDecidedAgain lets another client write a pod right before each of the three writes of an update in
// place, which send the whole pod: the API rejects the write, and the controller decides again. Until it has observed
// the other client's write, the API rejects its writes; then it sends the new version of the pod.
func TestConflictIsDecidedAgain(t *testing.T) {
	next := map[string]string{ // the writes before the rejected one, and the next one
		"":                                      "update pods status200",
		"update pods status200":                 "update pods 200",
		"update pods status200,update pods 200": "update pods status200",
	}
	met := map[string]bool{}
	result := simtest.Explore(t, clonesets.Options().Seeds(20), func(w *simtest.World) {
		w.Controller(clonesets.Actor, fed)
		w.Controller("kubelet", clonesets.Kubelet(nil))
		w.Faults(fault.Fault{Kind: fault.KindConflict, Actor: clonesets.Actor, Verb: "update", Resource: "pods"})
		set := clonesets.SetOf(1, v1alpha1.CloneSetSpec{UpdateStrategy: v1alpha1.CloneSetUpdateStrategy{Type: v1alpha1.InPlaceOnly}})
		w.Create(set)
		w.Settle()
		since := len(w.View().Run().Steps)
		w.Patch(set, types.MergePatchType, `{"spec":{"template":{"spec":{"containers":[{"name":"main","image":"web:2"}]}}}}`)
		w.Settle()
		got := writesOf(w, since)
		rejected := slices.IndexFunc(got, func(s string) bool { return strings.HasSuffix(s, "409") })
		if rejected < 0 {
			return
		}
		before := strings.Join(got[:rejected], ",")
		met[before] = true
		then := slices.DeleteFunc(got[rejected:], func(s string) bool { return strings.HasSuffix(s, "409") })
		if want, ok := next[before]; !ok || len(then) == 0 || then[0] != want {
			w.Fatalf("before: %s; then: %v", before, then)
		}
	})
	if result.Failure != nil {
		t.Error(said(result.Failure))
	}
	if len(met) < len(next) {
		t.Errorf("only %v were rejected", met)
	}
}

// TestContainersKeepTheirOrder updates two containers in place whose names are not sorted: the API rejects a
// pod whose containers are reordered, which is what a merge with a sorted list does. (Resizes need a node that
// admission knows: test/clonesets/e2e.)
func TestContainersKeepTheirOrder(t *testing.T) {
	for name, runner := range map[string]func(context.Context, *rest.Config) error{"patched": ours, "whole": fed} {
		t.Run(name, func(t *testing.T) {
			simtest.Run(t, clonesets.Options().Seeds(1), func(w *simtest.World) {
				w.Controller(clonesets.Actor, runner)
				w.Controller("kubelet", clonesets.Kubelet(nil))
				set := clonesets.SetOf(1, v1alpha1.CloneSetSpec{UpdateStrategy: v1alpha1.CloneSetUpdateStrategy{Type: v1alpha1.InPlaceOnly}})
				set.Spec.Template.Spec.Containers = []corev1.Container{{Name: "main", Image: "web:1"}, {Name: "agent", Image: "agent:1"}}
				w.Create(set)
				w.Settle()
				w.Patch(set, types.MergePatchType, `{"spec":{"template":{"spec":{"containers":[{"name":"main","image":"web:2"},{"name":"agent","image":"agent:2"}]}}}}`)
				w.Settle()
				is := pods(w)[0]
				w.Get(is)
				w.Get(set)
				if c := is.Spec.Containers; c[0].Image != "web:2" || c[1].Image != "agent:2" {
					w.Fatalf("%v: %s and %s", set.Status.Conditions, c[0].Image, c[1].Image)
				}
			})
		})
	}
}

func claims() []corev1.PersistentVolumeClaim {
	claim := corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "data"}}
	claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	return []corev1.PersistentVolumeClaim{claim}
}

// TestClaimIsRepaired checks that a claim that is deleted while its pod has no node, so that no finalizer
// protects it, is created again.
func TestClaimIsRepaired(t *testing.T) {
	simtest.Run(t, clonesets.Options().Seeds(1), func(w *simtest.World) {
		w.Controller(clonesets.Actor, ours)
		w.Controller("kubelet", clonesets.Kubelet(func(*corev1.Pod) clonesets.Behaviour { return clonesets.Behaviour{Unbound: true} }))
		w.Create(clonesets.SetOf(1, v1alpha1.CloneSetSpec{VolumeClaimTemplates: claims()}))
		w.Settle()
		was := w.View().List("persistentvolumeclaims")[0]
		w.Patch(was, types.MergePatchType, `{"metadata":{"finalizers":null}}`)
		w.Delete(was)
		w.Settle()
		if is := w.View().Get("persistentvolumeclaims", was.GetNamespace(), was.GetName()); is == nil || is.GetUID() == was.GetUID() {
			w.Fatalf("claim %s: %v", was.GetName(), is)
		}
	})
}

// TestUnreadableSet checks a template that the API accepts and that cannot be decoded: the status of the set
// reports it, no other set is affected, and the set continues after a fix.
func TestUnreadableSet(t *testing.T) {
	simtest.Run(t, clonesets.Options().Seeds(1), func(w *simtest.World) {
		w.Controller(clonesets.Actor, ours)
		w.Controller("kubelet", clonesets.Kubelet(nil))
		good, bad := clonesets.SetOf(1, v1alpha1.CloneSetSpec{}), clonesets.SetOf(1, v1alpha1.CloneSetSpec{})
		bad.Name, bad.Spec.Template.Labels["app"], bad.Spec.Selector.MatchLabels["app"] = "bad", "bad", "bad"
		w.Create(good)
		w.Create(bad)
		w.Settle()
		const template = `{"spec":{"template":{"spec":{"containers":[{"name":"main","image":"web:2","resources":%s}]}}}}`
		named := &unstructured.Unstructured{} // this test cannot decode it either
		named.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(v1alpha1.Kind))
		named.SetNamespace(bad.Namespace)
		named.SetName(bad.Name)
		w.Patch(named, types.MergePatchType, fmt.Sprintf(template, `{"requests":{"cpu":"much"}}`))
		w.Patch(good, types.MergePatchType, `{"spec":{"replicas":3}}`)
		w.Settle()
		status := func(name string) (s v1alpha1.CloneSetStatus) {
			u := w.View().Get("clonesets.apps.kruise.io", "default", name)
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object["status"].(map[string]any), &s); err != nil {
				w.Fatalf("%v", err)
			}
			return s
		}
		if s := status("web"); s.AvailableReplicas != 3 {
			w.Fatalf("%+v", s)
		}
		if s := status("bad"); s.AvailableReplicas != 1 || len(s.Conditions) != 2 || s.Conditions[0].Reason != "Unreadable" || s.ObservedGeneration != 2 {
			w.Fatalf("%+v", s)
		}
		w.Patch(named, types.MergePatchType, fmt.Sprintf(template, "null"))
		w.Settle()
		if s := status("bad"); s.UpdatedAvailableReplicas != 1 || len(s.Conditions) != 0 {
			w.Fatalf("%+v", s)
		}
	})
}

// TestOneOfMany checks, for several ways to block one pod, that all others continue.
func TestOneOfMany(t *testing.T) {
	for name, act := range map[string]func(w *simtest.World, set *v1alpha1.CloneSet){
		"a hook blocks one that is specified for deletion": func(w *simtest.World, set *v1alpha1.CloneSet) {
			set.Spec.Lifecycle = &kruise.Lifecycle{PreDelete: &kruise.LifecycleHook{LabelsHandler: map[string]string{"held": "yes"}}}
			w.Create(set)
			w.Settle()
			if len(pods(w)) == 0 {
				return // the controller has not observed the set yet
			}
			if len(pods(w)) < 5 {
				w.Advance(time.Minute) // a create waits for its answer; with two pods, none of them would be surplus
			}
			held := pods(w)[0]
			w.Patch(held, types.MergePatchType, `{"metadata":{"labels":{"held":"yes","apps.kruise.io/specified-delete":"true"}}}`)
			w.Settle()
			w.Patch(set, types.MergePatchType, `{"spec":{"replicas":2}}`)
			w.Eventually(time.Minute, setField("status.replicas", 3)) // including the blocked one
			w.Eventually(time.Minute, setField("status.availableReplicas", 2))
			w.Eventually(2*time.Minute, setField("status.conditions[0].type", "HookPending"))
		},
		"a claim's name belongs to another owner": func(w *simtest.World, set *v1alpha1.CloneSet) {
			set.Spec.VolumeClaimTemplates = claims()
			set.Spec.Replicas = ptr.To[int32](1)
			w.Create(set)
			w.Settle()
			// Claim names depend on the set and cannot be taken in advance, so the test changes the owner of
			// an existing claim.
			theirs := &unstructured.Unstructured{}
			theirs.SetAPIVersion("v1")
			theirs.SetKind("PersistentVolumeClaim")
			list := w.View().List("persistentvolumeclaims")
			if len(list) == 0 || len(pods(w)) == 0 {
				return // the controller has not observed the set yet
			}
			theirs.SetNamespace("default")
			theirs.SetName(list[0].GetName())
			w.Patch(theirs, types.MergePatchType, `{"metadata":{"ownerReferences":null,"labels":{"apps.kruise.io/cloneset-instance-id":"none"}}}`)
			w.Delete(pods(w)[0])
			w.Patch(set, types.MergePatchType, `{"spec":{"replicas":3}}`)
			w.Eventually(2*time.Minute, setField("status.availableReplicas", 3))
		},
		"one has failed": func(w *simtest.World, set *v1alpha1.CloneSet) {
			w.Create(set)
			w.Settle()
			if len(pods(w)) == 0 {
				return // the controller has not observed the set yet
			}
			w.Patch(pods(w)[0], types.MergePatchType, `{"status":{"phase":"Failed","reason":"Evicted"}}`, "status")
			w.Eventually(time.Minute, setField("status.availableReplicas", 5))
		},
	} {
		t.Run(name, func(t *testing.T) {
			simtest.Run(t, clonesets.Options().Seeds(100), func(w *simtest.World) {
				w.AllowDifferentOutcomes()
				w.Controller(clonesets.Actor, ours)
				w.Controller("kubelet", clonesets.Kubelet(nil))
				w.Faults(clonesets.AnyFault()...)
				w.Except(fault.Of(fault.KindRecreate)) // the user expects pods after it has waited once
				act(w, clonesets.SetOf(5, v1alpha1.CloneSetSpec{}))
			})
		})
	}
}

func setField(path string, want any) invariant.Invariant {
	return invariant.Field("clonesets.apps.kruise.io", "default", "web", path, want)
}

// pods returns the pods of the set, by name.
func pods(w *simtest.World) (all []*corev1.Pod) {
	for _, u := range w.View().List("pods") {
		all = append(all, &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: metav1.ObjectMeta{Namespace: u.GetNamespace(), Name: u.GetName()}})
	}
	slices.SortFunc(all, func(a, b *corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// TestOrphans deletes a set without its pods and creates it again: the new set adopts the pods and the
// revision, and creates none.
func TestOrphans(t *testing.T) {
	simtest.Run(t, clonesets.Options().Seeds(1), func(w *simtest.World) {
		w.Controller(clonesets.Actor, ours)
		w.Controller("kubelet", clonesets.Kubelet(nil))
		for i := range 3 {
			w.Create(&corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("lone-", i), Labels: map[string]string{"app": "web"}},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "web:1"}}, TerminationGracePeriodSeconds: ptr.To[int64](1)},
			})
		}
		w.Settle()
		set := clonesets.SetOf(3, v1alpha1.CloneSetSpec{UpdateStrategy: v1alpha1.CloneSetUpdateStrategy{Paused: true}})
		w.Create(set)
		w.Settle()
		for _, u := range w.View().List("pods") {
			if metav1.GetControllerOf(u) == nil || !strings.HasPrefix(u.GetName(), "lone-") {
				w.Fatalf("pod %s: controlled by %v", u.GetName(), metav1.GetControllerOf(u))
			}
		}
		if n := len(w.View().List("pods")); n != 3 {
			w.Fatalf("there are %d pods", n)
		}
	})
}

// TestRejectedAdoption checks that a pod that no client may change (a policy, a failing webhook) is not
// adopted, that the status reports it, and that the set still gets its pods.
func TestRejectedAdoption(t *testing.T) {
	for name, answer := range map[string]*apierrors.StatusError{
		"forbidden": apierrors.NewForbidden(corev1.Resource("pods"), "lone", errors.New("denied by policy")),
		"fails":     apierrors.NewInternalError(errors.New("denied by policy: the webhook is unavailable")),
	} {
		t.Run(name, func(t *testing.T) {
			simtest.Run(t, clonesets.Options().Seeds(1), func(w *simtest.World) {
				w.Controller(clonesets.Actor, family.Rejecting("/pods/lone", answer, ours))
				w.Controller("kubelet", clonesets.Kubelet(nil))
				w.Create(&corev1.Pod{
					ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "lone", Labels: map[string]string{"app": "web"}},
					Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "web:1"}}},
				})
				set := clonesets.SetOf(3, v1alpha1.CloneSetSpec{})
				w.Create(set)
				w.Eventually(time.Minute, setField("status.availableReplicas", 3))
				w.Settle()
				w.Get(set)
				if c := set.Status.Conditions; len(c) != 1 || c[0].Type != v1alpha1.FailedUpdate || !strings.Contains(c[0].Message, "denied by policy") {
					w.Fatalf("%+v", c)
				}
			})
		})
	}
}

// TestLeftBehind deletes a set in the way of `kubectl delete --cascade=orphan` and the garbage collector, and
// creates one with the same name: it adopts the pods, claims and revisions, and knows the revisions of the
// pods, so that it can update them in place.
func TestLeftBehind(t *testing.T) {
	simtest.Run(t, clonesets.Options().Seeds(1), func(w *simtest.World) {
		w.Controller(clonesets.Actor, ours)
		w.Controller("kubelet", clonesets.Kubelet(nil))
		w.Controller("claims", clonesets.Claims)
		spec := v1alpha1.CloneSetSpec{UpdateStrategy: v1alpha1.CloneSetUpdateStrategy{Type: v1alpha1.InPlaceOnly}, VolumeClaimTemplates: claims()}
		all := []string{"pods", "persistentvolumeclaims", "controllerrevisions.apps"}
		set := clonesets.SetOf(2, spec)
		w.Create(set)
		w.Settle()
		image := `{"spec":{"template":{"spec":{"containers":[{"name":"main","image":%q}]}}}}`
		w.Patch(set, types.MergePatchType, fmt.Sprintf(image, "web:2"))
		w.Settle()
		w.Patch(set, types.MergePatchType, `{"metadata":{"finalizers":["example.com/orphans"]}}`)
		w.Delete(set)
		was := map[types.UID]bool{}
		for _, resource := range all {
			for _, u := range w.View().List(resource) {
				was[u.GetUID()] = true
				w.Patch(u, types.StrategicMergePatchType, fmt.Sprintf(`{"metadata":{"uid":%q,"ownerReferences":[{"$patch":"delete","uid":%q}]}}`, u.GetUID(), set.UID))
			}
		}
		w.Patch(set, types.MergePatchType, `{"metadata":{"finalizers":null}}`)
		w.Settle()
		// The revision of another workload, such as a DaemonSet, differs only in its name.
		other := &appsv1.ControllerRevision{}
		left := w.View().List("controllerrevisions.apps")[0]
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(left.Object, other); err != nil {
			w.Fatalf("%v", err)
		}
		other.ObjectMeta = metav1.ObjectMeta{Namespace: left.GetNamespace(), Name: "web-5d4f", Labels: left.GetLabels()}
		w.Create(other)
		again := clonesets.SetOf(2, spec)
		again.Spec.Template.Spec.Containers[0].Image = "web:3"
		w.Create(again)
		w.Settle()
		w.Get(again)
		if again.Status.UpdatedReadyReplicas != 2 {
			w.Fatalf("status %+v", again.Status)
		}
		for _, resource := range all {
			for _, u := range w.View().List(resource) {
				if u.GetName() == other.Name {
					if metav1.GetControllerOf(u) != nil {
						w.Fatalf("another owner's revision is controlled by %v", metav1.GetControllerOf(u))
					}
					continue
				}
				if ref := metav1.GetControllerOf(u); ref == nil || ref.UID != again.UID || !was[u.GetUID()] && resource != "controllerrevisions.apps" {
					w.Fatalf("%s %s: controlled by %v, from before: %t", resource, u.GetName(), ref, was[u.GetUID()])
				}
			}
		}
		if n := len(w.View().List("controllerrevisions.apps")); n != 4 {
			w.Fatalf("there are %d revisions", n)
		}
	})
}

// TestEvents checks the Events that `kubectl describe cloneset` shows.
func TestEvents(t *testing.T) {
	withEvents := func(ctx context.Context, config *rest.Config) error {
		return controller.Runner(controller.Options{Workers: 1, Writes: 1, Audit: -1, Events: config})(ctx, config)
	}
	simtest.Run(t, clonesets.Options().Seeds(1), func(w *simtest.World) {
		set := clonesets.SetOf(2, v1alpha1.CloneSetSpec{UpdateStrategy: v1alpha1.CloneSetUpdateStrategy{Type: v1alpha1.InPlaceIfPossible}})
		w.Controller(clonesets.Actor, withEvents)
		w.Controller("kubelet", clonesets.Kubelet(nil))
		w.Create(set)
		w.Settle()
		w.Patch(set, types.MergePatchType, `{"spec":{"template":{"spec":{"containers":[{"name":"main","image":"web:2"}]}}}}`)
		w.Settle()
		w.Patch(set, types.MergePatchType, `{"spec":{"replicas":1}}`)
		w.Settle()
		w.Patch(set, types.MergePatchType, `{"spec":{"replicas":3,"scaleStrategy":{"maxUnavailable":1}}}`)
		w.Settle()
		w.Patch(set, types.MergePatchType, `{"spec":{"template":{"spec":{"containers":[{"name":"main","image":"web:2","args":["x"]}]}}}}`)
		w.Settle()
		w.Patch(set, types.MergePatchType, `{"spec":{"replicas":4,"template":{"spec":{"priorityClassName":"none-of-these"}}}}`)
		w.Advance(time.Minute)
		for _, reason := range []string{
			"SuccessfulCreate", "SuccessfulUpdatePodInPlace", "SuccessfulDelete", "FailedCreate", "ScaleUpLimited", "SuccessfulUpdatePodReCreate",
		} {
			if !slices.ContainsFunc(w.View().List("events"), func(u *unstructured.Unstructured) bool {
				is, _, _ := unstructured.NestedString(u.Object, "reason")
				return is == reason
			}) {
				w.Fatalf("no Event %s was emitted", reason)
			}
		}
	})
}
