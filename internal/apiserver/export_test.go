package apiserver

// SelfHooks are the hooks that a server of runs omits.
var SelfHooks = selfHooks

// Bootstrap is the work of the hook on which /readyz waits.
var Bootstrap = bootstrap

// RunUntilStopped runs a server until it has stopped, or until StopTimeout after the end of the context.
var RunUntilStopped = runUntilStopped

// StopTimeout limits how long Stop waits.
const StopTimeout = stopTimeout
