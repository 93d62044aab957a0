//go:build unix

package rehearsal

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/internal/inject"
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

	t.Run("another user's finalizer", func(t *testing.T) {
		o := create(t, client.CoreV1().ConfigMaps("default").Create, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "f", Finalizers: []string{"x/y"}}})
		ctx := t.Context()
		other, err := newOtherUser(rest.CopyConfig(config))
		if err != nil {
			t.Fatal(err)
		}
		f := target{client: other, resource: corev1.SchemeGroupVersion.WithResource("configmaps"), namespace: "default", name: "f"}
		current, err := f.get(ctx)
		if err != nil {
			t.Fatal(err)
		}
		replaced := current.DeepCopy()
		replaced.SetUID("another")
		add := func(current *unstructured.Unstructured) inject.Interference {
			q, ok := inject.NewInterference(fault.KindFinalizer, "configmaps", current, "")
			if !ok {
				t.Fatal("no request")
			}
			return q
		}
		for n, step := range []struct {
			request inject.Interference
			failed  bool
			want    string
		}{
			{add(replaced), true, "x/y"}, // an object of another UID stays as it is
			{add(current), false, "x/y " + fault.InterferenceFinalizer},
			{add(current), false, "x/y " + fault.InterferenceFinalizer},
			{inject.RemoveFinalizer(replaced), true, "x/y " + fault.InterferenceFinalizer},
			{inject.RemoveFinalizer(current), false, "x/y"},
			{inject.RemoveFinalizer(current), false, "x/y"},
		} {
			if err := f.send(ctx, step.request); (err != nil) != step.failed {
				t.Fatalf("step %d: %v", n, err)
			}
			equal(t, "finalizers", step.want, finalizers("f"))
		}
		absent := current.DeepCopy()
		absent.SetName("absent")
		f.name = "absent"
		if err := f.send(ctx, inject.RemoveFinalizer(absent)); !apierrors.IsConflict(err) {
			t.Errorf("an absent object gives %v", err) // and is not created
		}
		if _, err := f.get(ctx); !apierrors.IsNotFound(err) {
			t.Errorf("the request created an object: %v", err)
		}

		// A rehearsal that was killed leaves its finalizer, however it was added.
		o.Finalizers = append(o.Finalizers, fault.InterferenceFinalizer)
		o.ResourceVersion = ""
		if _, err := client.CoreV1().ConfigMaps("default").Update(ctx, o, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		for _, uid := range []types.UID{"another", o.UID, o.UID} {
			if err := dropFinalizer(ctx, to, "f", uid); err != nil {
				t.Fatal(err)
			}
			if want := map[bool]string{true: "x/y", false: "x/y " + fault.InterferenceFinalizer}[uid == o.UID]; finalizers("f") != want {
				t.Errorf("UID %s: %s", uid, finalizers("f"))
			}
		}
		if err := dropFinalizer(ctx, to, "absent", o.UID); !apierrors.IsNotFound(err) {
			t.Errorf("an absent object gives %v", err)
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

func TestUIDPrecondition(t *testing.T) {
	if uidPrecondition("") != nil || *uidPrecondition("7").UID != "7" {
		t.Error("preconditions")
	}
}
