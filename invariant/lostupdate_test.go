package invariant_test

import (
	"cmp"
	"encoding/json"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/viewtest"
	"github.com/rehearse-k8s/rehearse/invariant"
)

// TestNoLostUpdate: what another user has written into an object of the user must remain.
func TestNoLostUpdate(t *testing.T) {
	const patched = "c's patch of pods default/a without a resourceVersion removed the finalizer that other-user had written at step 4 (step 5)"
	step := func(s *viewtest.Script, actor, verb, cause string, versioned bool, changes ...history.Change) {
		s.Add(history.Step{Kind: history.Request, Actor: actor, Verb: verb, Code: 200, Before: s.Revision, Revision: s.Revision + 1,
			Fault: cause, Versioned: versioned, Object: named("1"), Changes: changes})
	}
	nothing := func(s *viewtest.Script, cause string) { // a patch that changes nothing
		s.Add(history.Step{Kind: history.Request, Actor: history.OtherUser, Verb: "patch", Code: 200, Before: s.Revision, Revision: s.Revision, Fault: cause, Object: named("1")})
	}
	without := func(patch string) history.Change {
		return history.Change{Object: named("1"), Patch: json.RawMessage(patch)}
	}
	for name, c := range map[string]struct {
		play func(s *viewtest.Script)
		is   metav1.ObjectMeta // at the end
		want string
	}{
		"an update without a revision": {func(s *viewtest.Script) {
			created(s, "user", "1")
			step(s, history.OtherUser, "patch", "conflict actor=c", false)
			step(s, "c", "update", "", false)
		}, metav1.ObjectMeta{}, "c's update of pods default/a without a resourceVersion removed the annotation that other-user had written at step 4 (step 5)"},
		"the record says which of two": {func(s *viewtest.Script) {
			created(s, "user", "1")
			step(s, history.OtherUser, "patch", "label actor=c", false)
			step(s, "c", "patch", "", false, without(`{"status":{}}`))
			step(s, "c", "update", "", false, without(`{"metadata":{"labels":null}}`))
		}, metav1.ObjectMeta{}, "c's update of pods default/a without a resourceVersion removed the label that other-user had written at step 4 (step 6)"},
		"it is still there": {func(s *viewtest.Script) {
			created(s, "user", "1")
			step(s, history.OtherUser, "patch", "conflict actor=c", false)
			step(s, "c", "update", "", false)
		}, metav1.ObjectMeta{Annotations: map[string]string{fault.InterferenceKey: "after 2"}}, ""},
		"removed with a revision": {func(s *viewtest.Script) {
			created(s, "user", "1")
			step(s, history.OtherUser, "patch", "conflict actor=c", false)
			step(s, "c", "update", "", true)
		}, metav1.ObjectMeta{}, ""},
		"an object of the controller": {func(s *viewtest.Script) {
			created(s, "c", "1")
			step(s, history.OtherUser, "patch", "conflict actor=c", false)
			step(s, "c", "update", "", false)
		}, metav1.ObjectMeta{}, ""},
		"another object of that name": {func(s *viewtest.Script) {
			created(s, "user", "1")
			step(s, history.OtherUser, "patch", "conflict actor=c", false)
			step(s, "c", "update", "", false)
			again(s, "2")
		}, metav1.ObjectMeta{UID: "2"}, ""},
		"a list of finalizers": {func(s *viewtest.Script) {
			created(s, "user", "1")
			step(s, history.OtherUser, "patch", "finalizer actor=c", false)
			step(s, "c", "patch", "", false)
			nothing(s, "finalizer actor=c")
		}, metav1.ObjectMeta{}, patched},
		"the user replaces the object": {func(s *viewtest.Script) {
			created(s, "user", "1")
			step(s, history.OtherUser, "patch", "conflict actor=c", false)
			step(s, "user", "update", "", false)
			step(s, "c", "patch", "", false)
		}, metav1.ObjectMeta{}, ""},
		"another fault's finalizer is removed": {func(s *viewtest.Script) {
			created(s, "user", "1")
			step(s, history.OtherUser, "patch", "finalizer actor=c nth=1", false)
			nothing(s, "finalizer actor=c nth=2")
			step(s, "c", "patch", "", false)
			step(s, history.OtherUser, "patch", "finalizer actor=c nth=2", false)
			nothing(s, "finalizer actor=c nth=1")
		}, metav1.ObjectMeta{}, ""},
		"a finalizer that is there already": {func(s *viewtest.Script) {
			created(s, "user", "1")
			nothing(s, "finalizer actor=c nth=2")
			step(s, "c", "patch", "", false)
			nothing(s, "finalizer actor=c nth=2")
		}, metav1.ObjectMeta{}, ""},
		"the other user removes its finalizer": {func(s *viewtest.Script) {
			created(s, "user", "1")
			step(s, history.OtherUser, "patch", "finalizer actor=c", false)
			step(s, "c", "patch", "", false)
			step(s, history.OtherUser, "patch", "finalizer actor=c", false)
		}, metav1.ObjectMeta{}, ""},
		"a finalizer that is still needed": {func(s *viewtest.Script) {
			created(s, "user", "1")
			step(s, history.OtherUser, "patch", "finalizer actor=c", false)
			step(s, "c", "patch", "", false)
		}, metav1.ObjectMeta{}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := viewtest.NewScript()
			c.play(s)
			pod := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Pod"}}
			pod.SetNamespace("default")
			pod.SetName("a")
			pod.SetUID(cmp.Or(c.is.UID, "1"))
			pod.SetAnnotations(c.is.Annotations)
			s.Objects = map[string][]*unstructured.Unstructured{"pods": {pod}}
			viewtest.Check(t, invariant.NoLostUpdate(), s, c.want)
		})
	}
}
