package apiserver

import (
	"context"
	"net/http"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
)

type identityKey struct{}

// withIdentity marks a request that came through the in-process door. A context
// value cannot be sent over a socket, so nobody outside can claim it.
func withIdentity(ctx context.Context, u user.Info) context.Context {
	return context.WithValue(ctx, identityKey{}, u)
}

// identityAuthenticator knows the users of the in-process door and leaves every
// other request to next.
type identityAuthenticator struct{ next authenticator.Request }

func (a identityAuthenticator) AuthenticateRequest(r *http.Request) (*authenticator.Response, bool, error) {
	if u, ok := r.Context().Value(identityKey{}).(user.Info); ok {
		return &authenticator.Response{User: u}, true, nil
	}
	if a.next == nil {
		return nil, false, nil
	}
	return a.next.AuthenticateRequest(r)
}

// component is the user an own component acts as. system:masters spares our own
// controllers the RBAC rules that a real cluster needs to contain its
// components; the names stay those that audit logs of real clusters show.
func component(name string) user.Info {
	return &user.DefaultInfo{Name: name, Groups: []string{user.SystemPrivilegedGroup, user.AllAuthenticated}}
}
