package simtest_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/inject"
	"github.com/rehearse-k8s/rehearse/internal/sim"
	"github.com/rehearse-k8s/rehearse/simtest"
)

// parents is a controller that creates a child for each Deployment that it lists or watches, with an owner reference, and
// removes the finalizer of a Deployment that is deleted after ten seconds. It records the UIDs and replicas of the
// Deployments that it observes.
type parents struct{ observed []string }

func (p *parents) run(ctx context.Context, config *rest.Config) error {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	list, err := client.AppsV1().Deployments("default").List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range list.Items {
		p.observe(ctx, client, "LIST", &list.Items[i])
	}
	events, err := client.AppsV1().Deployments("default").Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	if err != nil {
		return err
	}
	for e := range events.ResultChan() {
		if d, ok := e.Object.(*appsv1.Deployment); ok {
			p.observe(ctx, client, string(e.Type), d)
		}
	}
	<-ctx.Done()
	return nil
}

func (p *parents) observe(ctx context.Context, client kubernetes.Interface, how string, d *appsv1.Deployment) {
	p.observed = append(p.observed, fmt.Sprintf("%s %d", how, *d.Spec.Replicas))
	switch {
	case d.DeletionTimestamp != nil && len(d.Finalizers) > 0:
		time.Sleep(10 * time.Second)
		_, _ = client.AppsV1().Deployments("default").Patch(ctx, d.Name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null,"annotations":{"by":"controller"}}}`), metav1.PatchOptions{})
	case how != "DELETED":
		child := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			GenerateName: "child-", OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(d, appsv1.SchemeGroupVersion.WithKind("Deployment"))},
		}}
		_, _ = client.CoreV1().ConfigMaps("default").Create(ctx, child, metav1.CreateOptions{})
	}
}

func parent(finalizers ...string) *appsv1.Deployment {
	labels := map[string]string{"app": "web"}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Finalizers: finalizers, Annotations: map[string]string{"by": "user"}},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To[int32](2), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "web:1"}}}},
		},
	}
}

const onWeb = " actor=parents verb=create resource=configmaps target=deployments.apps/default/web"

// playParents executes a run and returns what the controller observed, and the Deployment and its children at the end.
func playParents(t *testing.T, do func(*simtest.World, *appsv1.Deployment), d *appsv1.Deployment, texts ...string) (out *sim.Outcome, observed, end string) {
	t.Helper()
	faults, err := fault.ParseAll(texts)
	must(t, err)
	p := &parents{}
	out = simtest.Play(t, simtest.Options{}, sim.Plan{Faults: faults}, func(w *simtest.World) {
		w.Create(d)
		first := d.DeepCopy()
		w.Controller("parents", p.run)
		w.Advance(5 * time.Second)
		do(w, d)
		w.Advance(time.Minute)
		for _, o := range w.View().List("deployments.apps") {
			replicas, _, _ := nested(o.Object, "spec", "replicas")
			image := o.Object["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)["containers"].([]any)[0].(map[string]any)["image"]
			end = fmt.Sprintf("by %s, %v of %v, new UID %t;", o.GetAnnotations()["by"], replicas, image, o.GetUID() != first.UID)
		}
		for _, o := range w.View().List("configmaps") {
			owner := metav1.GetControllerOf(o)
			end += fmt.Sprintf(" child of old UID %t;", owner.UID == first.UID)
		}
	})
	return out, strings.Join(p.observed, ", "), end
}

func nested(o map[string]any, path ...string) (value any, ok bool, err error) {
	for _, name := range path[:len(path)-1] {
		o, _ = o[name].(map[string]any)
	}
	value, ok = o[path[len(path)-1]]
	return value, ok, nil
}

func newImage(w *simtest.World, d *appsv1.Deployment) {
	w.Patch(d, types.StrategicMergePatchType, `{"spec":{"template":{"spec":{"containers":[{"name":"main","image":"web:2"}]}}}}`)
}

// TestRecreate: an object of the user is created again with what the user wrote, not with what controllers wrote, once its
// finalizers are gone. Dependents of the old one are collected, also one that the controller creates later. An object that
// the user deletes meanwhile is not created again.
func TestRecreate(t *testing.T) {
	nothing := func(*simtest.World, *appsv1.Deployment) {}
	for name, c := range map[string]struct {
		do            func(*simtest.World, *appsv1.Deployment)
		finalizer     string
		faults        []string
		observed, end string
	}{
		"at once": {nothing, "", []string{"recreate" + onWeb},
			"LIST 2, DELETED 2, ADDED 2", "by user, 2 of web:1, new UID true; child of old UID false;"},
		"before an edit of the user": {newImage, "", []string{"recreate" + onWeb},
			"LIST 2, DELETED 2, ADDED 2, MODIFIED 2", "by user, 2 of web:2, new UID true; child of old UID false; child of old UID false;"},
		"after an edit of the user": {newImage, "", []string{"recreate nth=2" + onWeb},
			"LIST 2, MODIFIED 2, DELETED 2, ADDED 2", "by user, 2 of web:2, new UID true; child of old UID false;"},
		"with a finalizer": {newImage, "x.example/y", []string{"recreate" + onWeb},
			// The controller observes the second MODIFIED late, and patches the new object by its name.
			"LIST 2, MODIFIED 2, MODIFIED 2, DELETED 2, ADDED 2, MODIFIED 2", "by controller, 2 of web:2, new UID true; child of old UID false; child of old UID false;"},
		"the user deletes it": {func(w *simtest.World, d *appsv1.Deployment) { w.Delete(d) }, "x.example/y", []string{"recreate" + onWeb},
			"LIST 2, MODIFIED 2, DELETED 2", ""},
		"a child that comes late": {nothing, "", []string{"recreate" + onWeb, "late-request verb=create resource=configmaps nth=2 for=20s actor=parents", "lag actor=parents resource=deployments.apps for=30s"},
			"LIST 2, DELETED 2, ADDED 2", "by user, 2 of web:1, new UID true; child of old UID false;"},
		"edits": {nothing, "", []string{"edit" + onWeb},
			"LIST 2, MODIFIED 1, MODIFIED 2", "by user, 2 of web:1, new UID false; child of old UID true; child of old UID true; child of old UID true;"},
		"a recreate while the controller is down": {nothing, "", []string{"crash-after for=30s actor=parents verb=create resource=configmaps", "recreate" + onWeb},
			"LIST 2, LIST 2", "by user, 2 of web:1, new UID true; child of old UID false;"},
		"an edit while the controller is down": {nothing, "", []string{"crash-after for=30s actor=parents verb=create resource=configmaps", "edit" + onWeb},
			"LIST 2, LIST 2", "by user, 2 of web:1, new UID false; child of old UID true; child of old UID true;"},
		"a deletion": {nothing, "", []string{"delete" + onWeb}, "LIST 2, DELETED 2", ""},
	} {
		t.Run(name, func(t *testing.T) {
			var finalizers []string
			if c.finalizer != "" {
				finalizers = append(finalizers, c.finalizer)
			}
			out, observed, end := playParents(t, c.do, parent(finalizers...), c.faults...)
			if observed != c.observed || end != c.end || out.Run.Failure != nil {
				t.Errorf("\nobserved %q\nwant     %q\nend  %q\nwant %q\n%v", observed, c.observed, end, c.end, out.Run.Failure)
			}
			if len(out.Unmet) > 0 {
				t.Errorf("unmet: %v", out.Unmet)
			}
			again, _, _ := playParents(t, c.do, parent(finalizers...), c.faults...)
			if n, differs := history.Diverged(out.Run, again.Run); differs {
				t.Errorf("the run does not repeat: step %d", n)
			}
		})
	}
}

// TestRecreationWithoutManifest: the API accepts an object again whose manifest is not known, because it is older than the run, and the new one has the
// content of the old one.
func TestRecreationWithoutManifest(t *testing.T) {
	template := corev1.PodTemplateSpec{Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
	named := metav1.ObjectMeta{Namespace: "default", Name: "o"}
	for resource, o := range map[string]simtest.Object{
		"batch/v1/jobs":  &batchv1.Job{ObjectMeta: named, Spec: batchv1.JobSpec{Template: template, Completions: ptr.To[int32](2), Parallelism: ptr.To[int32](2)}},
		"/v1/pods":       &corev1.Pod{ObjectMeta: named, Spec: template.Spec},
		"/v1/services":   &corev1.Service{ObjectMeta: named, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}},
		"/v1/configmaps": &corev1.ConfigMap{ObjectMeta: named, Data: map[string]string{"a": "b"}},
		"apps/v1/replicasets": &appsv1.ReplicaSet{ObjectMeta: named, Spec: appsv1.ReplicaSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}}, Spec: corev1.PodSpec{Containers: template.Spec.Containers}},
		}},
	} {
		out := simtest.Play(t, simtest.Options{}, sim.Plan{}, func(w *simtest.World) {
			ctx, parts := context.Background(), strings.Split(resource, "/") // a context of the test is outside of the run's bubble
			client, err := dynamic.NewForConfig(w.Config())
			if err != nil {
				w.Fatalf("%v", err)
			}
			objects := client.Resource(schema.GroupVersionResource{Group: parts[0], Version: parts[1], Resource: parts[2]}).Namespace("default")
			w.Create(o)
			old, err := objects.Get(ctx, "o", metav1.GetOptions{})
			if err != nil {
				w.Fatalf("%v", err)
			}
			if err := objects.Delete(ctx, "o", metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0), PropagationPolicy: ptr.To(metav1.DeletePropagationBackground)}); err != nil {
				w.Fatalf("%v", err)
			}
			again := &unstructured.Unstructured{}
			if err := again.UnmarshalJSON(inject.Recreation(nil, nil, old).Body); err != nil {
				w.Fatalf("%v", err)
			}
			created, err := objects.Create(ctx, again, metav1.CreateOptions{})
			if err != nil {
				w.Fatalf("%v", err)
			}
			old.SetUID(created.GetUID()) // the rest is the same, with the new UID in the place of the old one
			for _, u := range []*unstructured.Unstructured{old, created} {
				for _, field := range []string{"uid", "resourceVersion", "creationTimestamp", "managedFields", "labels", "generation"} {
					unstructured.RemoveNestedField(u.Object, "metadata", field)
				}
				unstructured.RemoveNestedField(u.Object, "spec", "selector", "matchLabels", "batch.kubernetes.io/controller-uid")
				unstructured.RemoveNestedField(u.Object, "spec", "template", "metadata", "labels", "batch.kubernetes.io/controller-uid")
				unstructured.RemoveNestedField(u.Object, "spec", "template", "metadata", "labels", "controller-uid")
			}
			if !equality.Semantic.DeepEqual(old.Object, created.Object) {
				w.Fatalf("%v\nbefore: %v", created.Object, old.Object)
			}
		})
		if out.Run.Failure != nil {
			t.Errorf("%s: %s", resource, out.Run.Failure.Message)
		}
	}
}

// TestUpdateAfterInterference: an update of the user succeeds although a fault has changed the object meanwhile.
func TestUpdateAfterInterference(t *testing.T) {
	for _, kind := range []string{"recreate", "edit", "label"} {
		out, _, end := playParents(t, func(w *simtest.World, d *appsv1.Deployment) {
			d.Spec.Replicas = ptr.To[int32](4)
			w.Update(d)
		}, parent(), kind+onWeb)
		if out.Run.Failure != nil || !strings.HasPrefix(end, "by user, 4 of web:1") {
			t.Errorf("%s: %q, %v", kind, end, out.Run.Failure)
		}
	}
}

// TestTargets: a search changes the user's object at the writes that depend on it, and a pattern may name a target.
func TestTargets(t *testing.T) {
	run := func(patterns ...fault.Fault) []string {
		out, _, _ := playParents(t, func(*simtest.World, *appsv1.Deployment) {}, parent())
		if out.Run.Failure != nil {
			t.Fatal(out.Run.Failure)
		}
		return fault.Strings(sim.Candidates(out.Run, patterns, sim.Virtual))
	}
	for pattern, want := range map[string][]string{
		"recreate": {"recreate actor=parents verb=create resource=configmaps target=deployments.apps/default/web nth=1"},
		"edit":     {"edit actor=parents verb=create resource=configmaps target=deployments.apps/default/web nth=1"},
		"edit target=deployments.apps/default/other": {},
		"label target=deployments.apps/default/web":  {"label actor=parents verb=create resource=configmaps target=deployments.apps/default/web nth=1"},
	} {
		p, err := fault.Parse(pattern)
		must(t, err)
		if have := run(p); !slices.Equal(have, want) {
			t.Errorf("%s: %q, want %q", pattern, have, want)
		}
	}
}
