package job

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/rehearse-k8s/rehearse/invariant"
	"github.com/rehearse-k8s/rehearse/invariant/internal/inspect"
)

// checkQuiescence returns what the controller has left undone although the run is quiescent.
func (f *follower) checkQuiescence(v invariant.View) error {
	o := v.Get(jobsResource, f.owner.Namespace, f.owner.Name)
	var j *jobRecord
	if o != nil {
		j = f.jobs[o.GetUID()]
	}
	if err := f.checkFinalizers(j); err != nil {
		return err
	}
	if j == nil || o.GetDeletionTimestamp() != nil {
		return nil
	}
	if err := f.checkFinished(j); err != nil {
		return err
	}
	return f.checkAllCounted(j)
}

// checkFinalizers checks that the tracking finalizer is removed from the pods of Jobs that have
// finished or no longer exist, and from finished pods. An unfinished Job that retries indexes
// keeps the finalizer on a failed pod until the index has another pod.
func (f *follower) checkFinalizers(j *jobRecord) error {
	var tracked []string
	for _, p := range f.pods {
		if p.gone || !p.tracked {
			continue
		}
		own := j != nil && p.job == j.uid
		if !own || j.finished() || p.finished() && !retriesIndexes(j.object) {
			tracked = append(tracked, p.name)
		}
	}
	if len(tracked) == 0 {
		return nil
	}
	slices.Sort(tracked)
	return fmt.Errorf("the finalizer %s is still on %s", trackingFinalizer, strings.Join(tracked, ", "))
}

func retriesIndexes(job *unstructured.Unstructured) bool {
	_, some, _ := unstructured.NestedFieldNoCopy(job.Object, "spec", "backoffLimitPerIndex")
	return some
}

// checkFinished checks that a Job whose pods have all finished has finished too, and that a
// finished or suspended Job has no running pods.
func (f *follower) checkFinished(j *jobRecord) error {
	running := 0
	for _, p := range f.of(j.uid) {
		if p.running() {
			running++
		}
	}
	spec := j.spec()
	switch {
	case j.finished() && running > 0:
		return fmt.Errorf("it has finished (%s), but %d of its pods run", inspect.ConditionText(j.conditions), running)
	case j.finished():
		return nil
	case spec.parallelism == 0 && running > 0:
		return fmt.Errorf("it must have no running pods, but %d run", running)
	case spec.parallelism > 0 && running == 0:
		return errors.New("none of its pods runs, but it has not finished")
	}
	if c := countsOf(j.object); c.active != int64(running) {
		return fmt.Errorf("its status shows %d active pods; %d run", c.active, running)
	}
	return nil
}

// checkAllCounted checks that each pod that finished before it was deleted is counted.
func (f *follower) checkAllCounted(j *jobRecord) error {
	var failed int64
	pods, spec := f.of(j.uid), j.spec()
	// The last failed pod of an index is counted when its successor exists, which may wait for a slot or for the end of a suspension.
	waits := retriesIndexes(j.object) && !j.finished()
	for _, p := range pods {
		if p.failed && !p.succeeded && p.clean && !p.removed && !p.dropped && p.beforeEnd && !(waits && p.tracked) {
			failed++
		}
	}
	c := countsOf(j.object)
	if n := int64(len(successesBefore(pods, spec.indexed))); c.succeeded+c.uncountedSucceeded < n {
		return fmt.Errorf("its status shows %d succeeded; %d have", c.succeeded, n)
	}
	if c.failed+c.uncountedFailed < failed && !ignoresFailures(j.object) {
		return fmt.Errorf("its status shows %d failed; %d have", c.failed, failed)
	}
	return nil
}

// successesBefore returns the successes of pods that finished before their Job did.
func successesBefore(pods []*podRecord, indexed bool) []string {
	return successes(slices.DeleteFunc(slices.Clone(pods), func(p *podRecord) bool { return !p.beforeEnd }), indexed)
}

// ignoresFailures reports whether the pod failure policy ignores some failures.
func ignoresFailures(job *unstructured.Unstructured) bool {
	rules, _, _ := unstructured.NestedFieldNoCopy(job.Object, "spec", "podFailurePolicy", "rules")
	list, _ := rules.([]any)
	return slices.ContainsFunc(list, func(r any) bool {
		rule, _ := r.(map[string]any)
		return rule["action"] == "Ignore"
	})
}
