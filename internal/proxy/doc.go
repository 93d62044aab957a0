// Package proxy forwards the requests of Kubernetes clients to any API server and applies the
// faults of a run to them: late events, expired watches, lost answers, rejected requests. The
// client may be written in any language: it gets a kubeconfig.
//
// Each client has its own listener, on the loopback interface, with TLS and HTTP/1.1 and 2. The
// files process a request in this order:
//
//	listener.go   accepts the connection
//	identity.go   determines the user of the forwarded request
//	request.go    describes the request and forwards it
//	fault.go      applies faults before and after the API server processes the request
//	watch.go      applies faults to watch events
//	record.go     adds the request to the history
//
// The proxy preserves the client's identity: it forwards bearer tokens, and impersonates the user
// of a client certificate with its own credentials. It forwards streams of exec, attach and
// port-forward unchanged. Between Begin and End it applies faults and records requests and events;
// at other times it only forwards.
//
// It does not decide what a fault does (package internal/inject), checks no invariant, searches
// nothing and starts no process: its callers do (see Hooks). It listens only on the loopback
// interface, and writes credentials only into the kubeconfigs that callers request.
//
// Floor: F3. Imports wire, fault, internal/inject and history.
package proxy
