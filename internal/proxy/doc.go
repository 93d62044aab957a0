// Package proxy stands between a Kubernetes client and any API server, and shapes what
// that one client sees within what Kubernetes allows: events that are late, watches that
// expire, answers that are lost, requests that are refused. The client may be written in
// any language: it is given a kubeconfig.
//
// Each client has a door of its own, on the loopback interface, with TLS and HTTP/1.1 and 2.
// Who the client is survives: bearer tokens are passed on, a client certificate becomes
// impersonation by the proxy's own user. Streams of exec, attach and port-forward are passed
// through as they are. Between Begin and End faults of package fault act and everything is
// recorded as a history; at other times bytes are copied.
//
// It judges nothing, searches nothing and starts no process: who runs a client does (see
// Hooks). It listens nowhere but on the loopback interface and writes no credentials
// anywhere but into the kubeconfigs that it is asked for.
//
// Floor: F3. Imports wire, fault and history.
package proxy
