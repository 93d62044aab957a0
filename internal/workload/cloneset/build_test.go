package cloneset

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/utils/ptr"

	"github.com/rehearse-k8s/rehearse/api/kruise"
	"github.com/rehearse-k8s/rehearse/api/kruise/v1alpha1"
	"github.com/rehearse-k8s/rehearse/internal/workload"
)

// world is a CloneSet and its objects in memory: as much of an API server as decisions are
// carried out on. What kubelets do is in kubelet_test.go. Nothing happens by itself.
//
// Every plan that is made in it is held to what holds of every plan (see plan).
type world struct {
	t         tb
	now       time.Time
	set       *v1alpha1.CloneSet
	pods      map[string]*corev1.Pod
	claims    map[string]*corev1.PersistentVolumeClaim
	revisions map[string]*appsv1.ControllerRevision
	nodes     map[string]map[string]string
	past      Past
	limits    Limits
	writes    int // each has its revision
	uids      int
	events    []string // reasons of events that were told
	story     []string // plans that were made, for failures
	// behaves is how a pod lives; without it, at once and well.
	behaves func(*corev1.Pod) behaviour
	// refuses is what the API says of a patch.
	refuses func(a *workload.Action) bool
}

// tb is what testing.T and rapid.T have in common.
type tb interface {
	Helper()
	Fatalf(format string, args ...any)
	Errorf(format string, args ...any)
	Logf(format string, args ...any)
}

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// newWorld has a set of so many pods, as the API fills it in, and no pod yet.
func newWorld(t tb, replicas int, change ...func(*v1alpha1.CloneSetSpec)) *world {
	set := &v1alpha1.CloneSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "set", Generation: 1}}
	set.Spec.Replicas = ptr.To(int32(replicas))
	set.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	set.Spec.Template.Labels = map[string]string{"app": "web"}
	set.Spec.Template.Spec.Containers = []corev1.Container{{Name: "main", Image: "web:1"}}
	set.Spec.UpdateStrategy.Type = v1alpha1.ReCreate
	w := &world{
		t: t, now: start, set: set,
		pods: map[string]*corev1.Pod{}, claims: map[string]*corev1.PersistentVolumeClaim{}, revisions: map[string]*appsv1.ControllerRevision{},
	}
	w.limits = DefaultLimits
	w.limits.StatusPause = 0
	for _, f := range change {
		f(&set.Spec)
	}
	w.wrote(set)
	return w
}

// grown is a world whose pods run.
func grown(t tb, replicas int, change ...func(*v1alpha1.CloneSetSpec)) *world {
	w := newWorld(t, replicas, change...)
	w.settle()
	return w
}

// Changes of a spec that many tests make.
func image(i string) func(*v1alpha1.CloneSetSpec) {
	return func(s *v1alpha1.CloneSetSpec) { s.Template.Spec.Containers[0].Image = i }
}
func strategy(kind v1alpha1.CloneSetUpdateStrategyType) func(*v1alpha1.CloneSetSpec) {
	return func(s *v1alpha1.CloneSetSpec) { s.UpdateStrategy.Type = kind }
}
func second(c corev1.Container) func(*v1alpha1.CloneSetSpec) {
	return func(s *v1alpha1.CloneSetSpec) {
		s.Template.Spec.Containers = append(s.Template.Spec.Containers[:1:1], c)
	}
}
func replicas(n int32) func(*v1alpha1.CloneSetSpec) {
	return func(s *v1alpha1.CloneSetSpec) { s.Replicas = &n }
}
func partition(v intstr.IntOrString) func(*v1alpha1.CloneSetSpec) {
	return func(s *v1alpha1.CloneSetSpec) { s.UpdateStrategy.Partition = &v }
}
func maxUnavailable(v intstr.IntOrString) func(*v1alpha1.CloneSetSpec) {
	return func(s *v1alpha1.CloneSetSpec) { s.UpdateStrategy.MaxUnavailable = &v }
}
func maxSurge(v intstr.IntOrString) func(*v1alpha1.CloneSetSpec) {
	return func(s *v1alpha1.CloneSetSpec) { s.UpdateStrategy.MaxSurge = &v }
}
func claim(name string) func(*v1alpha1.CloneSetSpec) {
	return func(s *v1alpha1.CloneSetSpec) {
		s.VolumeClaimTemplates = append(s.VolumeClaimTemplates, corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}})
		s.Template.Spec.Containers[0].VolumeMounts = append(s.Template.Spec.Containers[0].VolumeMounts, corev1.VolumeMount{Name: name, MountPath: "/" + name})
	}
}

var number, percent = intstr.FromInt32, intstr.FromString

// edit is what a user does to the spec.
func (w *world) edit(change ...func(*v1alpha1.CloneSetSpec)) {
	w.set = w.set.DeepCopy()
	for _, f := range change {
		f(&w.set.Spec)
	}
	w.set.Generation++
	w.wrote(w.set)
}

// change is what anybody does to a pod.
func (w *world) change(slot int, f func(*corev1.Pod)) {
	w.t.Helper()
	p := w.pod(slot)
	if p == nil {
		w.t.Fatalf("there is no pod %d", slot)
	}
	p = p.DeepCopy()
	f(p)
	w.wrote(p)
	w.pods[p.Name] = p
}

// pod is that of a slot, nil if there is none.
func (w *world) pod(slot int) *corev1.Pod { return w.pods[w.name(slot)] }

func (w *world) name(slot int) string { return podName(w.set.Name, instanceID(w.set.UID, slot)) }

func (w *world) wrote(o metav1.Object) {
	w.writes++
	o.SetResourceVersion(fmt.Sprint(w.writes))
}

// fill is what an API fills into templates.
func fill(t *corev1.PodTemplateSpec) {
	if t.Spec.RestartPolicy == "" {
		t.Spec.RestartPolicy = corev1.RestartPolicyAlways
	}
	for i := range t.Spec.Containers {
		if c := &t.Spec.Containers[i]; c.ImagePullPolicy == "" {
			c.ImagePullPolicy = corev1.PullIfNotPresent
		}
	}
}

func withDefaults(t *corev1.PodTemplateSpec) *corev1.PodTemplateSpec {
	t = t.DeepCopy()
	fill(t)
	return t
}

// state is what caches show that are up to date. It shares nothing with anything.
func (w *world) state() State {
	s := State{Set: w.set.DeepCopy(), Digest: Digest(withDefaults(&w.set.Spec.Template)), Limits: w.limits, Nodes: w.nodes, Past: w.past}
	s.Past.Taken, s.Past.Failed = maps.Clone(w.past.Taken), maps.Clone(w.past.Failed)
	for _, name := range sorted(w.pods) {
		p := View(w.pods[name].DeepCopy())
		switch p.Controller {
		case w.set.UID:
			s.Pods = append(s.Pods, p)
		case "":
			s.Orphans = append(s.Orphans, p)
		}
	}
	for _, name := range sorted(w.claims) {
		if c := w.claims[name].DeepCopy(); metav1.GetControllerOf(c) != nil {
			s.Claims = append(s.Claims, ViewClaim(c))
		} else {
			s.LooseClaims = append(s.LooseClaims, ViewClaim(c))
		}
	}
	for _, name := range sorted(w.revisions) {
		r, err := ReadRevision(w.revisions[name].DeepCopy(), fill)
		if err != nil {
			w.t.Fatalf("%v", err)
		}
		s.Revisions = append(s.Revisions, r)
	}
	return s
}

// plan makes a plan and holds it to what holds of all: it changes nothing of what it was
// made from, it is the same when it is made again, and it does at most one thing to an
// object.
func (w *world) plan() Decision {
	w.t.Helper()
	s := w.state()
	before := asJSON(s)
	d := Plan(w.now, s)
	if after := asJSON(s); after != before {
		w.t.Fatalf("the plan has changed what it was made from:\n%s\n%s", before, after)
	}
	if first, second := asJSON(d), asJSON(Plan(w.now, w.state())); first != second {
		w.t.Fatalf("two plans of one state:\n%s\n%s", first, second)
	}
	seen := map[string]bool{}
	for i := range d.Actions {
		a := &d.Actions[i]
		if key := fmt.Sprintf("%T %s", a.Object, a.Object.GetName()); seen[key] {
			w.t.Fatalf("two things are done to one object: %s", w.acts(d))
		} else {
			seen[key] = true
		}
	}
	return d
}

func asJSON(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// acts is what a decision does, in words: "create 0", "PreparingDelete 2". Pods are named by
// their slots.
func (w *world) acts(d Decision) string {
	var all []string
	for i := range d.Actions {
		all = append(all, w.act(&d.Actions[i]))
	}
	return strings.Join(all, ", ")
}

func (w *world) act(a *workload.Action) string {
	verb := string(a.Verb)
	if a.Verb == workload.Patch {
		verb = a.Reason.Code
	}
	name := w.nameOf(a.Object.GetName())
	switch a.Object.(type) {
	case *appsv1.ControllerRevision:
		return verb + " revision"
	case *corev1.PersistentVolumeClaim:
		name = "claim " + name
	case *v1alpha1.CloneSet:
		name = "set"
	}
	if a.Then != nil {
		return verb + " " + name + " then " + w.act(a.Then)
	}
	return verb + " " + name
}

// nameOf has the number of a slot in place of an instance-id.
func (w *world) nameOf(name string) string {
	for slot := range 20 {
		if id := instanceID(w.set.UID, slot); strings.HasSuffix(name, id) {
			return strings.Replace(strings.TrimPrefix(name, "web-"), id, fmt.Sprint(slot), 1)
		}
	}
	return name
}

// expect has the next plan do exactly this, carries it out, and returns it.
func (w *world) expect(want string) Decision {
	w.t.Helper()
	d := w.plan()
	if got := w.acts(d); got != want {
		w.t.Fatalf("the plan is\n\t%s\nwant\n\t%s\nbecause %v", got, want, d.Reasons)
	}
	w.carryOut(d)
	return d
}

// carryOut does everything that was decided, in order.
func (w *world) carryOut(d Decision) {
	w.past = d.Past
	w.writeStatus(d)
	for i := range d.Actions {
		w.do(&d.Actions[i])
	}
}

func (w *world) writeStatus(d Decision) {
	if d.Status == nil {
		return
	}
	w.set = w.set.DeepCopy()
	w.set.Status = *d.Status.DeepCopy()
	w.wrote(w.set)
	for _, e := range d.Events {
		w.events = append(w.events, e.Reason)
	}
}

var (
	errConflict = errors.New("it is another one, or another version")
	errGone     = errors.New("it is not there")
	errRefused  = errors.New("the API does not take it")
)

// do carries an action out, and what follows it if it had effect.
func (w *world) do(a *workload.Action) error {
	left, err := w.doOne(a)
	if err != nil || a.Then == nil {
		return err
	}
	then := *a.Then
	if then.Verb != workload.Create {
		then.Object = left
	}
	return w.do(&then)
}

func (w *world) doOne(a *workload.Action) (workload.Object, error) {
	name := a.Object.GetName()
	is := w.find(a.Object)
	if a.Verb == workload.Create {
		if is == nil {
			w.create(a.Object.DeepCopyObject().(workload.Object))
		} else if !metav1.IsControlledBy(is, w.set) {
			if w.past.Taken == nil {
				w.past.Taken = map[string]bool{}
			}
			w.past.Taken[name] = true
			return nil, errConflict
		}
		return nil, nil
	}
	switch {
	case is == nil:
		return nil, errGone
	case is.GetUID() != a.Object.GetUID(), a.Exact && is.GetResourceVersion() != a.Object.GetResourceVersion():
		return nil, errConflict
	}
	if a.Verb == workload.Delete {
		w.delete(is)
		return nil, nil
	}
	if w.refuses != nil && w.refuses(a) {
		return nil, errRefused
	}
	return w.patch(is, a), nil
}

// find is the object of this name and kind that is there, nil if none is.
func (w *world) find(o workload.Object) workload.Object {
	switch o.(type) {
	case *corev1.Pod:
		if p := w.pods[o.GetName()]; p != nil {
			return p
		}
	case *corev1.PersistentVolumeClaim:
		if c := w.claims[o.GetName()]; c != nil {
			return c
		}
	case *appsv1.ControllerRevision:
		if r := w.revisions[o.GetName()]; r != nil {
			return r
		}
	case *v1alpha1.CloneSet:
		return w.set
	}
	return nil
}

func (w *world) create(o workload.Object) {
	w.uids++
	o.SetUID(types.UID(fmt.Sprintf("uid-%d", w.uids)))
	o.SetCreationTimestamp(metav1.NewTime(w.now))
	if p, ok := o.(*corev1.Pod); ok {
		p.Status.Phase = corev1.PodPending
	}
	w.put(o)
}

func (w *world) put(o workload.Object) {
	w.wrote(o)
	switch o := o.(type) {
	case *corev1.Pod:
		w.pods[o.Name] = o
	case *corev1.PersistentVolumeClaim:
		w.claims[o.Name] = o
	case *appsv1.ControllerRevision:
		w.revisions[o.Name] = o
	case *v1alpha1.CloneSet:
		w.set = o
	}
}

// delete marks pods and claims, for kubelets and others to let them go.
func (w *world) delete(o workload.Object) {
	if r, ok := o.(*appsv1.ControllerRevision); ok {
		delete(w.revisions, r.Name)
		return
	}
	if o.GetDeletionTimestamp() != nil {
		return
	}
	o = o.DeepCopyObject().(workload.Object)
	o.SetDeletionTimestamp(ptr.To(metav1.NewTime(w.now)))
	w.put(o)
}

// patch changes an object as the API does it: what a subresource does not have stays.
func (w *world) patch(is workload.Object, a *workload.Action) workload.Object {
	was, err := json.Marshal(is)
	if err != nil {
		panic(err)
	}
	body := asJSON(a.Patch)
	// A merge patch without lists of objects means the same as a strategic one.
	text, err := strategicpatch.StrategicMergePatch(was, []byte(body), is)
	if err != nil {
		w.t.Fatalf("%s: %v", body, err)
	}
	left := is.DeepCopyObject().(workload.Object)
	switch left := left.(type) {
	case *corev1.Pod:
		next := &corev1.Pod{}
		w.read(text, next)
		if whole, ok := a.Patch.(workload.Applier).Applied(left).(*corev1.Pod); ok && !same(whole, next) {
			w.t.Errorf("%s\nof %+v\nis sent as %+v\nwhere the API makes %+v", body, left, whole, next)
		}
		for i := range next.Spec.Containers {
			if next.Spec.Containers[i].Name != left.Spec.Containers[i].Name {
				w.t.Fatalf("%s: containers change places, which the API refuses", body)
			}
		}
		switch a.Subresource {
		case "":
			next.Status = left.Status
			*left = *next
		case "status":
			left.Labels, left.Annotations, left.Status = next.Labels, next.Annotations, next.Status
		case "resize":
			for i := range left.Spec.Containers {
				left.Spec.Containers[i].Resources = next.Spec.Containers[i].Resources
			}
		}
	case *corev1.PersistentVolumeClaim:
		next := &corev1.PersistentVolumeClaim{}
		w.read(text, next)
		*left = *next
	case *v1alpha1.CloneSet:
		next := &v1alpha1.CloneSet{}
		w.read(text, next)
		next.Generation++
		*left = *next
	default:
		w.read(text, left)
	}
	if from, to := is.GetLabels()[kruise.LabelState], left.GetLabels()[kruise.LabelState]; from != to && !inTable(kruise.LifecycleState(from), kruise.LifecycleState(to)) {
		w.t.Errorf("from %q to %q: the table has no such way", from, to)
	}
	w.put(left)
	return left
}

// same compares pods. Conditions are a map by type: their order says nothing.
func same(a, b *corev1.Pod) bool {
	a, b = a.DeepCopy(), b.DeepCopy()
	for _, p := range []*corev1.Pod{a, b} {
		slices.SortFunc(p.Status.Conditions, func(a, b corev1.PodCondition) int { return strings.Compare(string(a.Type), string(b.Type)) })
	}
	return equality.Semantic.DeepEqual(a, b)
}

func (w *world) read(text []byte, into any) {
	if err := json.Unmarshal(text, into); err != nil {
		w.t.Fatalf("%v", err)
	}
}

// active are the pods that count, by name.
func (w *world) active() (pods []*Pod) {
	return slices.DeleteFunc(w.state().Pods, func(p *Pod) bool { return !p.active })
}

// lastOf is what a chain of actions ends with, if that is a pod.
func lastOf(a *workload.Action) *corev1.Pod {
	for a.Then != nil {
		a = a.Then
	}
	p, _ := a.Object.(*corev1.Pod)
	return p
}
