package cluster

import (
	"context"
	"log/slog"
	"slices"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/kubernetes/cmd/kube-controller-manager/names"

	"github.com/rehearse-k8s/rehearse/internal/controller/jobs"
	"github.com/rehearse-k8s/rehearse/internal/controller/podcache"
)

const (
	// Job is our Job controller. It replaces the upstream one and has its names.
	Job = names.JobController
	// UpstreamJob is the Job controller of kube-controller-manager. It is off by default; if it is enabled, ours is off.
	UpstreamJob = "upstream-job"

	jobAlias = "job"
)

// jobsPicked reports whether our Job controller is enabled.
func jobsPicked(list []string) bool {
	return !upstreamJobPicked(list) && picked(withoutAlias(list), Job)
}

// upstreamJobPicked reports whether the upstream Job controller is enabled; "*" does not enable it.
func upstreamJobPicked(list []string) bool {
	return picked(slices.DeleteFunc(slices.Clone(list), func(c string) bool { return c == "*" }), UpstreamJob)
}

// withoutAlias replaces short names with full names.
func withoutAlias(list []string) []string {
	full := map[string]string{jobAlias: Job, cloneSetAlias: CloneSet}
	out := slices.Clone(list)
	for i, c := range out {
		name, without := strings.CutPrefix(c, "-")
		if long, ok := full[name]; ok {
			if out[i] = long; without {
				out[i] = "-" + long
			}
		}
	}
	return out
}

// startJobs prepares our Job controller and returns its run function. It manages
// all Jobs, because the upstream one is off.
func startJobs(config *rest.Config, pods *podcache.Cache, m *metrics) (func(context.Context), error) {
	c, err := jobs.New(config, jobs.Options{All: true, Events: config, Metrics: m.jobs, Pods: pods})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) {
		if err := c.Run(ctx); err != nil {
			slog.Error("Job controller stopped", "error", err)
		}
	}, nil
}
