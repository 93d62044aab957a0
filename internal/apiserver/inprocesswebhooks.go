package apiserver

import (
	"net/http"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/rest"
)

// inProcessConversions has conversions that a definition wants from one of these Services
// answered by its handler: no socket, and so no certificate to issue, to hand to the
// definition and to renew, and no port that the next start finds taken.
//
// Admission webhooks do not pass here; they are called where users' servers listen.
func inProcessConversions(handlers map[types.NamespacedName]http.Handler, wrapper webhook.AuthenticationInfoResolverWrapper) webhook.AuthenticationInfoResolverWrapper {
	return func(delegate webhook.AuthenticationInfoResolver) webhook.AuthenticationInfoResolver {
		next := wrapper(delegate)
		return &webhook.AuthenticationInfoResolverDelegator{
			ClientConfigForFunc: next.ClientConfigFor,
			ClientConfigForServiceFunc: func(name, namespace string, port int) (*rest.Config, error) {
				h, ours := handlers[types.NamespacedName{Namespace: namespace, Name: name}]
				if !ours {
					return next.ClientConfigForService(name, namespace, port)
				}
				c := &rest.Config{}
				c.Wrap(func(http.RoundTripper) http.RoundTripper { return &RoundTripper{Handler: h} })
				return c, nil
			},
		}
	}
}
