// Package apiserver runs the real kube-apiserver of Kubernetes 1.36.3 inside
// this process: every built-in API, custom resources, admission, RBAC,
// server-side apply, OpenAPI, the watch cache.
//
// It is upstream's own server chain (aggregator, kube-apiserver,
// apiextensions) with four things put in from outside: where objects are kept
// (Backend), who may speak without a socket (RoundTripper and RESTConfig), how a
// webhook's Service is found when pods are simulated (ServiceResolver), and the
// version it reports. Nothing of the API is written again here.
//
// There are two doors. A TLS socket with client certificates is for users. The
// in-process door is for our own components: a request goes straight to the
// handler, without a connection, TLS or HTTP framing, and carries its user in
// the request's context, which nobody can reach from a socket.
//
// It is not a fake, it starts no other process and downloads nothing. It does
// not run controllers or a scheduler; package cluster does. Floor F3: it may
// import store and what lies below, never cluster or internal/cli.
package apiserver
