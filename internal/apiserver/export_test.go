package apiserver

// SelfHooks are the hooks that a server of runs omits.
var SelfHooks = selfHooks

// Bootstrap is the work of the hook on which /readyz waits.
var Bootstrap = bootstrap
