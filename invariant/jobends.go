package invariant

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// ended tells what is left undone in a world at rest.
func (f *jobFollower) ended(v View) error {
	o := v.Get(jobsResource, f.owner.Namespace, f.owner.Name)
	var j *jobRecord
	if o != nil {
		j = f.jobs[o.GetUID()]
	}
	if err := f.released(j); err != nil {
		return err
	}
	if j == nil || o.GetDeletionTimestamp() != nil {
		return nil
	}
	if err := f.concluded(j); err != nil {
		return err
	}
	return f.allCounted(j)
}

// released tells whether pods that are no longer tracked have lost the finalizer:
// those of Jobs that have ended or gone, and others that have ended. An unfinished Job
// that retries indexes keeps it on failed pods until the next one of the index runs.
func (f *jobFollower) released(j *jobRecord) error {
	var held []string
	for _, p := range f.pods {
		if p.gone || !p.tracked {
			continue
		}
		own := j != nil && p.job == j.uid
		if !own || j.finished() || p.ended() && !retriesIndexes(j.object) {
			held = append(held, p.name)
		}
	}
	if len(held) == 0 {
		return nil
	}
	slices.Sort(held)
	return fmt.Errorf("the finalizer %s is left on %s", TrackingFinalizer, strings.Join(held, ", "))
}

func retriesIndexes(job *unstructured.Unstructured) bool {
	_, some, _ := unstructured.NestedFieldNoCopy(job.Object, "spec", "backoffLimitPerIndex")
	return some
}

// concluded tells whether a Job whose pods have all ended has ended too, and whether
// one that has ended or is suspended has no pods that run.
func (f *jobFollower) concluded(j *jobRecord) error {
	running := 0
	for _, p := range f.of(j.uid) {
		if p.running() {
			running++
		}
	}
	spec := j.spec()
	switch {
	case j.finished() && running > 0:
		return fmt.Errorf("it has ended (%s) and %s", conditionText(j.conditions), count(running, "pod")+" of it run")
	case j.finished():
		return nil
	case spec.parallelism == 0 && running > 0:
		return fmt.Errorf("it is to have no pods and %d run", running)
	case spec.parallelism > 0 && running == 0:
		return errors.New("none of its pods runs and it has not ended")
	}
	if c := countsOf(j.object); c.active != int64(running) {
		return fmt.Errorf("its status says %d active pods; %d run", c.active, running)
	}
	return nil
}

// allCounted tells whether every pod that ended by itself has been counted.
func (f *jobFollower) allCounted(j *jobRecord) error {
	var failed int64
	pods, spec := f.of(j.uid), j.spec()
	for _, p := range pods {
		if p.failed && !p.succeeded && p.clean && !p.removed && !p.dropped && p.beforeEnd {
			failed++
		}
	}
	c := countsOf(j.object)
	if n := int64(len(successesBefore(pods, spec.indexed))); c.succeeded+c.uncountedSucceeded < n {
		return fmt.Errorf("its status says %d succeeded; %d have", c.succeeded, n)
	}
	if c.failed+c.uncountedFailed < failed && !ignoresFailures(j.object) {
		return fmt.Errorf("its status says %d failed; %d have", c.failed, failed)
	}
	return nil
}

// successesBefore are the successes of a time when the Job had not ended.
func successesBefore(pods []*podRecord, indexed bool) []string {
	return successes(slices.DeleteFunc(slices.Clone(pods), func(p *podRecord) bool { return !p.beforeEnd }), indexed)
}

// ignoresFailures tells whether some failures are not to be counted.
func ignoresFailures(job *unstructured.Unstructured) bool {
	rules, _, _ := unstructured.NestedFieldNoCopy(job.Object, "spec", "podFailurePolicy", "rules")
	list, _ := rules.([]any)
	return slices.ContainsFunc(list, func(r any) bool {
		rule, _ := r.(map[string]any)
		return rule["action"] == "Ignore"
	})
}
