package job

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/invariant"
	"github.com/rehearse-k8s/rehearse/invariant/internal/inspect"
)

// jobsResource is the resource of Jobs.
const jobsResource = "jobs.batch"

// follower reads the record of one run step by step, each step once, and keeps what has happened to
// one Job and its pods.
type follower struct {
	owner      invariant.Owner
	run        *history.Run
	reconciles *inspect.Reconciles
	steps      int                    // the number of steps that have been read
	since      int                    // nothing before this step can be checked
	writer     *history.Step          // the last write that took effect
	views      map[string][]cacheView // of the Job, by actor, in the order of steps
	// podViews are views of pods, by actor and pod; "" is for lists, which show all pods.
	podViews   map[string]map[string][]cacheView
	orphans    map[types.UID]*orphan
	jobs       map[types.UID]*jobRecord
	pods       map[types.UID]*podRecord
	created    map[types.UID]int // the pods that controllers created, with the step
	active     map[string]bool   // the actors that are controllers
	violations map[invariantID]error
}

// cacheView is the revision that an actor's cache has from a step on.
type cacheView struct {
	step     int
	revision int64
}

func newFollower(owner invariant.Owner) *follower {
	f := &follower{owner: owner}
	f.reset(nil)
	return f
}

func (f *follower) reset(run *history.Run) {
	*f = follower{
		owner: f.owner, run: run, reconciles: inspect.NewReconciles(run), views: map[string][]cacheView{}, podViews: map[string]map[string][]cacheView{}, orphans: map[types.UID]*orphan{}, jobs: map[types.UID]*jobRecord{}, pods: map[types.UID]*podRecord{},
		created: map[types.UID]int{}, active: map[string]bool{}, violations: map[invariantID]error{},
	}
	if run != nil {
		f.since = len(run.Steps) - 1
	}
}

// follow reads the steps since the last call. It must be called after each step that wrote
// something, so that there is at most one write to attribute.
func (f *follower) follow(v invariant.View) {
	run := v.Run()
	if run != f.run || len(run.Steps) < f.steps {
		f.reset(run)
	}
	if f.steps == len(run.Steps) && f.steps > 0 {
		return
	}
	f.writer = nil
	for ; f.steps < len(run.Steps); f.steps++ {
		f.observeStep(f.steps)
	}
	f.observeJob(v.Get(jobsResource, f.owner.Namespace, f.owner.Name))
	f.observePods(v.List("pods"))
}

// observeStep reads one step of the record.
func (f *follower) observeStep(n int) {
	s := &f.run.Steps[n]
	switch s.Kind {
	case history.Start:
		f.active[s.Actor] = true
		f.views[s.Actor] = append(f.views[s.Actor], cacheView{n, 0})
	case history.Frame:
		if s.Resource == jobsResource && s.Namespace == f.owner.Namespace && s.Name == f.owner.Name && s.Reply != "lost" {
			f.views[s.Actor] = append(f.views[s.Actor], cacheView{n, s.Revision})
		}
		if s.Resource == "pods" && s.Reply != "lost" {
			f.sawPods(s.Actor, s.Key(), cacheView{n, s.Revision})
		}
	case history.Answer:
		if len(s.Causes) > 0 && s.Causes[0] < n {
			f.listed(&f.run.Steps[s.Causes[0]], n)
		}
	case history.Request:
		if s.Reply == "" {
			f.listed(s, n)
		}
		if s.Wrote() {
			f.wrote(s)
		}
	}
}

// listed reads a list of Jobs or pods that an actor has received.
func (f *follower) listed(s *history.Step, at int) {
	if s.Kind != history.Request || s.Verb != "list" || s.Code/100 != 2 {
		return
	}
	view := cacheView{at, cmp.Or(s.Revision, s.Truth)}
	switch s.Resource {
	case jobsResource:
		f.views[s.Actor] = append(f.views[s.Actor], view)
	case "pods":
		f.sawPods(s.Actor, "", view)
	}
}

func (f *follower) wrote(s *history.Step) {
	f.writer = s
	if s.Resource != "pods" || s.Subresource != "" || !f.active[s.Actor] {
		return
	}
	switch s.Verb {
	case "create":
		f.created[types.UID(s.UID)] = s.N
	case "delete":
		if p := f.pods[types.UID(s.UID)]; p != nil && !p.terminating && !p.finished() {
			p.removed = true
		}
	}
}

// byController returns the last write if a controller sent it and it wrote this object, else nil.
func (f *follower) byController(resource string, o *unstructured.Unstructured) *history.Step {
	s := f.writer
	if s == nil || !f.active[s.Actor] || s.Resource != resource || s.Namespace != o.GetNamespace() || s.Name != o.GetName() {
		return nil
	}
	return s
}

// view returns the revision of the Job that an actor had observed at a step.
func (f *follower) view(actor string, step int) int64 {
	views := f.views[actor]
	for n := len(views) - 1; n >= 0; n-- {
		if views[n].step <= step {
			return views[n].revision
		}
	}
	return 0
}

// observePods reads the pods that the Job controls or has controlled.
func (f *follower) observePods(pods []*unstructured.Unstructured) {
	for _, p := range f.pods {
		p.listed = false
	}
	var added []*podRecord
	present := make(map[types.UID]bool, len(pods))
	for _, o := range pods {
		if o.GetNamespace() != f.owner.Namespace {
			continue
		}
		present[o.GetUID()] = true
		p, ref := f.pods[o.GetUID()], metav1.GetControllerOfNoCopy(o)
		f.observeOrphan(o, ref)
		ours := ref != nil && ref.Kind == f.owner.Kind && ref.Name == f.owner.Name
		switch {
		case p == nil && !ours:
			continue
		case p == nil:
			p = f.newPod(o, ref.UID)
			f.pods[p.uid] = p
			added = append(added, p)
		case ours && ref.UID != p.job: // the next Job of the name has adopted it
			p = f.newPod(o, ref.UID)
			p.created = -1
			f.pods[p.uid] = p
		}
		p.listed = true
		if p.object != o {
			p.observe(o, f.byController("pods", o) != nil, f.jobs[p.job])
		}
	}
	for _, p := range f.pods {
		if !p.listed && !p.gone {
			p.gone, p.deleted = true, true
		}
	}
	maps.DeleteFunc(f.orphans, func(uid types.UID, _ *orphan) bool { return !present[uid] })
	for _, p := range added {
		j := f.jobs[p.job]
		switch {
		case j == nil: // the Job is deleted or unknown: each view of it is an old one
		case p.created > f.since:
			f.checkCreation(j, p)
		case f.since == f.steps-1:
			j.begun = true
		}
	}
}

// of returns the pods of a Job, sorted by name.
func (f *follower) of(job types.UID) (pods []*podRecord) {
	for _, p := range f.pods {
		if p.job == job {
			pods = append(pods, p)
		}
	}
	slices.SortFunc(pods, func(a, b *podRecord) int { return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.uid, b.uid)) })
	return pods
}

// violate records the first violation of an invariant.
func (f *follower) violate(p invariantID, format string, args ...any) {
	if f.violations[p] == nil {
		f.violations[p] = fmt.Errorf(format, args...)
	}
}
