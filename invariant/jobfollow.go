package invariant

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rehearse-k8s/rehearse/history"
)

// jobsResource is where Jobs are.
const jobsResource = "jobs.batch"

// jobFollower follows one Job through one run: which steps made what of it and of its
// pods. Each step is looked at once.
type jobFollower struct {
	owner  Owner
	run    *history.Run
	steps  int // of the run that have been taken in
	since  int // what was there before this step cannot be judged
	writer *history.Step
	views  map[string][]jobView // by actor, in the order of steps
	// podViews are those of pods, by actor and pod; "" is for lists, which show all pods.
	podViews map[string]map[string][]jobView
	orphans  map[types.UID]*orphan
	jobs     map[types.UID]*jobRecord
	pods     map[types.UID]*podRecord
	made     map[types.UID]int // pods that controllers made, by the step
	active   map[string]bool   // the actors that are controllers
	broken   map[jobPromise]error
}

// jobView is the revision of the Job that an actor's cache has from a step on.
type jobView struct {
	step     int
	revision int64
}

func newJobFollower(owner Owner) *jobFollower {
	f := &jobFollower{owner: owner}
	f.reset(nil)
	return f
}

func (f *jobFollower) reset(run *history.Run) {
	*f = jobFollower{
		owner: f.owner, run: run, views: map[string][]jobView{}, podViews: map[string]map[string][]jobView{}, orphans: map[types.UID]*orphan{}, jobs: map[types.UID]*jobRecord{}, pods: map[types.UID]*podRecord{},
		made: map[types.UID]int{}, active: map[string]bool{}, broken: map[jobPromise]error{},
	}
	if run != nil {
		f.since = len(run.Steps) - 1
	}
}

// follow takes in what has happened since the last time. Whoever plays the run asks
// after every step that wrote something, so that there is one write to take in.
func (f *jobFollower) follow(v View) {
	run := v.Run()
	if run != f.run || len(run.Steps) < f.steps {
		f.reset(run)
	}
	if f.steps == len(run.Steps) && f.steps > 0 {
		return
	}
	f.writer = nil
	for ; f.steps < len(run.Steps); f.steps++ {
		f.take(f.steps)
	}
	f.takeJob(v.Get(jobsResource, f.owner.Namespace, f.owner.Name))
	f.takePods(v.List("pods"))
}

// take takes in one step of the record.
func (f *jobFollower) take(n int) {
	s := &f.run.Steps[n]
	switch s.Kind {
	case history.Start:
		f.active[s.Actor] = true
		f.views[s.Actor] = append(f.views[s.Actor], jobView{n, 0})
	case history.Frame:
		if s.Resource == jobsResource && s.Namespace == f.owner.Namespace && s.Name == f.owner.Name && s.Reply != "lost" {
			f.views[s.Actor] = append(f.views[s.Actor], jobView{n, s.Revision})
		}
		if s.Resource == "pods" && s.Reply != "lost" {
			f.sawPods(s.Actor, s.Key(), jobView{n, s.Revision})
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

// listed takes in a list of Jobs that has reached its actor.
func (f *jobFollower) listed(s *history.Step, at int) {
	if s.Kind != history.Request || s.Verb != "list" || s.Code/100 != 2 {
		return
	}
	view := jobView{at, cmp.Or(s.Revision, s.Truth)}
	switch s.Resource {
	case jobsResource:
		f.views[s.Actor] = append(f.views[s.Actor], view)
	case "pods":
		f.sawPods(s.Actor, "", view)
	}
}

func (f *jobFollower) wrote(s *history.Step) {
	f.writer = s
	if s.Resource != "pods" || s.Subresource != "" || !f.active[s.Actor] {
		return
	}
	switch s.Verb {
	case "create":
		f.made[types.UID(s.UID)] = s.N
	case "delete":
		if p := f.pods[types.UID(s.UID)]; p != nil && !p.terminating && !p.ended() {
			p.removed = true
		}
	}
}

// byController is the step that has just written an object, if a controller made it.
func (f *jobFollower) byController(resource string, o *unstructured.Unstructured) *history.Step {
	s := f.writer
	if s == nil || !f.active[s.Actor] || s.Resource != resource || s.Namespace != o.GetNamespace() || s.Name != o.GetName() {
		return nil
	}
	return s
}

// view is the revision of the Job that an actor knew at a step.
func (f *jobFollower) view(actor string, step int) int64 {
	views := f.views[actor]
	for n := len(views) - 1; n >= 0; n-- {
		if views[n].step <= step {
			return views[n].revision
		}
	}
	return 0
}

// takePods takes in the pods that the Job controls or has controlled.
func (f *jobFollower) takePods(pods []*unstructured.Unstructured) {
	for _, p := range f.pods {
		p.listed = false
	}
	var fresh []*podRecord
	present := make(map[types.UID]bool, len(pods))
	for _, o := range pods {
		if o.GetNamespace() != f.owner.Namespace {
			continue
		}
		present[o.GetUID()] = true
		p, ref := f.pods[o.GetUID()], metav1.GetControllerOfNoCopy(o)
		f.takeOrphan(o, ref)
		ours := ref != nil && ref.Kind == f.owner.Kind && ref.Name == f.owner.Name
		switch {
		case p == nil && !ours:
			continue
		case p == nil:
			p = f.newPod(o, ref.UID)
			f.pods[p.uid] = p
			fresh = append(fresh, p)
		case ours && ref.UID != p.job: // the next Job of the name has adopted it
			p = f.newPod(o, ref.UID)
			p.made = -1
			f.pods[p.uid] = p
		}
		p.listed = true
		if p.object != o {
			p.take(o, f.byController("pods", o) != nil, f.jobs[p.job])
		}
	}
	for _, p := range f.pods {
		if !p.listed && !p.gone {
			p.gone, p.deleted = true, true
		}
	}
	maps.DeleteFunc(f.orphans, func(uid types.UID, _ *orphan) bool { return !present[uid] })
	for _, p := range fresh {
		j := f.jobs[p.job]
		switch {
		case j == nil: // it has gone or is not known: then any view of it is an old one
		case p.made > f.since:
			f.judgeCreation(j, p)
		case f.since == f.steps-1:
			j.begun = true
		}
	}
}

// of are the pods of a Job, sorted by name.
func (f *jobFollower) of(job types.UID) (pods []*podRecord) {
	for _, p := range f.pods {
		if p.job == job {
			pods = append(pods, p)
		}
	}
	slices.SortFunc(pods, func(a, b *podRecord) int { return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.uid, b.uid)) })
	return pods
}

// breaks notes the first time that a promise is broken.
func (f *jobFollower) breaks(p jobPromise, format string, args ...any) {
	if f.broken[p] == nil {
		f.broken[p] = fmt.Errorf(format, args...)
	}
}
