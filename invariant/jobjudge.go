package invariant

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rehearse-k8s/rehearse/history"
)

// judgeCreation judges the decision to make a pod.
func (f *jobFollower) judgeCreation(j *jobRecord, p *podRecord) {
	actor := f.run.Steps[p.made].Actor
	root := viewed(f.run, p.made)
	view := f.view(actor, root)
	specs := j.inForce(view)
	saw := fmt.Sprintf("step %d makes %s; decided at step %d with the Job at revision %d", p.made, p.name, root, view)

	pods := f.of(p.job)
	waits := !slices.ContainsFunc(specs, func(s jobSpec) bool { return !s.waits })
	taken := func(o *podRecord) bool { return o.made >= 0 && (o.running() || waits && o.stopping()) }
	var running []string
	for _, o := range pods {
		if taken(o) {
			running = append(running, o.name)
		}
	}
	if most := mostOf(specs, func(s jobSpec) int64 { return s.parallelism }); int64(len(running)) > most {
		f.breaks(withinParallelism, "%s: now %d run (%s), and %d may", saw, len(running), strings.Join(running, ", "), most)
	}
	succeeded := successes(pods, specs[0].indexed)
	if slices.ContainsFunc(specs, func(s jobSpec) bool { return s.endless }) {
		if s := j.succeeded; s != nil && f.knew(p, s) {
			f.breaks(withinCompletions, "%s: at step %d it had written that a pod has succeeded, and completions is not set", saw, s.N)
		}
	} else if most := mostOf(specs, func(s jobSpec) int64 { return s.completions }); int64(len(succeeded)+len(running)) > most {
		f.breaks(withinCompletions, "%s: %d have succeeded (%s) and %d run (%s), and %d are enough",
			saw, len(succeeded), strings.Join(succeeded, ", "), len(running), strings.Join(running, ", "), most)
	}
	f.judgeIndex(p, pods, taken, saw)
	if orphans := f.adoptable(j, actor, root); len(orphans) > 0 {
		f.breaks(orphansFirst, "%s: it sees %s, without a controller", saw, strings.Join(orphans, ", "))
	}
	if d := j.decided; d != nil && (f.knew(p, d) || view >= d.Revision) {
		f.breaks(nothingAfterTheEnd, "%s: at step %d %s had written %s", saw, d.N, d.Actor, conditionText(j.conditions))
	}
}

// knew tells whether a controller sent the request that made a pod when it had the
// answer to a write of its own. That the two belong to one reconcile is no excuse.
func (f *jobFollower) knew(p *podRecord, write *history.Step) bool {
	s := &f.run.Steps[p.made]
	if s.Actor != write.Actor || write.Reply != "" {
		return false // a lost or late answer tells it nothing; its cache will
	}
	return len(s.Causes) > 0 && s.Causes[0] >= write.N
}

// judgeIndex judges which index a pod was made for.
func (f *jobFollower) judgeIndex(p *podRecord, pods []*podRecord, taken func(*podRecord) bool, saw string) {
	if p.index == "" {
		return
	}
	for _, o := range pods {
		switch {
		case o == p || o.index != p.index:
		case taken(o):
			f.breaks(onePodPerIndex, "%s: for index %s there is %s", saw, p.index, o.name)
		case o.counts():
			f.breaks(onePodPerIndex, "%s: for index %s %s has succeeded", saw, p.index, o.name)
		}
	}
}

// counts tells whether the pod's success cannot be called into question: it succeeded
// by itself, no controller has removed it, and its index was not dropped.
func (p *podRecord) counts() bool { return p.succeeded && p.clean && !p.removed && !p.dropped }

// successes names what has succeeded: pods, or the indexes of an indexed Job.
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

// judgeCounts compares what the status has counted with the pods that have ended. It
// may not have counted all of them yet, but never more.
func (f *jobFollower) judgeCounts(j *jobRecord) {
	if j.begun {
		return // pods may have come and gone before
	}
	var succeeded, failed, ended int64
	indexes := map[string]bool{}
	for _, p := range f.of(j.uid) {
		again := int64(p.putBack)
		if p.succeeded {
			succeeded += 1 + again
			indexes[p.index] = true
		}
		// Once a Job has failed, pods that still run count as failed.
		ranAtFailure := j.has("FailureTarget") && !p.ended()
		if p.failed || p.deleted || ranAtFailure {
			failed += 1 + again
		}
		if p.failed || p.deleted || p.succeeded || ranAtFailure {
			ended += 1 + again
		}
	}
	c, spec := countsOf(j.object), j.spec()
	haveSucceeded, haveFailed := c.succeeded+c.uncountedSucceeded, c.failed+c.uncountedFailed
	if spec.indexed {
		succeeded, ended = int64(len(indexes)), failed+int64(len(indexes))
	}
	says := fmt.Sprintf("the status says %d succeeded (%d not counted yet) and %d failed (%d)", c.succeeded, c.uncountedSucceeded, c.failed, c.uncountedFailed)
	switch {
	case haveSucceeded > succeeded:
		f.breaks(countedOnce, "%s, but %d have succeeded", says, succeeded)
	case haveFailed > failed:
		f.breaks(countedOnce, "%s, but %d have failed or were deleted", says, failed)
	case haveSucceeded+haveFailed > ended:
		f.breaks(countedOnce, "%s, but %d have ended or were deleted", says, ended)
	}
}

// judgeConditions compares the conditions with those before, and with the rest of the
// status.
func (f *jobFollower) judgeConditions(j *jobRecord, before map[string]string) {
	for _, typ := range [...]string{"SuccessCriteriaMet", "FailureTarget", "Complete", "Failed"} {
		if before[typ] == "True" && !j.has(typ) {
			f.breaks(legalConditions, "%s was true and is %q", typ, j.conditions[typ])
		}
	}
	success, failure := j.has("SuccessCriteriaMet") || j.has("Complete"), j.has("FailureTarget") || j.has("Failed")
	c := countsOf(j.object)
	switch {
	case success && failure:
		f.breaks(legalConditions, "success and failure at once: %s", conditionText(j.conditions))
	case j.has("Complete") && !j.has("SuccessCriteriaMet"), j.has("Failed") && !j.has("FailureTarget"):
		f.breaks(legalConditions, "it ended without having said why: %s", conditionText(j.conditions))
	case j.finished() && (c.active != 0 || c.terminating != 0 || c.uncountedSucceeded+c.uncountedFailed != 0):
		f.breaks(legalConditions, "%s, but %d active, %d terminating and %d not counted pods", conditionText(j.conditions),
			c.active, c.terminating, c.uncountedSucceeded+c.uncountedFailed)
	}
}
