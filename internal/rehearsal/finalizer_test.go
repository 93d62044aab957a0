//go:build unix

package rehearsal

import (
	"context"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/history"
)

// TestWritesOfFaults: what faults and steps write, against a real API server.
func TestWritesOfFaults(t *testing.T) {
	config, client := existingCluster(t)
	dyn, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	mapper, err := discovered(config)
	if err != nil {
		t.Fatal(err)
	}
	to := dyn.Resource(corev1.SchemeGroupVersion.WithResource("configmaps")).Namespace("default")
	finalizers := func(name string) string {
		o, err := to.Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(o.GetFinalizers(), " ")
	}

	t.Run("a finalizer is added and removed, and others stay", func(t *testing.T) {
		made := create(t, client.CoreV1().ConfigMaps("default").Create, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "f", Finalizers: []string{"x/y"}}})
		ctx := t.Context()
		for _, step := range []struct {
			uid   types.UID
			there bool
			want  string
		}{
			{"another", true, "x/y"}, // an object of another UID stays as it is
			{made.UID, true, "x/y " + fault.InterferenceFinalizer},
			{made.UID, true, "x/y " + fault.InterferenceFinalizer},
			{"another", false, "x/y " + fault.InterferenceFinalizer},
			{made.UID, false, "x/y"},
			{"", true, "x/y " + fault.InterferenceFinalizer},
			{"", false, "x/y"},
			{"", false, "x/y"},
		} {
			if err := setFinalizer(ctx, to, "f", step.uid, step.there); err != nil {
				t.Fatal(err)
			}
			equal(t, "finalizers", step.want, finalizers("f"))
		}
		if err := setFinalizer(ctx, to, "absent", "", true); !apierrors.IsNotFound(err) {
			t.Errorf("an absent object gives %v", err)
		}
		stopped, cancel := context.WithCancel(ctx)
		cancel()
		if err := setFinalizer(stopped, to, "f", "", true); err == nil {
			t.Error("a stopped context gives no error")
		}
	})

	t.Run("a finished pod is recognized", func(t *testing.T) {
		pods := dyn.Resource(corev1.SchemeGroupVersion.WithResource("pods")).Namespace("default")
		r := &run{}
		for phase, want := range map[corev1.PodPhase]bool{corev1.PodPending: false, corev1.PodRunning: false, corev1.PodSucceeded: true, corev1.PodFailed: true} {
			name := strings.ToLower(string(phase))
			p := create(t, client.CoreV1().Pods("default").Create, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}})
			p.Status.Phase = phase
			if _, err := client.CoreV1().Pods("default").UpdateStatus(t.Context(), p, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
			if r.isFinishedPod(t.Context(), pods, history.Object{Resource: "pods", Namespace: "default", Name: name}) != want {
				t.Errorf("%s: finished %t", phase, !want)
			}
			if r.isFinishedPod(t.Context(), pods, history.Object{Resource: "jobs.batch", Namespace: "default", Name: name}) {
				t.Error("an object that is not a pod counts as one")
			}
		}
		if r.isFinishedPod(t.Context(), pods, history.Object{Resource: "pods", Name: "absent"}) {
			t.Error("an absent pod counts as finished")
		}
	})

	t.Run("apply creates and changes", func(t *testing.T) {
		o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap",
			"metadata": map[string]any{"name": "applied", "managedFields": []any{}, "creationTimestamp": nil}, "data": map[string]any{"a": "1"}}}
		before := o.DeepCopy()
		for _, value := range []string{"1", "2"} {
			o.Object["data"] = map[string]any{"a": value}
			if err := apply(t.Context(), dyn, mapper, o); err != nil {
				t.Fatal(err)
			}
			is, err := client.CoreV1().ConfigMaps("default").Get(t.Context(), "applied", metav1.GetOptions{})
			if err != nil || is.Data["a"] != value {
				t.Errorf("%v %v", is.Data, err)
			}
			if !slices.ContainsFunc(is.ManagedFields, func(m metav1.ManagedFieldsEntry) bool { return m.Manager == "user" }) {
				t.Errorf("managers %v", is.ManagedFields)
			}
		}
		equal(t, "metadata of the argument", before.Object["metadata"], o.Object["metadata"])
		bad := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "Bad_Name"}}}
		if err := apply(t.Context(), dyn, mapper, bad); err == nil || !strings.HasPrefix(err.Error(), "apply ConfigMap Bad_Name: ") {
			t.Errorf("%v", err)
		}
		o.SetKind("Unknown")
		if err := apply(t.Context(), dyn, mapper, o); err == nil || !isNotServed(err) {
			t.Errorf("%v", err)
		}
	})

	t.Run("a list of many pages is whole", func(t *testing.T) {
		create(t, client.CoreV1().Namespaces().Create, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "many"}})
		for range pageSize + 3 {
			create(t, client.CoreV1().ConfigMaps("many").Create, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "m-"}})
		}
		list, err := listAll(t.Context(), dyn.Resource(corev1.SchemeGroupVersion.WithResource("configmaps")).Namespace("many"))
		if err != nil || len(list.Items) != pageSize+3 || list.GetContinue() != "" {
			t.Errorf("%d objects, %v", len(list.Items), err)
		}
		if list.GetResourceVersion() == "" {
			t.Error("the list has no resource version, so it cannot be followed")
		}
	})
}

// TestMetadataPatch: the patch of a known object applies to that one only.
func TestMetadataPatch(t *testing.T) {
	equal(t, "with a UID", `{"metadata":{"labels":{"a":"b"},"uid":"7"}}`, string(metadataPatch("7", map[string]any{"labels": map[string]string{"a": "b"}})))
	equal(t, "without one", `{"metadata":{"finalizers":[]}}`, string(metadataPatch("", map[string]any{"finalizers": []string{}})))
	if uidPrecondition("") != nil || *uidPrecondition("7").UID != "7" {
		t.Error("preconditions")
	}
}
