package kwok

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/kwok/pkg/utils/lifecycle"

	"github.com/rehearse-k8s/rehearse/stage"
)

const stageHead = "apiVersion: kwok.x-k8s.io/v1alpha1\nkind: Stage\nmetadata: {name: %s}\nspec:\n  resourceRef: {apiGroup: v1, kind: Pod}\n"

func ofText(t *testing.T, texts map[string]string) (both, []*stage.Error) {
	t.Helper()
	dir := t.TempDir()
	var files []stage.File
	for name, text := range texts {
		data := []byte(fmt.Sprintf(stageHead, name) + text)
		files = append(files, stage.File{Name: name, Data: data})
		if err := os.WriteFile(filepath.Join(dir, name+".yaml"), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	b, err := load(dir)
	if err == nil {
		return b, nil
	}
	var bad []*stage.Error
	b.ours, _, bad = stage.LoadGood(files...)
	return b, bad
}

// panics returns the value with which KWOK's choice of a stage panics within so many tries, nil if it does
// not.
func panics(lc lifecycle.Lifecycle, o stage.Object, tries int) (what any) {
	defer func() { what = recover() }()
	for range tries {
		_, _ = lc.Match(context.Background(), event(o))
	}
	return nil
}

func aPod(annotations map[string]string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p", UID: "1", ResourceVersion: "1", Annotations: annotations}}
}

// TestNegativeWeight checks that an annotation on a pod, which any user may set, terminates KWOK's process,
// and that package stage treats a negative weight as none.
func TestNegativeWeight(t *testing.T) {
	weighed := "  selector: {}\n  weight: 1\n  weightFrom: {expressionFrom: '.metadata.annotations[\"w\"]'}\n  next: {statusTemplate: 'message: x'}\n"
	b, bad := ofText(t, map[string]string{"a": weighed, "b": "  selector: {}\n  weight: 1\n  next: {statusTemplate: 'message: y'}\n"})
	if len(bad) > 0 {
		t.Fatal(bad)
	}
	p := aPod(map[string]string{"w": "-20000"})
	if panics(b.kwok[stage.KindPod], p, 1) == nil {
		t.Error("kwok did not panic: remove this difference")
	}
	for seed := range uint64(100) {
		if d := b.ours.Decide(now, seed, p, stage.Past{}, stage.Scene{}); d.Stage != "b" {
			t.Fatalf("seed %d: %s", seed, d.String())
		}
	}
}

// TestMalformedStage checks that one stage that cannot be compiled terminates KWOK's process at its second
// object, and that package stage rejects that stage and plays the other.
func TestMalformedStage(t *testing.T) {
	b, bad := ofText(t, map[string]string{
		"bad":  "  selector: {matchExpressions: [{key: '.metadata.name', operator: Exists}, {key: '.a |', operator: Exists}]}\n  next: {delete: true}\n",
		"good": "  selector: {}\n  next: {statusTemplate: 'message: x'}\n",
	})
	if len(bad) != 1 || bad[0].Stage != "bad" || bad[0].Line == 0 {
		t.Errorf("rejected: %v", bad)
	}
	if panics(b.kwok[stage.KindPod], aPod(nil), 2) == nil {
		t.Error("kwok did not panic: remove this difference")
	}
	if d := b.ours.Decide(now, 1, aPod(nil), stage.Past{}, stage.Scene{}); d.Stage != "good" {
		t.Error(d.String())
	}
}

// TestFailingCEL checks that a CEL expression that fails on an object stops all of KWOK's stages for that
// object, and that package stage treats the stage as one that does not match, as with a failing jq expression.
func TestFailingCEL(t *testing.T) {
	b, bad := ofText(t, map[string]string{
		"cel":   "  selector: {matchExpressions: [{cel: {expression: 'self.metadata.labels[\"a\"] == \"b\"'}}]}\n  next: {delete: true}\n",
		"other": "  selector: {}\n  next: {statusTemplate: 'message: x'}\n",
	})
	if len(bad) > 0 {
		t.Fatal(bad)
	}
	if s, err := b.kwok[stage.KindPod].Match(context.Background(), event(aPod(nil))); err == nil {
		t.Errorf("kwok chose %v: remove this difference", s)
	}
	if d := b.ours.Decide(now, 1, aPod(nil), stage.Past{}, stage.Scene{}); d.Stage != "other" {
		t.Error(d.String())
	}
}
