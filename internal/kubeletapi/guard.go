package kubeletapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// The ConfigMap in which an API server publishes the authority of its client certificates, its own included.
const (
	caNamespace = metav1.NamespaceSystem
	caConfigMap = "extension-apiserver-authentication"
	caKey       = "client-ca-file"
)

// The durations for which answers of the API server are kept: the defaults of a kubelet.
const (
	tokenTTL = 2 * time.Minute
	allowTTL = 5 * time.Minute
	denyTTL  = 30 * time.Second
	// reviewTimeout limits one TokenReview.
	reviewTimeout = 10 * time.Second
)

// guard decides who may send a request, as a kubelet with webhook authentication and authorization does: a client certificate of the
// cluster's authority or a token (TokenReview) identifies the user, and a SubjectAccessReview of the node decides.
type guard struct {
	ca           *dynamiccertificates.ConfigMapCAController
	authenticate authenticator.Request
	authorize    authorizer.Authorizer
}

// newGuard checks that the authority of client certificates can be read, because the controller that follows it reports no error.
func newGuard(ctx context.Context, config *rest.Config) (*guard, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	g := &guard{}
	if g.ca, err = dynamiccertificates.NewDynamicCAFromConfigMapController("kubelet client CA", caNamespace, caConfigMap, caKey, client); err != nil {
		return nil, err
	}
	if _, err := client.CoreV1().ConfigMaps(caNamespace).Get(ctx, caConfigMap, metav1.GetOptions{}); err != nil {
		return nil, fmt.Errorf("read the authority of client certificates: %w", err)
	}
	backoff := wait.Backoff{Duration: 500 * time.Millisecond, Factor: 1.5, Jitter: 0.2, Steps: 5}
	g.authenticate, _, err = authenticatorfactory.DelegatingAuthenticatorConfig{
		TokenAccessReviewClient: client.AuthenticationV1(), TokenAccessReviewTimeout: reviewTimeout, WebhookRetryBackoff: &backoff,
		CacheTTL: tokenTTL, ClientCertificateCAContentProvider: g.ca,
	}.New()
	if err != nil {
		return nil, err
	}
	g.authorize, err = authorizerfactory.DelegatingAuthorizerConfig{
		SubjectAccessReviewClient: client.AuthorizationV1(), AllowCacheTTL: allowTTL, DenyCacheTTL: denyTTL, WebhookRetryBackoff: &backoff,
	}.New()
	return g, err
}

// run keeps the authority up to date until ctx ends.
func (g *guard) run(ctx context.Context) { g.ca.Run(ctx, 1) }

// wrap returns a handler that rejects requests with 401 and 403. node returns the node that a request is about.
func (g *guard) wrap(next http.Handler, node func(*http.Request) string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, ok, err := g.authenticate.AuthenticateRequest(r)
		if err != nil || !ok {
			fail(w, errors.New("the request has neither a client certificate of the cluster nor a valid token"), http.StatusUnauthorized)
			return
		}
		var last string
		for _, a := range attributes(who.User, node(r), r) {
			decision, reason, err := g.authorize.Authorize(r.Context(), a)
			if err != nil {
				fail(w, fmt.Errorf("authorization failed: %w", err), http.StatusInternalServerError)
				return
			}
			if decision == authorizer.DecisionAllow {
				next.ServeHTTP(w, r)
				return
			}
			last = fmt.Sprintf("Forbidden (user=%s, verb=%s, resource=nodes, subresource=%s, name=%s): %s", who.User.GetName(), a.GetVerb(), a.GetSubresource(), a.GetName(), reason)
		}
		fail(w, errors.New(strings.TrimSuffix(last, ": ")), http.StatusForbidden)
	})
}

// verbs are the verbs of requests by HTTP method.
var verbs = map[string]string{
	http.MethodGet: "get", http.MethodPost: "create", http.MethodPut: "update", http.MethodPatch: "patch", http.MethodDelete: "delete",
}

// attributes are what a kubelet asks for a request: one of them must be allowed. (Kubelet authentication/authorization, "Request verbs",
// and the feature KubeletFineGrainedAuthz for health checks.) Discovery, which a kubelet does not have, is a part of metrics.
func attributes(who user.Info, node string, r *http.Request) (all []authorizer.Attributes) {
	subresources := []string{"proxy"}
	first, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	switch first {
	case "stats", "metrics":
		subresources = []string{first}
	case "discovery":
		subresources = []string{"metrics"}
	case "healthz":
		subresources = []string{"healthz", "proxy"}
	}
	for _, sub := range subresources {
		all = append(all, authorizer.AttributesRecord{
			User: who, Verb: verbs[r.Method], APIVersion: "v1", Resource: "nodes", Subresource: sub, Name: node, ResourceRequest: true, Path: r.URL.Path,
		})
	}
	return all
}
