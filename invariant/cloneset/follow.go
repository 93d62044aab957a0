package cloneset

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rehearse-k8s/rehearse/api/kruise"
	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/invariant"
	"github.com/rehearse-k8s/rehearse/invariant/internal/inspect"
)

// The resources of CloneSets and of what they control.
const (
	setsResource      = "clonesets.apps.kruise.io"
	claimsResource    = "persistentvolumeclaims"
	revisionsResource = "controllerrevisions.apps"
)

// follower reads the record of one run step by step, each step once, and keeps what has happened to
// one CloneSet and its pods.
type follower struct {
	owner      invariant.Owner
	run        *history.Run
	reconciles *inspect.Reconciles
	steps      int // the number of steps that have been read
	since      int // nothing before this step can be checked
	writer     *history.Step
	// views are the revisions that the caches of an actor have, by actor and resource, in the
	// order of steps.
	views map[[2]string][]cacheView
	sets  map[types.UID]*setRecord
	pods  map[types.UID]*podRecord
	// last is the latest pod with an instance-id.
	last    map[string]*podRecord
	started map[string]bool // actors
	// controllers are the started actors that are controllers of CloneSets.
	controllers map[string]bool
	// unclaimed are the claims that a controller deleted by name, with the step.
	unclaimed  map[string]int
	violations map[invariantID]error
}

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
		owner: f.owner, run: run, reconciles: inspect.NewReconciles(run), views: map[[2]string][]cacheView{}, sets: map[types.UID]*setRecord{}, pods: map[types.UID]*podRecord{},
		last: map[string]*podRecord{}, started: map[string]bool{}, controllers: map[string]bool{}, unclaimed: map[string]int{},
		violations: map[invariantID]error{},
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
	if o := v.Get(setsResource, f.owner.Namespace, f.owner.Name); o != nil {
		if f.sets[o.GetUID()] == nil {
			f.sets[o.GetUID()] = &setRecord{uid: o.GetUID()}
		}
		f.sets[o.GetUID()].observe(o)
		if s := f.writer; s != nil && f.started[s.Actor] && s.Resource == setsResource && s.Name == f.owner.Name && s.Namespace == f.owner.Namespace {
			f.controllers[s.Actor] = true
		}
	}
	if s := f.writer; s != nil && s.Resource == revisionsResource && s.Verb == "create" && f.started[s.Actor] {
		if o := v.Get(revisionsResource, s.Namespace, s.Name); o != nil && f.owns(o) != "" {
			f.controllers[s.Actor] = true
		}
	}
	f.observePods(v)
}

// observeStep reads one step of the record.
func (f *follower) observeStep(n int) {
	s := &f.run.Steps[n]
	switch s.Kind {
	case history.Start:
		f.started[s.Actor] = true
		for _, resource := range [...]string{setsResource, "pods"} {
			f.recordView(s.Actor, resource, n, 0)
		}
	case history.Frame:
		if s.Reply != "lost" {
			f.recordView(s.Actor, s.Resource, n, s.Revision)
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
			f.writer = s
			if s.Resource == claimsResource && s.Verb == "delete" && f.controllers[s.Actor] && s.Namespace == f.owner.Namespace {
				f.unclaimed[s.Name] = n
			}
		}
	}
}

// listed reads a list that an actor has received.
func (f *follower) listed(s *history.Step, at int) {
	if s.Kind == history.Request && s.Verb == "list" && s.Code/100 == 2 {
		f.recordView(s.Actor, s.Resource, at, cmp.Or(s.Revision, s.Truth))
	}
}

func (f *follower) recordView(actor, resource string, step int, revision int64) {
	if resource != setsResource && resource != "pods" {
		return
	}
	k := [2]string{actor, resource}
	f.views[k] = append(f.views[k], cacheView{step, revision})
}

// view returns the revision that an actor's cache of a resource had at a step.
func (f *follower) view(actor, resource string, step int) int64 {
	views := f.views[[2]string{actor, resource}]
	for n := len(views) - 1; n >= 0; n-- {
		if views[n].step <= step {
			return views[n].revision
		}
	}
	return 0
}

// owns returns the UID of the CloneSet with the owner's name that controls an object, "" if none does.
func (f *follower) owns(o *unstructured.Unstructured) types.UID {
	if ref := metav1.GetControllerOfNoCopy(o); ref != nil && ref.Kind == f.owner.Kind && ref.Name == f.owner.Name {
		return ref.UID
	}
	return ""
}

// wrote returns the last write if a controller of CloneSets sent it and it wrote this object, else nil.
func (f *follower) wrote(resource, namespace, name string) *history.Step {
	s := f.writer
	if s == nil || !f.controllers[s.Actor] || s.Resource != resource || s.Namespace != namespace || s.Name != name {
		return nil
	}
	return s
}

// observePods reads the pods that the CloneSet controls or has controlled, and checks what was done
// to them.
func (f *follower) observePods(v invariant.View) {
	for _, p := range f.pods {
		p.listed = false
	}
	var changed []*podRecord
	for _, o := range v.List("pods") {
		if o.GetNamespace() != f.owner.Namespace {
			continue
		}
		p := f.pods[o.GetUID()]
		set := f.owns(o)
		if p == nil {
			if set == "" {
				continue
			}
			p = &podRecord{uid: o.GetUID(), name: o.GetName(), owned: -1}
			f.pods[p.uid] = p
			if s := f.writer; s != nil && f.started[s.Actor] && s.Resource == "pods" && s.Verb == "create" && s.Name == p.name {
				f.controllers[s.Actor] = true
			}
		}
		p.listed = true
		if p.object != o && f.observePod(p, o, set) {
			changed = append(changed, p)
		}
	}
	for _, p := range f.pods {
		if p.listed || p.now().gone {
			continue
		}
		gone := podVersion{gone: true, writer: f.wrote("pods", f.owner.Namespace, p.name)}
		if s := f.writer; s != nil {
			gone.revision = s.Revision
		}
		p.versions = append(p.versions, gone)
		changed = append(changed, p)
	}
	for _, p := range changed {
		f.check(v, p)
	}
}

// observePod reads a new version of a pod, and reports whether it could be decoded.
func (f *follower) observePod(p *podRecord, o *unstructured.Unstructured, set types.UID) bool {
	pod := &corev1.Pod{}
	if runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, pod) != nil {
		return false // no API server would accept such a pod
	}
	p.object = o
	version := podVersion{
		revision: inspect.Revision(o), writer: f.wrote("pods", pod.Namespace, pod.Name), set: set, pod: pod,
		terminating: pod.DeletionTimestamp != nil, ended: pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed,
		state: kruise.LifecycleState(pod.Labels[kruise.LabelState]),
	}
	p.versions = append(p.versions, version)
	if id := pod.Labels[kruise.LabelInstanceID]; id != "" && set != "" {
		f.last[id] = p
	}
	return true
}

// of returns the pods that a CloneSet controls or controlled until they were deleted, sorted by name.
func (f *follower) of(set types.UID) (pods []*podRecord) {
	for _, p := range f.pods {
		if now := p.now(); now.gone && p.before() != nil && p.before().set == set || now.set == set {
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
