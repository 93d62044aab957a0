package proxy

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// mayImpersonate asks the server whether a client with a certificate may speak for those
// whom its request names. The proxy then speaks for them in its place: a server that was
// asked by the client itself would have come to the same end.
func (p *Proxy) mayImpersonate(ctx context.Context, s *subject, header http.Header) error {
	for _, attributes := range impersonated(header) {
		allowed, err := p.review(ctx, s, attributes)
		switch {
		case err != nil:
			return fmt.Errorf("proxy: whether %s may impersonate %s %q cannot be found out: %w", s.user, attributes.Resource, attributes.Name, err)
		case !allowed:
			return fmt.Errorf("proxy: %s %q is forbidden: User %q cannot impersonate resource %q", attributes.Resource, attributes.Name, s.user, attributes.Resource)
		}
	}
	return nil
}

// impersonated is what has to be allowed, as the API server itself asks its authorizer
// (apiserver's endpoints/filters/impersonation).
func impersonated(header http.Header) (all []authorizationv1.ResourceAttributes) {
	add := func(a authorizationv1.ResourceAttributes) {
		a.Verb = "impersonate"
		all = append(all, a)
	}
	const account = "system:serviceaccount:"
	for _, name := range header.Values(authenticationv1.ImpersonateUserHeader) {
		if namespace, of, ok := strings.Cut(strings.TrimPrefix(name, account), ":"); ok && strings.HasPrefix(name, account) {
			add(authorizationv1.ResourceAttributes{Resource: "serviceaccounts", Namespace: namespace, Name: of})
		} else {
			add(authorizationv1.ResourceAttributes{Resource: "users", Name: name})
		}
	}
	for _, name := range header.Values(authenticationv1.ImpersonateGroupHeader) {
		add(authorizationv1.ResourceAttributes{Resource: "groups", Name: name})
	}
	for _, name := range header.Values(authenticationv1.ImpersonateUIDHeader) {
		add(authorizationv1.ResourceAttributes{Group: authenticationv1.GroupName, Version: "v1", Resource: "uids", Name: name})
	}
	for key, values := range header {
		extra, ok := strings.CutPrefix(strings.ToLower(key), strings.ToLower(authenticationv1.ImpersonateUserExtraHeaderPrefix))
		if !ok {
			continue
		}
		if plain, err := url.PathUnescape(extra); err == nil {
			extra = plain
		}
		for _, value := range values {
			add(authorizationv1.ResourceAttributes{Group: authenticationv1.GroupName, Version: "v1", Resource: "userextras", Subresource: extra, Name: value})
		}
	}
	return all
}

// review asks the server's authorizer.
func (p *Proxy) review(ctx context.Context, s *subject, a authorizationv1.ResourceAttributes) (bool, error) {
	body, err := json.Marshal(&authorizationv1.SubjectAccessReview{
		TypeMeta: metav1.TypeMeta{APIVersion: authorizationv1.SchemeGroupVersion.String(), Kind: "SubjectAccessReview"},
		Spec:     authorizationv1.SubjectAccessReviewSpec{User: s.user, Groups: append([]string{"system:authenticated"}, s.groups...), ResourceAttributes: &a},
	})
	if err != nil {
		return false, err
	}
	u := *p.target
	u.Path = strings.TrimSuffix(u.Path, "/") + "/apis/authorization.k8s.io/v1/subjectaccessreviews"
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), bytes.NewReader(body))
	if err != nil {
		return false, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json")
	resp, err := p.trusted.RoundTrip(r)
	if err != nil {
		return false, err
	}
	defer resp.Body.Close()
	var answer authorizationv1.SubjectAccessReview
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil || resp.StatusCode/100 != 2 {
		return false, fmt.Errorf("the server answered %s", resp.Status)
	}
	return answer.Status.Allowed, nil
}
