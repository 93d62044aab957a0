package invariant

import (
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
)

// orphan is a pod without a controller.
type orphan struct {
	name     string
	labels   labels.Set
	revision int64 // of the version from which on it had none, with these labels
}

// takeOrphan follows a pod that a Job may adopt: one without a controller that is not being deleted.
func (f *jobFollower) takeOrphan(o *unstructured.Unstructured, controller *metav1.OwnerReference) {
	uid := o.GetUID()
	if controller != nil || o.GetDeletionTimestamp() != nil {
		delete(f.orphans, uid)
		return
	}
	set := labels.Set(o.GetLabels())
	if known := f.orphans[uid]; known == nil || !labels.Equals(known.labels, set) {
		f.orphans[uid] = &orphan{name: keyOf(o), labels: set, revision: revisionOf(o)}
	}
}

// sawPods notes what an actor's cache shows of a pod, or of all pods.
func (f *jobFollower) sawPods(actor, pod string, view jobView) {
	if f.podViews[actor] == nil {
		f.podViews[actor] = map[string][]jobView{}
	}
	f.podViews[actor][pod] = append(f.podViews[actor][pod], view)
}

// adoptionDelay is how long a pod must have been seen without a controller before nothing may be
// created in its place. A process may read pods for several controllers, and pass them on after
// it has listed them again: what the process has been sent is then in no cache yet.
const adoptionDelay = 30 * time.Second

// adoptable names the pods that match the Job's selector, have no controller, and were seen so by
// an actor some time before a step.
func (f *jobFollower) adoptable(j *jobRecord, actor string, step int) (names []string) {
	text, _, _ := unstructured.NestedStringMap(j.object.Object, "spec", "selector", "matchLabels")
	if len(text) == 0 {
		return nil
	}
	selector := labels.SelectorFromSet(text)
	latest := f.run.Steps[step].At - adoptionDelay
	for _, o := range f.orphans {
		seen := func(pod string) bool {
			return slices.ContainsFunc(f.podViews[actor][pod], func(v jobView) bool { return v.revision >= o.revision && f.run.Steps[v.step].At <= latest })
		}
		if selector.Matches(o.labels) && (seen(o.name) || seen("")) {
			names = append(names, o.name)
		}
	}
	slices.SortFunc(names, strings.Compare)
	return names
}
