package apiserver_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/rehearse-k8s/rehearse/internal/apiserver"
)

// serveConversion serves an operator's conversion webhook on this machine: the field size of v1 is width in
// v2.
func serveConversion(t *testing.T) (port string, caBundle []byte) {
	t.Helper()
	names := map[string]string{"example.org/v1": "size", "example.org/v2": "width"}
	return serveAs(t, "turner.conversions.svc", func(w http.ResponseWriter, r *http.Request) {
		var review apiextensionsv1.ConversionReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		to := review.Request.DesiredAPIVersion
		review.Response = &apiextensionsv1.ConversionResponse{UID: review.Request.UID, Result: metav1.Status{Status: metav1.StatusSuccess}}
		for _, raw := range review.Request.Objects {
			u := &unstructured.Unstructured{}
			_ = json.Unmarshal(raw.Raw, u)
			n, _, _ := unstructured.NestedInt64(u.Object, "spec", names[u.GetAPIVersion()])
			u.SetAPIVersion(to)
			u.Object["spec"] = map[string]any{names[to]: n}
			review.Response.ConvertedObjects = append(review.Response.ConvertedObjects, runtime.RawExtension{Object: u})
		}
		review.Request = nil
		_ = json.NewEncoder(w).Encode(review)
	})
}

// TestConversionThroughService: a definition's conversion webhook is reached through the
// annotation of its Service.
func TestConversionThroughService(t *testing.T) {
	c, ctx := client(t, shared), t.Context()
	d, err := dynamic.NewForConfig(shared.RESTConfig("test"))
	if err != nil {
		t.Fatal(err)
	}
	port, ca := serveConversion(t)
	if _, err := c.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "conversions"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "turner", Annotations: map[string]string{apiserver.LocalPortAnnotation: port}},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 443}}},
	}
	if _, err := c.CoreV1().Services("conversions").Create(ctx, service, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	definition := &unstructured.Unstructured{}
	version := `{name: %s, served: true, storage: %t, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}`
	if err := yaml.Unmarshal(fmt.Appendf(nil, `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: boxes.example.org}
spec:
  group: example.org
  scope: Cluster
  names: {plural: boxes, kind: Box}
  versions: [`+version+`, `+version+`]
  conversion:
    strategy: Webhook
    webhook:
      conversionReviewVersions: [v1]
      clientConfig: {caBundle: %s, service: {namespace: conversions, name: turner}}
`, "v1", true, "v2", false, base64.StdEncoding.EncodeToString(ca)), &definition.Object); err != nil {
		t.Fatal(err)
	}
	definitions := d.Resource(apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions"))
	if _, err := definitions.Create(ctx, definition, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = definitions.Delete(context.WithoutCancel(ctx), definition.GetName(), metav1.DeleteOptions{})
	})
	boxes := func(version string) dynamic.ResourceInterface {
		return d.Resource(schema.GroupVersionResource{Group: "example.org", Version: version, Resource: "boxes"})
	}
	await(t, "a box is made as v1", func() error {
		_, err := boxes("v1").Create(ctx, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "example.org/v1", "kind": "Box", "metadata": map[string]any{"name": "b"}, "spec": map[string]any{"size": int64(7)},
		}}, metav1.CreateOptions{})
		return err
	})
	await(t, "it is read as v2", func() error {
		u, err := boxes("v2").Get(ctx, "b", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if n, _, _ := unstructured.NestedInt64(u.Object, "spec", "width"); n != 7 {
			return fmt.Errorf("spec %v", u.Object["spec"])
		}
		return nil
	})
}
