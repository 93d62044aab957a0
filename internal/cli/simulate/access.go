package simulate

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/rehearse-k8s/rehearse/internal/controller/reconcile"
)

// firstAnswer limits the requests at the start. Later, an unreachable API server is waited for; at the start
// the address is probably wrong.
const firstAnswer = 15 * time.Second

// askers is the number of concurrent requests.
const askers = 8

// preflight checks that the API server answers and that the user has the permissions needed. The error is one line that
// lists the missing ones.
func preflight(ctx context.Context, config *rest.Config, needs []reconcile.Access) error {
	ctx, cancel := context.WithTimeout(ctx, firstAnswer)
	defer cancel()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("load the kubeconfig: %w", err)
	}
	if err := client.Discovery().RESTClient().Get().AbsPath("/version").Do(ctx).Error(); err != nil && !apierrors.IsForbidden(err) {
		return unanswered(config.Host, err)
	}
	missing, err := lacking(ctx, client, needs)
	switch {
	case apierrors.IsForbidden(err) || apierrors.IsNotFound(err):
		return nil // permissions cannot be checked; a missing one causes a forbidden request
	case err != nil:
		return unanswered(config.Host, err)
	case len(missing) == 0:
		return nil
	}
	rules := make([]string, len(missing))
	for i, m := range missing {
		rules[i] = rule(m)
	}
	return fmt.Errorf("%s lacks permissions on %s: the RBAC rules missing are %s (the manifests in deploy/ have a role for each controller)",
		self(ctx, client), config.Host, strings.Join(rules, ", "))
}

// lacking returns the permissions among needs that the API server would forbid.
func lacking(ctx context.Context, client kubernetes.Interface, needs []reconcile.Access) ([]reconcile.Access, error) {
	forbidden := make([][]bool, len(needs))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(askers)
	for i, need := range needs {
		forbidden[i] = make([]bool, len(need.Verbs))
		for j, verb := range need.Verbs {
			group.Go(func() error {
				resource, sub, _ := strings.Cut(need.Resource, "/")
				answer, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
					Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
						Namespace: need.Namespace, Name: need.Name, Verb: verb, Group: need.Group, Resource: resource, Subresource: sub,
					}},
				}, metav1.CreateOptions{})
				if err == nil {
					forbidden[i][j] = !answer.Status.Allowed
				}
				return err
			})
		}
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	var out []reconcile.Access
	for i, need := range needs {
		missing := need
		missing.Verbs = nil
		for j, verb := range need.Verbs {
			if forbidden[i][j] {
				missing.Verbs = append(missing.Verbs, verb)
			}
		}
		if len(missing.Verbs) > 0 {
			out = append(out, missing)
		}
	}
	return out, nil
}

// rule prints a permission in the form of a rule of a Role.
func rule(a reconcile.Access) string {
	name := ""
	if a.Name != "" {
		name = fmt.Sprintf("resourceNames: [%s], ", a.Name)
	}
	text := fmt.Sprintf(`{apiGroups: [%q], resources: [%s], %sverbs: [%s]}`, a.Group, a.Resource, name, strings.Join(a.Verbs, ", "))
	if a.Namespace != "" {
		text += " in namespace " + a.Namespace
	}
	return text
}

// self returns the user as whom the API server authenticates this process.
func self(ctx context.Context, client kubernetes.Interface) string {
	review, err := client.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil || review.Status.UserInfo.Username == "" {
		return "this user"
	}
	return fmt.Sprintf("user %q", review.Status.UserInfo.Username)
}

// unanswered returns an error of one line with the reason why no answer arrived.
func unanswered(host string, err error) error {
	var sent *url.Error
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("%s rejects the credentials of the kubeconfig (Unauthorized)", host)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%s did not answer within %s", host, firstAnswer)
	case errors.As(err, &sent):
		err = sent.Err // without the method and the path
	}
	return fmt.Errorf("%s does not answer: %w", host, err)
}

// withElection adds the permissions that leader election needs.
func withElection(needs []reconcile.Access, e *Election) []reconcile.Access {
	if e == nil {
		return needs
	}
	return append(slices.Clone(needs), reconcile.Access{
		Group: "coordination.k8s.io", Resource: "leases", Namespace: e.Namespace, Verbs: []string{"get", "create", "update"},
	})
}
