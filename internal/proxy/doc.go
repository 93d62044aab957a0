// Package proxy forwards the requests of Kubernetes clients to any API server and applies
// the faults of a run to them: late events, expired watches, lost answers, rejected
// requests. The client may be written in any language: it gets a kubeconfig.
//
// Each client has its own listener, on the loopback interface, with TLS and HTTP/1.1 and 2. A
// request passes these stations, in this order:
//
//	listener.go   accepts the connection
//	identity.go   determines the user as whom the request is sent
//	request.go    describes the request and forwards it
//	fault.go      applies faults before and after the API server sees the request
//	watch.go      applies faults to watch events
//	record.go     records what happened as a history
//
// The client's identity is preserved: bearer tokens are forwarded; for a client certificate the
// proxy's own user impersonates the client. Streams of exec, attach and port-forward are
// forwarded unchanged. Between Begin and End faults act and requests and events are recorded; at
// other times the proxy only forwards.
//
// It does not decide what a fault does (package internal/inject), checks no invariant, searches
// nothing and starts no process: its callers do (see Hooks). It listens only on the loopback
// interface and writes credentials only into the kubeconfigs that it is asked for.
//
// Floor: F3. Imports wire, fault, internal/inject and history.
package proxy
