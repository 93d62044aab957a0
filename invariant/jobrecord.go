package invariant

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rehearse-k8s/rehearse/history"
)

// jobRecord is what has become known of one Job.
type jobRecord struct {
	uid    types.UID
	object *unstructured.Unstructured
	specs  []jobSpec // all that were in force, the newest last
	// decided is the step in which a controller wrote that the Job has succeeded or
	// failed, and succeeded the one in which it wrote the first success.
	decided, succeeded *history.Step
	conditions         map[string]string
	begun              bool // it had pods when it was first looked at
}

// jobSpec is what a spec says about how many pods there may be.
type jobSpec struct {
	revision                 int64
	parallelism, completions int64
	endless                  bool // completions is nil
	indexed                  bool
	waits                    bool // pods are replaced once they have failed, not when they are deleted
}

func specOf(o *unstructured.Unstructured) jobSpec {
	spec, _ := o.Object["spec"].(map[string]any)
	s := jobSpec{revision: revisionOf(o), parallelism: number(spec, "parallelism"), completions: number(spec, "completions")}
	_, some := spec["completions"]
	s.endless = !some
	s.indexed = spec["completionMode"] == "Indexed"
	s.waits = spec["podReplacementPolicy"] == "Failed"
	if suspended, _ := spec["suspend"].(bool); suspended {
		s.parallelism = 0
	}
	return s
}

// takeJob takes in what the Job is now; nil if there is none.
func (f *jobFollower) takeJob(o *unstructured.Unstructured) {
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
	j.conditions = conditionsOf(o)
	if s := f.byController(jobsResource, o); s != nil {
		if j.decided == nil && (j.has("SuccessCriteriaMet") || j.has("FailureTarget") || j.finished()) {
			j.decided = s
		}
		if c := countsOf(o); j.succeeded == nil && c.succeeded+c.uncountedSucceeded > 0 {
			j.succeeded = s
		}
	}
	f.judgeConditions(j, before)
	f.judgeCounts(j)
}

// drop forgets what has ended for indexes that a spec does not have. It need not be
// counted, and when there is room for them again they may run again.
func (f *jobFollower) drop(job types.UID, spec jobSpec) {
	for _, p := range f.pods {
		if p.job == job && p.ended() && spec.drops(p.index) {
			p.dropped = true
		}
	}
}

// drops tells whether an index is none of the Job's.
func (s jobSpec) drops(index string) bool {
	n, err := strconv.ParseInt(index, 10, 64)
	return s.indexed && (err != nil || n >= s.completions)
}

// spec is the one in force.
func (j *jobRecord) spec() jobSpec { return j.specs[len(j.specs)-1] }

func (s jobSpec) differs(o jobSpec) bool {
	s.revision = o.revision
	return s != o
}

// inForce are the specs that were in force at some moment since a revision.
func (j *jobRecord) inForce(since int64) []jobSpec {
	n := len(j.specs) - 1
	for n > 0 && j.specs[n].revision > since {
		n--
	}
	return j.specs[max(n, 0):]
}

func (j *jobRecord) has(condition string) bool { return j.conditions[condition] == "True" }

func (j *jobRecord) finished() bool { return j.has("Complete") || j.has("Failed") }

// podRecord is what has become known of one pod.
type podRecord struct {
	uid, job types.UID
	name     string
	index    string // "" if the Job is not indexed
	made     int    // the step in which a controller made it; -1: somebody else did
	object   *unstructured.Unstructured

	phase                 string
	terminating, tracked  bool // as it is now
	listed, gone, deleted bool // deleted: it was, or is being
	succeeded, failed     bool // it has been in this phase
	clean                 bool // it ended by itself, with its finalizer on or before it was removed
	beforeEnd             bool // it ended when its Job had not
	dropped               bool // when it had ended its index was none of the Job's, then or later
	removed               bool // a controller removed it, or its finalizer, before it had ended
	putBack               int  // how often somebody put the finalizer back
}

const indexAnnotation = "batch.kubernetes.io/job-completion-index"

func (f *jobFollower) newPod(o *unstructured.Unstructured, job types.UID) *podRecord {
	p := &podRecord{uid: o.GetUID(), job: job, name: keyOf(o), made: -1}
	annotations, _, _ := unstructured.NestedFieldNoCopy(o.Object, "metadata", "annotations")
	if m, ok := annotations.(map[string]any); ok {
		p.index, _ = m[indexAnnotation].(string)
	}
	if step, ok := f.made[p.uid]; ok {
		p.made = step
	}
	return p
}

// take takes in what a pod of a Job is now, and whether a controller wrote that.
func (p *podRecord) take(o *unstructured.Unstructured, byController bool, j *jobRecord) {
	first := p.object == nil
	p.object = o
	ended := p.ended()
	p.phase, _, _ = unstructured.NestedString(o.Object, "status", "phase")
	p.succeeded = p.succeeded || p.phase == "Succeeded"
	p.failed = p.failed || p.phase == "Failed"
	was := p.tracked
	p.tracked = slices.Contains(o.GetFinalizers(), TrackingFinalizer)
	if !ended && p.ended() {
		ref := metav1.GetControllerOfNoCopy(o)
		early := p.removed && !p.terminating && ref != nil && ref.UID == p.job // before the delete that was to follow
		p.removed = p.removed && !early
		p.clean = (was || early || first && p.tracked) && !p.terminating
		p.beforeEnd = j == nil || !j.finished()
		p.dropped = j != nil && j.spec().drops(p.index)
	}
	p.terminating = o.GetDeletionTimestamp() != nil
	p.deleted = p.deleted || p.terminating
	switch {
	case was && !p.tracked && !ended && byController:
		p.removed = true
	case !first && !was && p.tracked && !byController:
		p.putBack++
	}
}

func (p *podRecord) ended() bool { return p.phase == "Succeeded" || p.phase == "Failed" }

// running tells whether it counts as active.
func (p *podRecord) running() bool { return !p.ended() && !p.deleted }

// stopping tells whether it is being deleted and has not ended yet.
func (p *podRecord) stopping() bool { return p.terminating && !p.gone && !p.ended() }

// counts are the figures of a Job's status.
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

// conditionsOf are the statuses of all conditions by type.
func conditionsOf(o *unstructured.Unstructured) map[string]string {
	found := map[string]string{}
	conditions, _, _ := unstructured.NestedFieldNoCopy(o.Object, "status", "conditions")
	list, _ := conditions.([]any)
	for _, c := range list {
		if c, ok := c.(map[string]any); ok {
			typ, _ := c["type"].(string)
			found[typ], _ = c["status"].(string)
		}
	}
	return found
}

func conditionText(c map[string]string) string {
	var texts []string
	for _, typ := range slices.Sorted(maps.Keys(c)) {
		texts = append(texts, typ+"="+c[typ])
	}
	return strings.Join(texts, " ")
}

func number(m map[string]any, field string) int64 {
	switch n := m[field].(type) {
	case int64:
		return n
	case float64: // of an object that was read from YAML
		return int64(n)
	}
	return 0
}

func revisionOf(o *unstructured.Unstructured) int64 {
	n, _ := strconv.ParseInt(o.GetResourceVersion(), 10, 64)
	return n
}
