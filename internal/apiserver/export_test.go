package apiserver

import "context"

// SelfHooks are the hooks that a server of runs omits.
var SelfHooks = selfHooks

// Bootstrap is the work of the hook on which /readyz waits.
var Bootstrap = bootstrap

// RunUntilStopped runs a server until it has stopped, or until StopTimeout after the end of the context.
var RunUntilStopped = runUntilStopped

// StopTimeout limits how long Stop waits.
const StopTimeout = stopTimeout

// BeginWith writes the first content of a backend.
func BeginWith(ctx context.Context, b Backend, next func() (string, []byte, error)) error {
	return b.begin(ctx, next)
}

// Pairs calls visit with the content of a backend.
func Pairs(ctx context.Context, b Backend, visit func(key string, value []byte) error) error {
	return b.pairs(ctx, visit)
}

// Put writes a key, as a server does.
func Put(ctx context.Context, e *EmbeddedEtcd, key, value string) error {
	client, err := Etcd{Servers: []string{e.client}}.client()
	if err != nil {
		return err
	}
	defer client.Close()
	_, err = client.Put(ctx, key, value)
	return err
}
