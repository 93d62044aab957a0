package apiserver

import (
	"net/http"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/rest"
)

// inProcessConversions answers conversions for one of these Services by its handler, in process: without a
// socket, so there is no certificate to issue, to add to the definition and to renew, and no port that the
// next start finds in use.
//
// Admission webhooks are not affected; they are sent to users' servers.
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
