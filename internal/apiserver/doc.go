// Package apiserver runs the real kube-apiserver of Kubernetes 1.36.3 inside
// this process: every built-in API, custom resources, admission, RBAC,
// server-side apply, OpenAPI, the watch cache.
//
// It is upstream's server chain (aggregator, kube-apiserver, apiextensions) with five replaced parts: the store of the
// objects (Backend), the in-process transport (RoundTripper and RESTConfig), the resolution of a webhook's Service when pods
// are simulated (ServiceResolver), the conversion of objects for managed fields (typeConverter), and the version it
// reports. No part of the API is reimplemented.
//
// There are two transports. Users connect to a TLS listener with client certificates. Our own components use the in-process
// transport: a request goes directly to the handler, without a connection, TLS or HTTP framing. Its user is a value of the
// request's context, which a request from a socket cannot set.
//
// It is not a fake, it starts no other process and downloads nothing. It does
// not run controllers or a scheduler; package cluster does.
//
// Floor F3: it may import store and lower packages, never cluster or internal/cli.
package apiserver
