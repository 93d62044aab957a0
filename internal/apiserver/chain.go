package apiserver

import (
	"net/http"

	"k8s.io/apimachinery/pkg/runtime"
	genericapifilters "k8s.io/apiserver/pkg/endpoints/filters"
	"k8s.io/apiserver/pkg/endpoints/filters/impersonation"
	genericapiserver "k8s.io/apiserver/pkg/server"
	genericfilters "k8s.io/apiserver/pkg/server/filters"
	"k8s.io/client-go/rest"
)

// inProcessChain is what a request of the in-process door passes before it
// reaches the API. Authentication, impersonation, authorization and audit stand
// as they do for every other request, and admission, registry and managed fields
// come after. Left out is what protects a server from the other end of a socket:
// fairness between clients, the time-out that answers for a stuck handler on a
// second goroutine, tracing, and headers for browsers. That is about a third of
// the CPU of a small write.
func inProcessChain(api http.Handler, c *genericapiserver.Config) http.Handler {
	h := genericapifilters.WithAuthorization(api, c.Authorization.Authorizer, c.Serializer)
	h = impersonation.WithImpersonation(h, c.Authorization.Authorizer, c.Serializer)
	h = genericapifilters.WithAudit(h, c.AuditBackend, c.AuditPolicyRuleEvaluator, c.LongRunningFunc)
	h = genericapifilters.WithAuthentication(h, identityAuthenticator{c.Authentication.Authenticator},
		genericapifilters.Unauthorized(c.Serializer), c.Authentication.APIAudiences, c.Authentication.RequestHeaderConfig)
	h = genericapifilters.WithRequestDeadline(h, c.AuditBackend, c.AuditPolicyRuleEvaluator, c.LongRunningFunc, c.Serializer, c.RequestTimeout)
	h = genericapifilters.WithRequestInfo(h, c.RequestInfoResolver)
	h = genericapifilters.WithRequestReceivedTimestamp(h)
	h = genericfilters.WithPanicRecovery(h, c.RequestInfoResolver)
	return genericapifilters.WithAuditInit(h)
}

// doors are the two handlers over one API.
type doors struct{ socket, inProcess http.Handler }

// open builds both chains where upstream builds the socket's.
func (d *doors) open(c *genericapiserver.Config) {
	socketChain := c.BuildHandlerChainFunc
	c.BuildHandlerChainFunc = func(api http.Handler, c *genericapiserver.Config) http.Handler {
		d.inProcess = inProcessChain(api, c)
		d.socket = socketChain(api, c)
		return d.socket
	}
}

// config is a client through the in-process door, as the named component.
func (d *doors) config(name string) *rest.Config {
	c := &rest.Config{
		// A host that cannot be looked up: nothing may leave by mistake.
		Host:               "http://in-process.invalid",
		Transport:          &RoundTripper{Handler: d.inProcess, User: component(name)},
		DisableCompression: true,
	}
	c.ContentType = runtime.ContentTypeProtobuf
	c.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	return unlimited(c)
}
