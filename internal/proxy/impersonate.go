package proxy

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
)

// mayImpersonate asks the API server whether a client with a certificate may impersonate the user
// that its request names. If so, the proxy itself impersonates that user, with the same result as a
// request from the client to the server.
func (p *Proxy) mayImpersonate(ctx context.Context, s *subject, header http.Header) error {
	for _, attributes := range impersonated(header) {
		allowed, err := p.review(ctx, s, attributes)
		switch {
		case err != nil:
			return apierrors.NewInternalError(fmt.Errorf("impersonate %s %q as user %q: %w", attributes.Resource, attributes.Name, s.user, err))
		case !allowed:
			return apierrors.NewForbidden(schema.GroupResource{Group: attributes.Group, Resource: attributes.Resource}, attributes.Name,
				fmt.Errorf("user %q cannot impersonate resource %q", s.user, attributes.Resource))
		}
	}
	return nil
}

// impersonation is the prefix of all impersonation headers.
const impersonation = "Impersonate-"

func isImpersonation(header string) bool {
	return len(header) >= len(impersonation) && strings.EqualFold(header[:len(impersonation)], impersonation)
}

// impersonationHeaders are the impersonation headers of a request, by canonical name. The API
// server ignores unknown impersonation headers and an empty user, and would then process the
// request as one of its sender, which is the proxy. So everything except a user with groups, a UID
// and extra fields is an error.
func impersonationHeaders(header http.Header) (http.Header, error) {
	all := http.Header{}
	for name, values := range header {
		if isImpersonation(name) {
			name = http.CanonicalHeaderKey(name)
			all[name] = append(all[name], values...)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		values := all[name]
		switch extra, isExtra := strings.CutPrefix(name, authenticationv1.ImpersonateUserExtraHeaderPrefix); {
		case isExtra && extra == "":
			return nil, apierrors.NewBadRequest(fmt.Sprintf("header %s: names no key; want %sKEY", name, name))
		case isExtra, name == authenticationv1.ImpersonateGroupHeader:
		case name != authenticationv1.ImpersonateUserHeader && name != authenticationv1.ImpersonateUIDHeader:
			return nil, apierrors.NewBadRequest(fmt.Sprintf("header %s: unknown; the API server knows %s, %s, %s and %sKEY", name, authenticationv1.ImpersonateUserHeader,
				authenticationv1.ImpersonateGroupHeader, authenticationv1.ImpersonateUIDHeader, authenticationv1.ImpersonateUserExtraHeaderPrefix))
		case len(values) > 1:
			return nil, apierrors.NewBadRequest(fmt.Sprintf("header %s: has %d values %q; want one", name, len(values), values))
		}
		if len(values) == 0 || slices.Contains(values, "") {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("header %s: is empty; give a value or leave the header out", name))
		}
	}
	if len(all) > 0 && all.Get(authenticationv1.ImpersonateUserHeader) == "" {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("headers %s: need %s", strings.Join(slices.Sorted(maps.Keys(all)), ", "), authenticationv1.ImpersonateUserHeader))
	}
	return all, nil
}

// impersonated returns the permissions that the request needs, as the API server itself checks them
// (apiserver's endpoints/filters/impersonation).
func impersonated(header http.Header) (all []authorizationv1.ResourceAttributes) {
	add := func(a authorizationv1.ResourceAttributes) {
		a.Verb = "impersonate"
		all = append(all, a)
	}
	for _, name := range header.Values(authenticationv1.ImpersonateUserHeader) {
		if namespace, of, err := serviceaccount.SplitUsername(name); err == nil {
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

// review asks the authorizer of the API server.
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
		return false, fmt.Errorf("the API server answered %s", resp.Status)
	}
	return answer.Status.Allowed, nil
}
