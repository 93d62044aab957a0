package cloneset

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/rehearse-k8s/rehearse/api/kruise"
	"github.com/rehearse-k8s/rehearse/api/kruise/v1alpha1"
)

// TestRevisionIsSemantic checks that semantically equal templates have the same revision: the API's defaults,
// null and empty values make no difference. So a set that another controller, or one built with older
// libraries, has managed does not update all its pods.
func TestRevisionIsSemantic(t *testing.T) {
	w := newRunningWorld(t, 1)
	name := w.set.Status.UpdateRevision
	w.edit(fillSpec, func(s *v1alpha1.CloneSetSpec) { s.Template.Annotations = map[string]string{} })
	w.settle()
	w.expect("")
	if len(w.revisions) != 1 || w.set.Status.UpdateRevision != name {
		t.Errorf("revisions %v", sorted(w.revisions))
	}
	w.edit(image("web:2"))
	w.expect("create revision")
}

func fillSpec(s *v1alpha1.CloneSetSpec) { fill(&s.Template) }

// TestKruisesRevisions checks that revisions that Kruise has written can be read, with the $patch directive
// and creationTimestamp null, and that pods refer to them by the whole name or by the short hash.
func TestKruisesRevisions(t *testing.T) {
	for _, label := range []string{"web-5c7d9f8b6d", "5c7d9f8b6d"} {
		w := newRunningWorld(t, 1)
		for name := range w.revisions {
			delete(w.revisions, name)
		}
		w.put(&appsv1.ControllerRevision{
			ObjectMeta: metav1.ObjectMeta{Name: "web-5c7d9f8b6d", UID: "kruise", OwnerReferences: ownedBy(w.set)}, Revision: 3,
			Data: runtime.RawExtension{Raw: []byte(`{"spec":{"template":{"$patch":"replace","metadata":{"creationTimestamp":null,"labels":{"app":"web"}},` +
				`"spec":{"containers":[{"image":"web:1","imagePullPolicy":"IfNotPresent","name":"main","resources":{}}],"restartPolicy":"Always"}}}}`)},
		})
		w.change(0, func(p *corev1.Pod) { p.Labels[kruise.LabelRevision] = label })
		w.expect("") // except for the status
		w.settle()
		if w.set.Status.UpdateRevision != "web-5c7d9f8b6d" || w.updatedOf("web-5c7d9f8b6d") != 1 {
			t.Errorf("status %+v", w.set.Status)
		}
	}
}

// updatedOf returns the number of updated pods in the status, if it names this revision.
func (w *world) updatedOf(revision string) int {
	if w.set.Status.UpdateRevision != revision {
		return -1
	}
	return int(w.set.Status.UpdatedReplicas)
}

// TestRevisionCanBeReadByKruise checks that a revision contains what Kruise applies.
func TestRevisionCanBeReadByKruise(t *testing.T) {
	w := newWorld(t, 1)
	w.set.Annotations = map[string]string{"kubernetes.io/change-cause": "first"}
	w.expect("create revision")
	for _, r := range w.revisions {
		var body struct {
			Spec struct{ Template map[string]any }
		}
		if err := json.Unmarshal(r.Data.Raw, &body); err != nil || body.Spec.Template["$patch"] != "replace" || body.Spec.Template["spec"] == nil {
			t.Errorf("data %s", r.Data.Raw)
		}
		if r.Labels["app"] != "web" || r.Labels[kruise.LabelRevision] == "" || r.Annotations["kubernetes.io/change-cause"] != "first" || r.Revision != 1 {
			t.Errorf("revision %+v", r)
		}
	}
}

// TestRollback checks that an earlier template uses its old revision, which becomes the newest.
func TestRollback(t *testing.T) {
	w := newRunningWorld(t, 2, inPlace)
	first := w.set.Status.UpdateRevision
	w.edit(image("web:2"))
	w.settle()
	w.edit(image("web:1"))
	w.expect("RolledBack revision, UpdatingPodInPlace 1 then SuccessfulUpdatePodInPlace 1")
	w.settle()
	if w.set.Status.UpdateRevision != first || w.revisions[first].Revision != 3 || len(w.revisions) != 2 || w.updatedPods() != 2 {
		t.Errorf("status %+v, revisions %v", w.set.Status, sorted(w.revisions))
	}
	w.expect("")
}

// TestHistory checks that the newest unused revisions are kept up to the limit, and those of pods and the
// current one always.
func TestHistory(t *testing.T) {
	for limit, want := range map[int32]int{0: 1, 2: 3, -1: 1} {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			w := newRunningWorld(t, 1, inPlace, func(s *v1alpha1.CloneSetSpec) { s.RevisionHistoryLimit = &limit })
			for i := range 5 {
				w.edit(image(fmt.Sprint("web:", i+2)))
				w.settle()
			}
			if len(w.revisions) != want {
				t.Errorf("revisions %v", sorted(w.revisions))
			}
			w.edit(paused(true), image("web:next"))
			w.settle()
			for name, r := range w.revisions {
				if r.Revision < int64(6-max(limit, 0)) {
					t.Errorf("%s is of revision %d", name, r.Revision)
				}
			}
			if w.revisions[w.pod(0).Labels[kruise.LabelRevision]] == nil {
				t.Error("the revision of a pod is gone")
			}
		})
	}
}

// TestCollision checks that a revision of another template keeps its name, and that the collision count of the
// status gives another name.
func TestCollision(t *testing.T) {
	w := newWorld(t, 1)
	first := w.plan().Actions[0].Object.GetName()
	w.set.Status.CollisionCount = ptrTo(int32(1))
	if second := w.plan().Actions[0].Object.GetName(); first == second || !strings.HasPrefix(second, "web-") {
		t.Errorf("%s, then %s", first, second)
	}
}

// TestCurrentRevision checks that the current revision stays that of the pods below the partition, even if all
// existing pods happen to be updated for a moment (kruise #1545).
func TestCurrentRevision(t *testing.T) {
	w := newRunningWorld(t, 3)
	first := w.set.Status.CurrentRevision
	w.edit(image("web:2"), partition(number(2)))
	w.settle()
	w.edit(replicas(1), partition(number(0)))
	w.edit(partition(number(2)))
	w.settle()
	w.edit(replicas(3))
	w.settle()
	if w.set.Status.CurrentRevision != first || w.updatedPods() != 1 {
		t.Errorf("current %s, was %s; %d are updated", w.set.Status.CurrentRevision, first, w.updatedPods())
	}
	w.edit(partition(number(0)))
	w.settle()
	if s := w.set.Status; s.CurrentRevision != s.UpdateRevision || w.updatedPods() != 3 {
		t.Errorf("status %+v", s)
	}
}

// TestLostRevision checks that a pod whose revision does not exist any more is recreated, because its template
// is unknown.
func TestLostRevision(t *testing.T) {
	w := newRunningWorld(t, 1, inPlace)
	w.change(0, func(p *corev1.Pod) { p.Labels[kruise.LabelRevision] = "web-gone" })
	w.expect("delete 0")
	w.settle()
	if w.updatedPods() != 1 {
		t.Errorf("pods %s", w.states())
	}
}
