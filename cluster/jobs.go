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
	// Job is our Job controller. It takes upstream's place, and its names.
	Job = names.JobController
	// UpstreamJob is kube-controller-manager's, off unless it is named: then it runs
	// and ours does not.
	UpstreamJob = "upstream-job"

	jobAlias = "job"
)

// jobsPicked tells whether our Job controller is on.
func jobsPicked(list []string) bool {
	return !upstreamJobPicked(list) && picked(withoutAlias(list), Job)
}

// upstreamJobPicked tells whether upstream's is; "*" does not bring it.
func upstreamJobPicked(list []string) bool {
	return picked(slices.DeleteFunc(slices.Clone(list), func(c string) bool { return c == "*" }), UpstreamJob)
}

// withoutAlias writes short names in full.
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

// startJobs prepares our Job controller and returns its run function. It looks after
// all Jobs: upstream's is not here.
func startJobs(config *rest.Config, pods *podcache.Cache, m *metrics) (func(context.Context), error) {
	c, err := jobs.New(config, jobs.Options{All: true, Events: config, Metrics: m.jobs, Pods: pods})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) {
		if err := c.Run(ctx); err != nil {
			slog.Error("the Job controller ended", "error", err)
		}
	}, nil
}
