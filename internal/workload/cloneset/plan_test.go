package cloneset

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/randfill"

	"github.com/rehearse-k8s/rehearse/api/kruise"
	"github.com/rehearse-k8s/rehearse/api/kruise/v1alpha1"
)

// TestFirstPlans checks the first plans of a set: one creates the revision, the next one the pods, and then
// there is nothing to do.
func TestFirstPlans(t *testing.T) {
	w := newWorld(t, 2)
	w.expect("create revision")
	w.expect("create 0, create 1")
	w.settle()
	w.expect("")
	p := w.pod(0)
	revision := w.set.Status.UpdateRevision
	for key, want := range map[string]string{
		"app": "web", kruise.LabelInstanceID: instanceID("set", 0), kruise.LabelRevision: revision,
		kruise.LabelTemplateHash: shortHash(revision), kruise.LabelState: string(kruise.StateNormal),
	} {
		if p.Labels[key] != want {
			t.Errorf("label %s=%s, want %s", key, p.Labels[key], want)
		}
	}
	if ref := metav1.GetControllerOf(p); ref == nil || ref.UID != "set" || ref.Kind != "CloneSet" {
		t.Errorf("owners %v", p.OwnerReferences)
	}
	if s := w.set.Status; s.Replicas != 2 || s.AvailableReplicas != 2 || s.UpdatedReadyReplicas != 2 || s.CurrentRevision != revision || s.LabelSelector != "app=web" {
		t.Errorf("status %+v", s)
	}
}

// TestDeletedSetIsLeftAlone checks that a plan for a terminating set does nothing, because the garbage
// collector deletes what the set owns.
func TestDeletedSetIsLeftAlone(t *testing.T) {
	w := newRunningWorld(t, 2)
	w.set.DeletionTimestamp = &metav1.Time{Time: w.now}
	w.edit(replicas(5), image("web:2"))
	w.expect("")
}

// TestOwnership checks that a matching pod without a controller is adopted, that a pod that does not match is
// released, and that such a plan contains nothing else.
func TestOwnership(t *testing.T) {
	w := newRunningWorld(t, 2)
	w.edit(replicas(3))
	w.change(0, func(p *corev1.Pod) { p.OwnerReferences = nil })
	w.expect("Adopted 0")
	w.change(0, func(p *corev1.Pod) { p.Labels["app"] = "other" })
	w.expect("Disowned 0")
	if owners := w.pod(0).OwnerReferences; len(owners) > 0 {
		t.Errorf("owners %v", owners)
	}
	w.change(0, func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: w.now}; p.Labels["app"] = "web" })
	w.runKubelet()
	if d := w.plan(); strings.Contains(w.acts(d), "Adopted") {
		t.Errorf("a terminating pod is adopted: %s", w.acts(d))
	}
}

// TestRejectedOwnership checks that a pod whose adoption or release the API server has rejected is tried
// again, and that the other steps run without it.
func TestRejectedOwnership(t *testing.T) {
	w := newRunningWorld(t, 2)
	w.past.Rejected = map[types.UID]bool{w.pod(0).UID: true}
	w.change(0, func(p *corev1.Pod) { p.OwnerReferences = nil })
	if d := w.plan(); w.acts(d) != "Adopted 0, create 2" || d.Status == nil || d.Status.Replicas != 1 {
		t.Errorf("%s, status %+v", w.acts(d), d.Status)
	}
	w = newRunningWorld(t, 2)
	w.past.Rejected = map[types.UID]bool{w.pod(0).UID: true}
	w.change(0, func(p *corev1.Pod) { p.Labels["app"] = "other" })
	if d := w.plan(); w.acts(d) != "Disowned 0, create 2" || d.Status == nil || d.Status.Replicas != 1 {
		t.Errorf("%s, status %+v", w.acts(d), d.Status)
	}
}

// TestBadSelector checks that a set whose selector cannot be parsed or is empty is left alone.
func TestBadSelector(t *testing.T) {
	for _, selector := range []*metav1.LabelSelector{nil, {}, {MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}}} {
		w := newWorld(t, 2, func(s *v1alpha1.CloneSetSpec) { s.Selector = selector })
		if d := w.expect(""); len(d.Reasons) != 1 || d.Reasons[0].Code != "BadSelector" {
			t.Errorf("%v: %v", selector, d.Reasons)
		}
	}
}

// TestRecheck checks that a plan that creates or deletes pods without writing a status rechecks the set.
func TestRecheck(t *testing.T) {
	w := newRunningWorld(t, 2)
	w.remove(0)
	w.runKubelet()
	if d := w.expect("create 0"); d.Status == nil || d.Recheck {
		t.Errorf("recheck %t with status %v", d.Recheck, d.Status)
	}
	w.settle()
	w.past.StatusAt, w.limits.StatusPause = w.now, time.Minute // so that no status is written
	w.remove(0)
	w.runKubelet()
	if d := w.expect("create 0"); d.Status != nil || !d.Recheck {
		t.Errorf("recheck %t with status %v", d.Recheck, d.Status)
	}
}

// TestLimits checks that one plan contains at most the configured number of each action, and that the next
// plan continues.
func TestLimits(t *testing.T) {
	w := newWorld(t, 5, maxUnavailable(percent("100%")))
	w.limits.Pods = 2
	w.expect("create revision")
	w.expect("create 0, create 1")
	w.expect("create 2, create 3")
	w.expect("create 4")
	w.settle()
	w.edit(image("web:2"))
	for d := w.plan(); !slices.ContainsFunc(sorted(w.pods), func(name string) bool { return w.pods[name].DeletionTimestamp != nil }); d = w.plan() {
		w.carryOut(d)
	}
	deleted := 0
	for _, p := range w.pods {
		if p.DeletionTimestamp != nil {
			deleted++
		}
	}
	if deleted != 2 {
		t.Errorf("%d pods are deleted at a time", deleted)
	}
	w.settle()
}

// TestPast checks that names whose create failed are tried after others, that names of other owners are
// skipped, and that a small batch creates few pods.
func TestPast(t *testing.T) {
	w := newWorld(t, 3)
	w.expect("create revision")
	w.past = Past{Taken: map[string]bool{w.name(0): true}, Failed: map[string]bool{w.name(1): true}}
	w.expect("create 2, create 3, create 4")
	w = newWorld(t, 2)
	w.expect("create revision")
	w.past = Past{Failed: map[string]bool{w.name(0): true, w.name(1): true}, CreateLimit: 1}
	if d := w.plan(); d.Tally.Created != 1 {
		t.Errorf("%s", w.acts(d))
	}
}

// TestBadNumbers checks that the status reports a number that cannot be read, and that it updates or deletes
// no pod.
func TestBadNumbers(t *testing.T) {
	for name, change := range map[string]func(*v1alpha1.CloneSetSpec){
		"partition":            partition(percent("half")),
		"maxUnavailable":       maxUnavailable(percent("5")),
		"maxUnavailable -1":    maxUnavailable(number(-1)),
		"maxSurge":             maxSurge(percent("-5%")),
		"scale maxUnavailable": func(s *v1alpha1.CloneSetSpec) { s.ScaleStrategy.MaxUnavailable = ptrTo(percent("x%")) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newRunningWorld(t, 2, change)
			c := condition(&w.set.Status, v1alpha1.FailedUpdate)
			if c == nil || c.Reason != "BadNumber" || !strings.Contains(c.Message, "neither a number of pods nor a percentage") {
				t.Fatalf("condition %+v", c)
			}
			w.edit(partition(number(0)), maxUnavailable(number(1)), maxSurge(number(0)), func(s *v1alpha1.CloneSetSpec) { s.ScaleStrategy.MaxUnavailable = nil })
			w.settle()
			if condition(&w.set.Status, v1alpha1.FailedUpdate) != nil || condition(&w.set.Status, v1alpha1.FailedScale) != nil || len(w.active()) != 2 {
				t.Errorf("conditions %+v, %d pods", w.set.Status.Conditions, len(w.active()))
			}
		})
	}
}

// malformedState fills a state with values that no controller should write, some of them consistent with each other
// so that plans do not stop at the first check.
func malformedState(data []byte) State {
	// The first bytes select, the others fill.
	choose := func(n int) int {
		if len(data) == 0 {
			return 0
		}
		b := int(data[0])
		data = data[1:]
		return b % n
	}
	numbers := []int32{0, 1, 2, 5, -1, math.MaxInt32, math.MinInt32}
	texts := []string{"0", "1", "50%", "100%", "-5%", "12.5%", "%", "", "9999999999999999999%"}
	value := func() *intstr.IntOrString {
		switch choose(4) {
		case 0:
			return nil
		case 1:
			return ptrTo(number(numbers[choose(len(numbers))]))
		}
		return ptrTo(percent(texts[choose(len(texts))]))
	}
	states := []string{"", "PreparingNormal", "Normal", "PreparingUpdate", "Updating", "Updated", "PreparingDelete", "Sleeping"}
	records := []string{"", "{", "null", "[]", `{"revision":"web-1"}`, `{"revision":"web-2","lastContainerStatuses":{"main":{}},"nextContainerImages":{"none":"x","main":"y"}}`,
		`{"revision":"web-2","graceSeconds":-5,"metaDataPatch":"bnVsbA==","containerImages":{"main":"z"}}`, `{"nextContainerRefMetadata":{"main":{}},"preCheckBeforeNext":{}}`}
	set := &v1alpha1.CloneSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "set", Generation: 3}}
	spec := &set.Spec
	spec.Replicas = ptrTo(numbers[choose(4)])
	spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	spec.Template.Spec.Containers = []corev1.Container{{Name: "main", Image: fmt.Sprint("web:", choose(3))}}
	u := &spec.UpdateStrategy
	u.Type = []v1alpha1.CloneSetUpdateStrategyType{"", v1alpha1.ReCreate, v1alpha1.InPlaceIfPossible, v1alpha1.InPlaceOnly, v1alpha1.OnDelete, "Never"}[choose(6)]
	u.Partition, u.MaxSurge, u.MaxUnavailable, spec.ScaleStrategy.MaxUnavailable = value(), value(), value(), value()
	u.Paused, spec.ScaleStrategy.DisablePVCReuse = choose(4) == 0, choose(2) == 0
	spec.MinReadySeconds, spec.RevisionHistoryLimit, spec.ProgressDeadlineSeconds = numbers[choose(7)], ptrTo(numbers[choose(7)]), ptrTo(numbers[choose(7)])
	u.InPlaceUpdateStrategy = &kruise.InPlaceUpdateStrategy{GracePeriodSeconds: numbers[choose(7)]}
	spec.ScaleStrategy.PodsToDelete = [][]string{nil, {""}, {"web-a", "web-a"}, {"none"}}[choose(4)]
	if choose(2) == 0 {
		hook := &kruise.LifecycleHook{LabelsHandler: map[string]string{"hold": "yes"}, FinalizersHandler: []string{"hold/it"}, MarkPodNotReady: choose(2) == 0}
		spec.Lifecycle = &kruise.Lifecycle{PreDelete: hook, InPlaceUpdate: hook, PreNormal: hook}
	}
	set.Status.CurrentRevision = []string{"", "web-1", "none"}[choose(3)]
	s := State{Set: set, Digest: Digest(&spec.Template), Limits: DefaultLimits, Past: Past{CreateLimit: choose(3)}}
	for i := range choose(4) {
		t := spec.Template.DeepCopy()
		t.Spec.Containers[0].Image = fmt.Sprint("web:", i)
		o := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("web-", i)}, Revision: int64(numbers[choose(7)])}
		s.Revisions = append(s.Revisions, &Revision{Object: o, Template: t, Defaulted: t, Digest: Digest(t)})
	}
	for _, name := range []string{"web-a", "web-b", "web-c"}[:choose(4)] {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID(name), ResourceVersion: "1"}}
		p.Labels = map[string]string{"app": "web", kruise.LabelState: states[choose(len(states))], kruise.LabelRevision: fmt.Sprint("web-", choose(4)), kruise.LabelInstanceID: name[choose(4):]}
		p.Annotations = map[string]string{
			kruise.AnnotationInPlaceState: records[choose(len(records))], kruise.AnnotationInPlaceGrace: records[choose(len(records))],
			kruise.AnnotationDeletionCost: texts[choose(len(texts))], kruise.AnnotationStateSince: texts[choose(len(texts))],
		}
		if choose(2) == 0 {
			p.Labels["hold"] = "yes"
		}
		if choose(3) == 0 {
			p.Labels[kruise.LabelSpecifiedDelete] = ""
		}
		randfill.NewFromGoFuzz(data).NilChance(0.3).NumElements(0, 2).MaxDepth(6).Fill(&p.Status)
		p.Status.Phase = []corev1.PodPhase{corev1.PodRunning, corev1.PodPending, corev1.PodFailed, "Odd"}[choose(4)]
		p.Spec.NodeName = []string{"", "node"}[choose(2)]
		p.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: kruise.ConditionInPlaceUpdateReady}, {ConditionType: kruise.ConditionPodReady}}[:choose(3)]
		p.Spec.Containers = []corev1.Container{{Name: "main"}}[:choose(2)]
		p.OwnerReferences = ownedBy(set)
		if choose(5) == 0 {
			p.DeletionTimestamp = &metav1.Time{}
		}
		s.Pods = append(s.Pods, View(p))
		if choose(2) == 0 {
			s.Claims = append(s.Claims, &Claim{Name: "data-" + name, Instance: name[choose(4):], Terminating: choose(3) == 0})
		}
	}
	return s
}

// FuzzPlan checks that no state makes a plan panic, and that the same state gives the same plan.
func FuzzPlan(f *testing.F) {
	for i := range 64 {
		seed := make([]byte, 200)
		for k := range seed {
			seed[k] = byte(i*37 + k*k*(i+3) + k/7)
		}
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		first, second := Plan(start, malformedState(data)), Plan(start, malformedState(data))
		if a, b := asJSON(first), asJSON(second); a != b {
			t.Errorf("two plans of the same state differ:\n%s\n%s", a, b)
		}
		if first.Wake < 0 {
			t.Errorf("wake %s", first.Wake)
		}
	})
}
