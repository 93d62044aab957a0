package apiserver_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/client-go/kubernetes"

	"github.com/rehearse-k8s/rehearse/internal/apiserver"
	"github.com/rehearse-k8s/rehearse/internal/controller/podcache"
	"github.com/rehearse-k8s/rehearse/internal/store"
)

// TestOwnPods: a server that reads pods from a cache of the process does not watch them from itself, and accepts tokens of pods, also of
// those that the cache does not have yet.
func TestOwnPods(t *testing.T) {
	for name, cached := range map[string]bool{"from itself": false, "from a cache": true} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			policy, log := filepath.Join(dir, "policy.yaml"), filepath.Join(dir, "audit.log")
			if err := os.WriteFile(policy, []byte("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata, verbs: [list, watch], resources: [{resources: [pods]}]}]\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			o := apiserver.Options{
				Dir: dir, Backend: apiserver.Memory{Worlds: store.New(store.Options{})}, WatchCache: true,
				Settings: apiserver.Settings{AdmissionPlugins: []string{"-ServiceAccount"}, AuditPolicyFile: policy, AuditLogFile: log}, // no controller creates the account
			}
			pods := podcache.Unconnected()
			if cached {
				o.Pods = pods.Source
			}
			s, err := apiserver.Start(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(s.Stop)
			if err := pods.Connect(s.RESTConfig("test:pods")); err != nil {
				t.Fatal(err)
			}
			running, stop := context.WithCancel(t.Context())
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				pods.Run(running)
			}()
			if err := s.Ready(t.Context()); err != nil {
				t.Fatal(err)
			}
			c := client(t, s)
			if _, err := c.CoreV1().ServiceAccounts("default").Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "robot"}}, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			reviewTokenOfNewPod(t, c, "a")
			readTwiceInOneRequest(t, s)
			stop()
			<-ended
			reviewTokenOfNewPod(t, c, "b")
			requests, err := os.ReadFile(log)
			if err != nil {
				t.Fatal(err)
			}
			if own := strings.Contains(string(requests), `"username":"system:apiserver"`); own == cached {
				t.Errorf("the server reads pods from itself: %t; requests:\n%s", own, requests)
			}
		})
	}
}

// TestOwnPodsFail: a server whose pods cannot be read does not start.
func TestOwnPodsFail(t *testing.T) {
	want := errors.New("no pods")
	s, err := apiserver.Start(t.Context(), apiserver.Options{
		Dir: t.TempDir(), Backend: apiserver.Memory{Worlds: store.New(store.Options{})}, Pods: func() (kubernetes.Interface, error) { return nil, want },
	})
	if !errors.Is(err, want) {
		t.Errorf("error %v, want %v", err, want)
		s.Stop()
	}
}

// readTwiceInOneRequest sends two requests with the context of a request that is audited. The authenticator of tokens does so if the server's informers have neither the service
// account nor the pod. If the server used that context, upstream would start its audit a second time, which is an error, and the token would be invalid.
func readTwiceInOneRequest(t *testing.T, s *apiserver.Server) {
	t.Helper()
	c, err := kubernetes.NewForConfig(s.RESTConfig("system:apiserver"))
	if err != nil {
		t.Fatal(err)
	}
	ctx := audit.WithAuditContext(t.Context())
	if _, err := c.CoreV1().ServiceAccounts("default").Get(ctx, "robot", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	if _, err := c.CoreV1().Pods("default").Get(ctx, "a", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
}

// reviewTokenOfNewPod creates a pod and a token that is bound to it, and reviews the token.
func reviewTokenOfNewPod(t *testing.T, c kubernetes.Interface, name string) {
	t.Helper()
	pod, err := c.CoreV1().Pods("default").Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.PodSpec{ServiceAccountName: "robot", Containers: []corev1.Container{{Name: "a", Image: "a"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	bound := &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: pod.Name, UID: pod.UID}
	token, err := c.CoreV1().ServiceAccounts("default").CreateToken(t.Context(), "robot", &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{BoundObjectRef: bound}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	review, err := c.AuthenticationV1().TokenReviews().Create(t.Context(), &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token.Status.Token}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := review.Status; !got.Authenticated || got.User.Username != "system:serviceaccount:default:robot" {
		t.Errorf("the token of pod %s: %+v", name, got)
	}
}
