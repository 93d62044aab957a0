package cluster

import (
	"slices"
	"strings"
)

// Component is a part of a cluster in addition to the API server and its store.
type Component struct {
	// Name is the name for Options.Controllers, or kube-controller-manager for upstream's controllers together.
	Name string
	// Enabled reports whether the list of controllers enables it.
	Enabled bool
	// Description says in a few words what it does.
	Description string
}

// Components returns the parts of a cluster with this list of controllers (Options.Controllers).
func Components(controllers []string) []Component {
	if len(controllers) == 0 {
		controllers = []string{"*"}
	}
	return []Component{
		{Scheduler, picked(controllers, Scheduler), "kube-scheduler"},
		{"kube-controller-manager", runsUpstream(controllers), "upstream's controllers"},
		{Job, jobsPicked(controllers), "Jobs, in place of the upstream controller"},
		{CloneSet, picked(withoutAlias(controllers), CloneSet), "CloneSets of apps.kruise.io"},
		{StageController, picked(controllers, StageController), "stage engine: simulates nodes and pods"},
	}
}

// runsUpstream reports whether a list enables any of upstream's controllers.
func runsUpstream(controllers []string) bool {
	return slices.ContainsFunc(upstreamOnly(controllers), func(name string) bool {
		return !strings.HasPrefix(name, "-")
	})
}
