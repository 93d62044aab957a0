package apiserver

// SelfHooks are the hooks that a server of runs omits.
var SelfHooks = selfHooks
