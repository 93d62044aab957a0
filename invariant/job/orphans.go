package job

import (
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/rehearse-k8s/rehearse/invariant/internal/inspect"
)

// orphan is a pod without a controller.
type orphan struct {
	name     string
	labels   labels.Set
	revision int64 // since which it has had no controller and these labels
}

// observeOrphan reads a pod that a Job may adopt: one without a controller that is not being deleted.
func (f *follower) observeOrphan(o *unstructured.Unstructured, controller *metav1.OwnerReference) {
	uid := o.GetUID()
	if controller != nil || o.GetDeletionTimestamp() != nil {
		delete(f.orphans, uid)
		return
	}
	set := labels.Set(o.GetLabels())
	if known := f.orphans[uid]; known == nil || !labels.Equals(known.labels, set) {
		f.orphans[uid] = &orphan{name: inspect.KeyOf(o), labels: set, revision: inspect.Revision(o)}
	}
}

// sawPods records what an actor's cache shows of a pod, or of all pods.
func (f *follower) sawPods(actor, pod string, view cacheView) {
	if f.podViews[actor] == nil {
		f.podViews[actor] = map[string][]cacheView{}
	}
	f.podViews[actor][pod] = append(f.podViews[actor][pod], view)
}

// adoptionDelay is for how long a controller must have observed a pod without a controller before
// creating another one instead is a violation. A process may read pods once for several controllers
// and pass them on after it has listed them again: until then they are in no controller's cache.
const adoptionDelay = 30 * time.Second

// adoptable returns the names of the pods that match the Job's selector, have no controller, and
// have been observed so by an actor for adoptionDelay before a step.
func (f *follower) adoptable(j *jobRecord, actor string, step int) (names []string) {
	text, _, _ := unstructured.NestedStringMap(j.object.Object, "spec", "selector", "matchLabels")
	if len(text) == 0 {
		return nil
	}
	selector := labels.SelectorFromSet(text)
	latest := f.run.Steps[step].At - adoptionDelay
	for _, o := range f.orphans {
		seen := func(pod string) bool {
			return slices.ContainsFunc(f.podViews[actor][pod], func(v cacheView) bool { return v.revision >= o.revision && f.run.Steps[v.step].At <= latest })
		}
		if selector.Matches(o.labels) && (seen(o.name) || seen("")) {
			names = append(names, o.name)
		}
	}
	slices.SortFunc(names, strings.Compare)
	return names
}
