package job

import (
	"slices"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/invariant/internal/inspect"
)

// jobRecord contains the facts about one Job that the run has shown.
type jobRecord struct {
	uid    types.UID
	object *unstructured.Unstructured
	specs  []jobSpec // all specs so far, the newest last
	// decided is the step in which a controller wrote that the Job has succeeded or failed,
	// succeeded the step in which it wrote the first succeeded pod.
	decided, succeeded *history.Step
	conditions         map[string]string
	begun              bool // it had pods when the record began
}

// jobSpec is the part of a spec that limits the number of pods.
type jobSpec struct {
	revision                 int64
	parallelism, completions int64
	endless                  bool // completions is nil
	indexed                  bool
	replacesFailed           bool // podReplacementPolicy is Failed: a deleted pod is replaced after it has finished
}

func specOf(o *unstructured.Unstructured) jobSpec {
	spec, _ := o.Object["spec"].(map[string]any)
	s := jobSpec{revision: inspect.Revision(o), parallelism: number(spec, "parallelism"), completions: number(spec, "completions")}
	_, some := spec["completions"]
	s.endless = !some
	s.indexed = spec["completionMode"] == "Indexed"
	s.replacesFailed = spec["podReplacementPolicy"] == "Failed"
	if suspended, _ := spec["suspend"].(bool); suspended {
		s.parallelism = 0
	}
	return s
}

// observeJob reads the current Job; nil if there is none.
func (f *follower) observeJob(o *unstructured.Unstructured) {
	if o == nil {
		return
	}
	j := f.jobs[o.GetUID()]
	if j == nil {
		j = &jobRecord{uid: o.GetUID()}
		f.jobs[j.uid] = j
	}
	if j.object == o {
		return
	}
	j.object = o
	spec := specOf(o)
	if len(j.specs) == 0 || j.spec().differs(spec) {
		j.specs = append(j.specs, spec)
		f.drop(j.uid, spec)
	}
	before := j.conditions
	j.conditions = inspect.Conditions(o)
	if s := f.byController(jobsResource, o); s != nil {
		if j.decided == nil && (j.has("SuccessCriteriaMet") || j.has("FailureTarget") || j.finished()) {
			j.decided = s
		}
		if c := countsOf(o); j.succeeded == nil && c.succeeded+c.uncountedSucceeded > 0 {
			j.succeeded = s
		}
	}
	f.checkConditions(j, before)
	f.checkCounts(j)
}

// drop marks the finished pods of indexes that a spec does not have. They need not be counted, and
// their indexes may run again if completions grows again.
func (f *follower) drop(job types.UID, spec jobSpec) {
	for _, p := range f.pods {
		if p.job == job && p.finished() && spec.drops(p.index) {
			p.dropped = true
		}
	}
}

// drops reports whether an index is outside the Job's completions.
func (s jobSpec) drops(index string) bool {
	n, err := strconv.ParseInt(index, 10, 64)
	return s.indexed && (err != nil || n >= s.completions)
}

// spec returns the spec in force.
func (j *jobRecord) spec() jobSpec { return j.specs[len(j.specs)-1] }

func (s jobSpec) differs(o jobSpec) bool {
	s.revision = o.revision
	return s != o
}

// inForce returns the specs that were in force at some moment since a revision.
func (j *jobRecord) inForce(since int64) []jobSpec {
	n := len(j.specs) - 1
	for n > 0 && j.specs[n].revision > since {
		n--
	}
	return j.specs[max(n, 0):]
}

func (j *jobRecord) has(condition string) bool { return j.conditions[condition] == "True" }

func (j *jobRecord) finished() bool { return j.has("Complete") || j.has("Failed") }

// podRecord is what the run has shown of one pod.
type podRecord struct {
	uid, job types.UID
	name     string
	index    string // "" if the Job is not indexed
	created  int    // the step in which a controller created it; -1: another client did
	object   *unstructured.Unstructured

	phase                 string
	terminating, tracked  bool // the current state; tracked: it has the tracking finalizer
	listed, gone, deleted bool // deleted: it is terminating or gone
	succeeded, failed     bool // it has been in this phase
	clean                 bool // it finished before it was deleted, with its finalizer or before the finalizer was removed
	beforeEnd             bool // it finished before its Job did
	dropped               bool // it had finished while its index was outside the Job's completions
	removed               bool // a controller deleted it, or removed its finalizer, before it had finished
	finalizerAdded        int  // how often another client put the finalizer back
}

const indexAnnotation = "batch.kubernetes.io/job-completion-index"

func (f *follower) newPod(o *unstructured.Unstructured, job types.UID) *podRecord {
	p := &podRecord{uid: o.GetUID(), job: job, name: inspect.KeyOf(o), created: -1}
	annotations, _, _ := unstructured.NestedFieldNoCopy(o.Object, "metadata", "annotations")
	if m, ok := annotations.(map[string]any); ok {
		p.index, _ = m[indexAnnotation].(string)
	}
	if step, ok := f.created[p.uid]; ok {
		p.created = step
	}
	return p
}

// observe reads the current version of a pod, and whether a controller wrote it.
func (p *podRecord) observe(o *unstructured.Unstructured, byController bool, j *jobRecord) {
	first := p.object == nil
	p.object = o
	finished := p.finished()
	p.phase, _, _ = unstructured.NestedString(o.Object, "status", "phase")
	p.succeeded = p.succeeded || p.phase == "Succeeded"
	p.failed = p.failed || p.phase == "Failed"
	was := p.tracked
	p.tracked = slices.Contains(o.GetFinalizers(), trackingFinalizer)
	if !finished && p.finished() {
		ref := metav1.GetControllerOfNoCopy(o)
		early := p.removed && !p.terminating && ref != nil && ref.UID == p.job // the controller had removed the finalizer and not yet deleted the pod
		p.removed = p.removed && !early
		p.clean = (was || early || first && p.tracked) && !p.terminating
		p.beforeEnd = j == nil || !j.finished()
		p.dropped = j != nil && j.spec().drops(p.index)
	}
	p.terminating = o.GetDeletionTimestamp() != nil
	p.deleted = p.deleted || p.terminating
	switch {
	case was && !p.tracked && !finished && byController:
		p.removed = true
	case !first && !was && p.tracked && !byController:
		p.finalizerAdded++
	}
}

func (p *podRecord) finished() bool { return p.phase == "Succeeded" || p.phase == "Failed" }

// running reports whether the pod counts as active.
func (p *podRecord) running() bool { return !p.finished() && !p.deleted }

// stopping reports whether the pod is being deleted and has not finished.
func (p *podRecord) stopping() bool { return p.terminating && !p.gone && !p.finished() }

// counts are the numbers in a Job's status.
type counts struct {
	active, succeeded, failed, terminating int64
	uncountedSucceeded, uncountedFailed    int64
}

func countsOf(o *unstructured.Unstructured) counts {
	status, _ := o.Object["status"].(map[string]any)
	c := counts{
		active: number(status, "active"), succeeded: number(status, "succeeded"),
		failed: number(status, "failed"), terminating: number(status, "terminating"),
	}
	if uncounted, ok := status["uncountedTerminatedPods"].(map[string]any); ok {
		succeeded, _ := uncounted["succeeded"].([]any)
		failed, _ := uncounted["failed"].([]any)
		c.uncountedSucceeded, c.uncountedFailed = int64(len(succeeded)), int64(len(failed))
	}
	return c
}

func number(m map[string]any, field string) int64 {
	switch n := m[field].(type) {
	case int64:
		return n
	case float64: // the object was read from YAML
		return int64(n)
	}
	return 0
}
