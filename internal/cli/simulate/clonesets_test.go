package simulate

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/rehearse-k8s/rehearse/api/crds"
	"github.com/rehearse-k8s/rehearse/api/kruise/v1alpha1"
	"github.com/rehearse-k8s/rehearse/internal/controller/clonesets"
)

// parsed returns a document in the form in which the API accepts it.
func parsed(t *testing.T, text []byte) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(text, &u.Object); err != nil {
		t.Fatal(err)
	}
	return u
}

// A cluster without the kind CloneSet is reported and waited for; then CloneSets are managed with the
// manifests' rights.
func TestCloneSets(t *testing.T) {
	w := newWorld(t, 2)
	w.replica(w.asServiceAccount(stageRole), nil)
	r := w.replica(w.asServiceAccount(cloneSetRole), func(o *Options) { o.Stage, o.CloneSets = nil, &clonesets.Options{} })
	if line := r.hears("has no CloneSets"); !strings.Contains(line, "deploy/clonesets") {
		t.Error(line)
	}
	client, err := dynamic.NewForConfig(w.admin)
	if err != nil {
		t.Fatal(err)
	}
	// As deploy/clonesets defines it: only the stored version, which needs no conversion.
	crd := parsed(t, crds.CloneSet())
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	_ = unstructured.SetNestedSlice(crd.Object, versions[:1], "spec", "versions")
	unstructured.RemoveNestedField(crd.Object, "spec", "conversion")
	definitions := client.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	if _, err := definitions.Create(t.Context(), crd, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	r.hears("Managing CloneSets on ")
	sets := client.Resource(v1alpha1.GroupVersion.WithResource(v1alpha1.Resource)).Namespace("default")
	_, err = sets.Create(t.Context(), parsed(t, []byte(`
apiVersion: apps.kruise.io/v1alpha1
kind: CloneSet
metadata: {name: web}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      nodeName: node-0
      topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway, labelSelector: {matchLabels: {app: web}}}]
      containers: [{name: web, image: web}]
`)), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	is := func(field string, want int64) func() bool {
		return func() bool {
			u, err := sets.Get(t.Context(), "web", metav1.GetOptions{})
			if err != nil {
				return false
			}
			got, _, _ := unstructured.NestedInt64(u.Object, "status", field)
			return got == want
		}
	}
	w.await("all pods are available", is("updatedAvailableReplicas", 3))
	scaled, err := sets.Get(t.Context(), "web", metav1.GetOptions{}, "scale")
	if err != nil {
		t.Fatal(err)
	}
	_ = unstructured.SetNestedField(scaled.Object, int64(1), "spec", "replicas")
	if _, err := sets.Update(t.Context(), scaled, metav1.UpdateOptions{}, "scale"); err != nil {
		t.Fatal(err)
	}
	w.await("one is left", is("replicas", 1))
	w.await("an Event reports it", func() bool {
		events, err := w.client.CoreV1().Events("default").List(t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.name=web,reason=SuccessfulDelete"})
		return err == nil && len(events.Items) == 2 && events.Items[0].Source.Component == "cloneset-controller"
	})
	r.end(nil)
	if log := r.log.String(); strings.Contains(log, "forbidden") {
		t.Error(log)
	}
}
