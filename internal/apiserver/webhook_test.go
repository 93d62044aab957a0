package apiserver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rehearse-k8s/rehearse/internal/apiserver"
)

// serveWebhook serves an operator's webhook on this machine: it rejects objects with the label reject.
func serveWebhook(t *testing.T) (port string, caBundle []byte) {
	t.Helper()
	return serveAs(t, "guard.webhooks.svc", func(w http.ResponseWriter, r *http.Request) {
		var review admissionv1.AdmissionReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		var object metav1.PartialObjectMetadata
		_ = json.Unmarshal(review.Request.Object.Raw, &object)
		review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: object.Labels["reject"] == ""}
		if !review.Response.Allowed {
			review.Response.Result = &metav1.Status{Message: "rejected as " + r.TLS.ServerName}
		}
		_ = json.NewEncoder(w).Encode(review)
	})
}

// TestWebhookThroughService registers a webhook as released operators do: a Service reference, TLS for the
// Service's name.
func TestWebhookThroughService(t *testing.T) {
	c, ctx := client(t, shared), t.Context()
	port, ca := serveWebhook(t)
	if _, err := c.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "webhooks"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "guard"},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 443}}},
	}
	service, err := c.CoreV1().Services("webhooks").Create(ctx, service, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	never := admissionregistrationv1.SideEffectClassNone
	all := admissionregistrationv1.AllScopes
	configuration := &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "guard"},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: "guard.example.com", AdmissionReviewVersions: []string{"v1"}, SideEffects: &never,
			ClientConfig: admissionregistrationv1.WebhookClientConfig{
				Service: &admissionregistrationv1.ServiceReference{Namespace: "webhooks", Name: "guard"}, CABundle: ca,
			},
			ObjectSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"guarded": "yes"}},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}, Scope: &all},
			}},
		}},
	}
	if _, err := c.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(ctx, configuration, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.AdmissionregistrationV1().ValidatingWebhookConfigurations().Delete(context.WithoutCancel(ctx), "guard", metav1.DeleteOptions{})
	})
	create := func(name string, labels map[string]string) error {
		labels["guarded"] = "yes"
		_, err := c.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: name, Labels: labels}}, metav1.CreateOptions{})
		return err
	}
	// The server observes webhooks and Services through its own informers; each state below is awaited
	// through the answer that it must cause.
	await(t, "a hint at the annotation", func() error {
		return contains(create("unannotated-", map[string]string{}), "annotate the service with "+apiserver.LocalPortAnnotation+"=PORT")
	})
	service.Annotations = map[string]string{apiserver.LocalPortAnnotation: "443=" + port}
	if _, err := c.CoreV1().Services("webhooks").Update(ctx, service, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	await(t, "the webhook's rejection", func() error {
		return contains(create("rejected-", map[string]string{"reject": "yes"}), "rejected as guard.webhooks.svc")
	})
	if err := create("allowed-", map[string]string{}); err != nil {
		t.Error(err)
	}
}

func contains(err error, want string) error {
	if err == nil || !strings.Contains(err.Error(), want) {
		return fmt.Errorf("got %v, want an error with %q", err, want)
	}
	return nil
}
