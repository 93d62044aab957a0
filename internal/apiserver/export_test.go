package apiserver

import (
	"context"

	"k8s.io/kubernetes/cmd/kube-apiserver/app"
)

// SelfHooks are the hooks that a server of runs omits.
var SelfHooks = selfHooks

// Bootstrap is the work of the hook on which /readyz waits.
var Bootstrap = bootstrap

// RunUntilStopped runs a server until it has stopped, or until StopTimeout after the end of the context.
var RunUntilStopped = runUntilStopped

// StopTimeout limits how long Stop waits.
const StopTimeout = stopTimeout

// LoadWith writes the first content of a backend.
func LoadWith(ctx context.Context, b Backend, next func() (string, []byte, error)) error {
	return b.load(ctx, next)
}

// Pairs calls visit with the content of a backend.
func Pairs(ctx context.Context, b Backend, visit func(key string, value []byte) error) error {
	return b.pairs(ctx, visit)
}

// Put writes a key, as a server does.
func Put(ctx context.Context, e *EmbeddedEtcd, key, value string) error {
	return e.external().withContent(func(c etcdContent) error {
		_, err := c.Client.Put(ctx, key, value)
		return err
	})
}

// Asked is a Memory that passes the context of each request for its content to With.
type Asked struct {
	Memory
	With func(context.Context)
}

func (a Asked) pairs(ctx context.Context, visit func(key string, value []byte) error) error {
	a.With(ctx)
	return a.Memory.pairs(ctx, visit)
}

// UseUpstreamServers lets servers that are built until restore is called be those of kube-apiserver.
func UseUpstreamServers() (restore func()) {
	own := newServers
	newServers = app.CreateServerChain
	return func() { newServers = own }
}
