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

// inProcessChain is the handler chain of the in-process transport. Authentication, impersonation, authorization and audit are
// as for all requests, and admission, registry and managed fields follow. It omits what protects a server from clients on a
// socket: priority and fairness, the timeout that answers for a stuck handler on a second goroutine, tracing, and headers for
// browsers. They use about a third of the CPU time of a small write. Only users read warnings, so Server.UserConfig adds them.
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

// handlers are the handlers of the two transports over one API.
type handlers struct{ socket, inProcess http.Handler }

// open builds both chains where upstream builds that of the socket.
func (d *handlers) open(c *genericapiserver.Config, runs bool) {
	socketChain := c.BuildHandlerChainFunc
	c.BuildHandlerChainFunc = func(api http.Handler, c *genericapiserver.Config) http.Handler {
		d.inProcess = inProcessChain(api, c)
		d.socket = withBatchedWatches(socketChain(api, c))
		if runs {
			d.socket = withLongWatches(d.socket)
		}
		return d.socket
	}
}

// inProcessHost is a host name that never resolves, so that no request of the in-process transport can leave the process by mistake.
const inProcessHost = "http://in-process.invalid"

// config is a client configuration of the in-process transport, with the component as its user. It may be created before the handlers.
func (d *handlers) config(name string) *rest.Config {
	c := &rest.Config{
		Host:               inProcessHost,
		Transport:          &RoundTripper{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { d.inProcess.ServeHTTP(w, r) }), User: component(name)},
		DisableCompression: true,
	}
	c.ContentType = runtime.ContentTypeProtobuf
	c.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	return unlimited(c)
}
