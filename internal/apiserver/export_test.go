package apiserver

// OwnAffairs are the hooks that a server of runs leaves out.
var OwnAffairs = ownAffairs
