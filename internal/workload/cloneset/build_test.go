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

// world is a CloneSet and its objects in memory, with the part of an API server that carries decisions out.
// kubelet_test.go simulates the kubelets. Nothing happens by itself.
//
// Every plan in a world is checked for what must hold for all plans (see plan).
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
	writes    int // each write has its own revision
	uids      int
	events    []string // reasons of the emitted Events
	trace     []string // plans, for messages of failures
	// behaves returns how a pod behaves; if it is nil, all pods start at once without errors.
	behaves func(*corev1.Pod) behaviour
	// rejects reports whether the API rejects a patch.
	rejects func(a *workload.Action) bool
}

// tb contains the methods that testing.T and rapid.T have in common.
type tb interface {
	Helper()
	Fatalf(format string, args ...any)
	Errorf(format string, args ...any)
	Logf(format string, args ...any)
}

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// newWorld returns a world with a set of so many replicas, with the API's defaults, and without pods.
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

// newRunningWorld returns a world whose pods run.
func newRunningWorld(t tb, replicas int, change ...func(*v1alpha1.CloneSetSpec)) *world {
	w := newWorld(t, replicas, change...)
	w.settle()
	return w
}

// Changes of a spec that many tests use.
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

// edit is a user's change of the spec.
func (w *world) edit(change ...func(*v1alpha1.CloneSetSpec)) {
	w.set = w.set.DeepCopy()
	for _, f := range change {
		f(&w.set.Spec)
	}
	w.set.Generation++
	w.wrote(w.set)
}

// change is another actor's change of a pod.
func (w *world) change(slot int, f func(*corev1.Pod)) {
	w.t.Helper()
	p := w.pod(slot)
	if p == nil {
		w.t.Fatalf("pod %d does not exist", slot)
	}
	p = p.DeepCopy()
	f(p)
	w.wrote(p)
	w.pods[p.Name] = p
}

// pod returns the pod of a slot, nil if it does not exist.
func (w *world) pod(slot int) *corev1.Pod { return w.pods[w.name(slot)] }

func (w *world) name(slot int) string { return podName(w.set.Name, instanceID(w.set.UID, slot)) }

func (w *world) wrote(o metav1.Object) {
	w.writes++
	o.SetResourceVersion(fmt.Sprint(w.writes))
}

// fill sets the API's defaults in a template.
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

// state returns the state that up-to-date caches show, as a deep copy.
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

// plan makes a plan and checks it: it changes nothing of its input, the same input gives the same plan, and
// there is at most one action for an object.
func (w *world) plan() Decision {
	w.t.Helper()
	s := w.state()
	before := asJSON(s)
	d := Plan(w.now, s)
	if after := asJSON(s); after != before {
		w.t.Fatalf("the plan has changed its input:\n%s\n%s", before, after)
	}
	if first, second := asJSON(d), asJSON(Plan(w.now, w.state())); first != second {
		w.t.Fatalf("two plans of the same state differ:\n%s\n%s", first, second)
	}
	seen := map[string]bool{}
	for i := range d.Actions {
		a := &d.Actions[i]
		if key := fmt.Sprintf("%T %s", a.Object, a.Object.GetName()); seen[key] {
			w.t.Fatalf("two actions for one object: %s", w.acts(d))
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

// acts returns a decision in words: "create 0", "PreparingDelete 2". Pods are named by their slots.
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

// nameOf replaces the instance-id in a name by the number of its slot.
func (w *world) nameOf(name string) string {
	for slot := range 20 {
		if id := instanceID(w.set.UID, slot); strings.HasSuffix(name, id) {
			return strings.Replace(strings.TrimPrefix(name, "web-"), id, fmt.Sprint(slot), 1)
		}
	}
	return name
}

// expect checks that the next plan does exactly this, carries it out, and returns it.
func (w *world) expect(want string) Decision {
	w.t.Helper()
	d := w.plan()
	if got := w.acts(d); got != want {
		w.t.Fatalf("the plan is\n\t%s\nwant\n\t%s\nreasons %v", got, want, d.Reasons)
	}
	w.carryOut(d)
	return d
}

// carryOut carries out the whole decision, in order.
func (w *world) carryOut(d Decision) {
	w.past = d.Past
	w.writeStatus(d)
	for i := range d.Actions {
		w.apply(&d.Actions[i])
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
	errConflict = errors.New("the UID or the resourceVersion differs")
	errGone     = errors.New("not found")
	errRejected = errors.New("rejected")
)

// do carries out an action and, if it had an effect, the one that follows it.
func (w *world) apply(a *workload.Action) error {
	left, err := w.applyOne(a)
	if err != nil || a.Then == nil {
		return err
	}
	then := *a.Then
	if then.Verb != workload.Create {
		then.Object = left
	}
	return w.apply(&then)
}

func (w *world) applyOne(a *workload.Action) (workload.Object, error) {
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
	if w.rejects != nil && w.rejects(a) {
		return nil, errRejected
	}
	return w.patch(is, a), nil
}

// find returns the stored object with the name and kind of o, nil if there is none.
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

// delete sets the deletionTimestamp of pods and claims; the kubelet and tidy remove them later.
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

// patch changes an object as the API server does: fields outside the subresource stay.
func (w *world) patch(is workload.Object, a *workload.Action) workload.Object {
	was, err := json.Marshal(is)
	if err != nil {
		panic(err)
	}
	body := asJSON(a.Patch)
	// A merge patch without lists of objects is equivalent to a strategic one.
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
				w.t.Fatalf("%s: the API rejects reordered containers", body)
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
		w.t.Errorf("from %q to %q: the table has no such transition", from, to)
	}
	w.put(left)
	return left
}

// same compares pods. Conditions are a map by type, so their order does not matter.
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

// active returns the active pods, sorted by name.
func (w *world) active() (pods []*Pod) {
	return slices.DeleteFunc(w.state().Pods, func(p *Pod) bool { return !p.active })
}

// lastOf returns the object of the last action of a chain, nil if it is not a pod.
func lastOf(a *workload.Action) *corev1.Pod {
	for a.Then != nil {
		a = a.Then
	}
	p, _ := a.Object.(*corev1.Pod)
	return p
}
