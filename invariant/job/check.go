package job

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/invariant/internal/inspect"
)

// checkCreation checks the decision to create a pod.
func (f *follower) checkCreation(j *jobRecord, p *podRecord) {
	actor := f.run.Steps[p.created].Actor
	root := f.reconciles.DecidedAt(p.created)
	view := f.view(actor, root)
	specs := j.inForce(view)
	for started := f.reconciles.Start(p.created); view == 0 && root < started; { // it knew the Job: it wrote the Job's UID
		root++
		view = f.view(actor, root)
	}
	saw := fmt.Sprintf("step %d creates %s; decided at step %d with the Job at revision %d", p.created, p.name, root, view)
	if f.run.Live {
		saw = fmt.Sprintf("step %d creates %s; decided after step %d (inferred) with the Job at revision %d or later", p.created, p.name, root, view)
	}

	pods := f.of(p.job)
	waits := !slices.ContainsFunc(specs, func(s jobSpec) bool { return !s.replacesFailed })
	taken := func(o *podRecord) bool { return o.created >= 0 && (o.running() || waits && o.stopping()) }
	var running []string
	for _, o := range pods {
		if taken(o) {
			running = append(running, o.name)
		}
	}
	if most := mostOf(specs, func(s jobSpec) int64 { return s.parallelism }); int64(len(running)) > most {
		f.violate(withinParallelism, "%s: now %d run (%s), and at most %d may", saw, len(running), strings.Join(running, ", "), most)
	}
	succeeded := successes(pods, specs[0].indexed)
	if slices.ContainsFunc(specs, func(s jobSpec) bool { return s.endless }) {
		if s := j.succeeded; s != nil && f.knew(p, s) {
			f.violate(withinCompletions, "%s: at step %d it had written that a pod has succeeded, and completions is not set", saw, s.N)
		}
	} else if most := mostOf(specs, func(s jobSpec) int64 { return s.completions }); int64(len(succeeded)+len(running)) > most {
		f.violate(withinCompletions, "%s: %d have succeeded (%s) and %d run (%s), and %d are enough",
			saw, len(succeeded), strings.Join(succeeded, ", "), len(running), strings.Join(running, ", "), most)
	}
	f.checkIndex(p, pods, taken, saw)
	if orphans := f.adoptable(j, actor, root); len(orphans) > 0 {
		f.violate(adoptsFirst, "%s: it observes %s, which has no controller", saw, strings.Join(orphans, ", "))
	}
	if d := j.decided; d != nil && (f.knew(p, d) || view >= d.Revision) {
		f.violate(nothingAfterDecision, "%s: at step %d %s had written %s", saw, d.N, d.Actor, inspect.ConditionText(j.conditions))
	}
}

// knew reports whether a controller had the answer to one of its own writes when it sent the
// request that created a pod, even if both writes belong to one reconcile.
func (f *follower) knew(p *podRecord, write *history.Step) bool {
	s := &f.run.Steps[p.created]
	if s.Actor != write.Actor || write.Reply != "" {
		return false // the answer was lost or late: the controller learns of the write from its cache
	}
	return len(s.Causes) > 0 && s.Causes[0] >= write.N
}

// checkIndex checks the index that a pod was created for.
func (f *follower) checkIndex(p *podRecord, pods []*podRecord, taken func(*podRecord) bool, saw string) {
	if p.index == "" {
		return
	}
	for _, o := range pods {
		switch {
		case o == p || o.index != p.index:
		case taken(o):
			f.violate(onePodPerIndex, "%s: index %s already has %s", saw, p.index, o.name)
		case o.counts():
			f.violate(onePodPerIndex, "%s: index %s has already succeeded with %s", saw, p.index, o.name)
		}
	}
}

// counts reports whether the pod counts as succeeded beyond doubt: it succeeded before it was
// deleted, no controller has deleted it, and its index was not dropped.
func (p *podRecord) counts() bool { return p.succeeded && p.clean && !p.removed && !p.dropped }

// successes returns the names of the succeeded pods or, for an Indexed Job, of the succeeded indexes.
func successes(pods []*podRecord, indexed bool) (names []string) {
	for _, p := range pods {
		if !p.counts() {
			continue
		}
		name := p.name
		if indexed {
			name = "index " + p.index
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

func mostOf(specs []jobSpec, of func(jobSpec) int64) (most int64) {
	for _, s := range specs {
		most = max(most, of(s))
	}
	return most
}

// checkCounts compares the counts in the status with the pods that have finished. The status may
// lag behind the pods, but must never count more than there are.
func (f *follower) checkCounts(j *jobRecord) {
	if j.begun {
		return // pods may have been created and deleted before
	}
	var succeeded, failed, finished int64
	indexes := map[string]bool{}
	for _, p := range f.of(j.uid) {
		again := int64(p.finalizerAdded)
		if p.succeeded {
			succeeded += 1 + again
			indexes[p.index] = true
		}
		// Once a Job has failed, pods that still run count as failed.
		ranAtFailure := j.has("FailureTarget") && !p.finished()
		if p.failed || p.deleted || ranAtFailure {
			failed += 1 + again
		}
		if p.failed || p.deleted || p.succeeded || ranAtFailure {
			finished += 1 + again
		}
	}
	c, spec := countsOf(j.object), j.spec()
	haveSucceeded, haveFailed := c.succeeded+c.uncountedSucceeded, c.failed+c.uncountedFailed
	if spec.indexed {
		succeeded, finished = int64(len(indexes)), failed+int64(len(indexes))
	}
	says := fmt.Sprintf("the status shows %d succeeded (%d not counted yet) and %d failed (%d)", c.succeeded, c.uncountedSucceeded, c.failed, c.uncountedFailed)
	switch {
	case haveSucceeded > succeeded:
		f.violate(countedOnce, "%s, but %d have succeeded", says, succeeded)
	case haveFailed > failed:
		f.violate(countedOnce, "%s, but %d have failed or were deleted", says, failed)
	case haveSucceeded+haveFailed > finished:
		f.violate(countedOnce, "%s, but %d have finished or were deleted", says, finished)
	}
}

// checkConditions compares the conditions with the previous ones and with the other fields of the
// status.
func (f *follower) checkConditions(j *jobRecord, before map[string]string) {
	for _, typ := range [...]string{"SuccessCriteriaMet", "FailureTarget", "Complete", "Failed"} {
		if before[typ] == "True" && !j.has(typ) {
			f.violate(legalConditions, "%s was true and is %q", typ, j.conditions[typ])
		}
	}
	success, failure := j.has("SuccessCriteriaMet") || j.has("Complete"), j.has("FailureTarget") || j.has("Failed")
	c := countsOf(j.object)
	switch {
	case success && failure:
		f.violate(legalConditions, "success and failure at once: %s", inspect.ConditionText(j.conditions))
	case j.has("Complete") && !j.has("SuccessCriteriaMet"), j.has("Failed") && !j.has("FailureTarget"):
		f.violate(legalConditions, "it finished without SuccessCriteriaMet or FailureTarget: %s", inspect.ConditionText(j.conditions))
	case j.finished() && (c.active != 0 || c.terminating != 0 || c.uncountedSucceeded+c.uncountedFailed != 0):
		f.violate(legalConditions, "%s, but %d active, %d terminating and %d not counted pods", inspect.ConditionText(j.conditions),
			c.active, c.terminating, c.uncountedSucceeded+c.uncountedFailed)
	}
}
