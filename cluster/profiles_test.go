package cluster_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/rehearse-k8s/rehearse/cluster"
)

// TestProfiles: the API server serves profiles of the process to the administrator, and to no other user.
func TestProfiles(t *testing.T) {
	c := startCluster(t, cluster.Options{Controllers: []string{"serviceaccount-controller"}})
	get := func(config *rest.Config, path string) (int, string) {
		t.Helper()
		client, err := rest.HTTPClientFor(config)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := client.Get(c.URL() + path)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode, string(body)
	}
	admin, err := clientcmd.NewDefaultClientConfig(*c.Kubeconfig(), nil).ClientConfig()
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"":                     "/debug/pprof/",
		"goroutine?debug=1":    "goroutine profile: total ",
		"heap?debug=1":         "heap profile: ",
		"profile?seconds=1":    "\x1f\x8b", // a compressed CPU profile
		"trace?seconds=0.1":    "go 1.",
		"allocs?debug=1":       "heap profile: ",
		"threadcreate?debug=1": "threadcreate profile: total ",
	} {
		if code, body := get(admin, "/debug/pprof/"+path); code != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("/debug/pprof/%s: %d %.200q, want %q", path, code, body, want)
		}
	}
	k := kubernetes.NewForConfigOrDie(admin)
	await(t, "the default service account", func() error {
		_, err := k.CoreV1().ServiceAccounts("default").Get(t.Context(), "default", metav1.GetOptions{})
		return err
	})
	answer, err := k.CoreV1().ServiceAccounts("default").CreateToken(t.Context(), "default", tokenRequest(), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	user := rest.AnonymousClientConfig(admin)
	user.BearerToken = answer.Status.Token
	if code, body := get(user, "/debug/pprof/heap"); code != http.StatusForbidden {
		t.Errorf("a service account without a role: %d %.200q", code, body)
	}
	if code, body := get(rest.AnonymousClientConfig(admin), "/debug/pprof/heap"); code != http.StatusForbidden && code != http.StatusUnauthorized {
		t.Errorf("a client without credentials: %d %.200q", code, body)
	}
}
