package stage

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"text/template"
	"time"

	"github.com/rehearse-k8s/rehearse/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// Write says how Effects.Object is to be written.
type Write uint8

// The ways to write.
const (
	// WriteNothing: the object stays as it is.
	WriteNothing Write = iota
	// WriteStatus: update the status subresource with the object. It carries
	// changed finalizers too, so that a stage is one write or none: of pods and
	// nodes the API server takes metadata from such an update.
	WriteStatus
	// WriteObject: update the object itself; only finalizers changed.
	WriteObject
)

// Event is a Kubernetes event to record about the object.
type Event struct {
	Type, Reason, Message string
}

// Effects is what one stage does to one version of one object: at most one
// update, then at most one delete, then events. All of it is to be carried out
// only on the version it was decided on.
type Effects struct {
	Stage string
	// UID and ResourceVersion are the preconditions of every write.
	UID             types.UID
	ResourceVersion string
	// Object is the whole object to be written as Write says; it shares parts
	// with the one decided on and must not be changed. Nil with WriteNothing.
	Object Object
	Write  Write
	// Delete asks to delete the object with a grace period of 0.
	Delete bool
	Events []Event
}

// Empty reports whether nothing is to be sent.
func (e *Effects) Empty() bool {
	return e.Write == WriteNothing && !e.Delete && len(e.Events) == 0
}

// patch is a compiled patch of the status.
type patch struct {
	template *template.Template
	merge    bool // RFC 7386; otherwise strategic
	// native does in Go what a built-in stage's template says; nil for others.
	native nativePatch
}

// nativePatch changes the status of a working copy. It replaces slices and maps
// and never changes what they hold, because the copy shares them.
type nativePatch func(o Object, m moment) error

// Play says what the chosen stage of a decision does to the object the decision
// was made on. Patches that change nothing are left out. An error means the
// stage cannot be played on this object: a template that fails, a patch that
// does not fit, no free address.
func (s *Set) Play(now time.Time, o Object, d Decision, facts Facts) (Effects, error) {
	e := Effects{Stage: d.Stage, UID: d.UID, ResourceVersion: d.ResourceVersion}
	if d.chosen == nil {
		return e, nil
	}
	m := moment{now: now, facts: facts, object: o}
	work := shallow(o)
	for i := range d.chosen.operations {
		op := &d.chosen.operations[i]
		switch {
		case op.event != nil:
			e.Events = append(e.Events, Event{Type: op.event.Type, Reason: op.event.Reason, Message: op.event.Message})
		case e.Delete: // after a delete only events are left
		case op.delete:
			e.Delete = true
		case op.finalizers != nil:
			work.SetFinalizers(changedFinalizers(work.GetFinalizers(), op.finalizers))
		case op.patch != nil:
			if err := op.patch.apply(o, work, d.chosen.kind, m); err != nil {
				return Effects{}, fmt.Errorf("stage %s: %w", d.Stage, err)
			}
		}
	}
	switch {
	case !sameStatus(o, work):
		e.Object, e.Write = work, WriteStatus
	case !slices.Equal(o.GetFinalizers(), work.GetFinalizers()):
		e.Object, e.Write = work, WriteObject
	}
	return e, nil
}

// shallow copies the object so that its status and finalizers can be replaced.
func shallow(o Object) Object {
	switch o := o.(type) {
	case *corev1.Pod:
		c := *o
		return &c
	case *corev1.Node:
		c := *o
		return &c
	}
	return o
}

func sameStatus(a, b Object) bool {
	switch a := a.(type) {
	case *corev1.Pod:
		b := b.(*corev1.Pod)
		return a.Status.Phase == b.Status.Phase && equality.Semantic.DeepEqual(&a.Status, &b.Status)
	case *corev1.Node:
		b := b.(*corev1.Node)
		return a.Status.Phase == b.Status.Phase && equality.Semantic.DeepEqual(&a.Status, &b.Status)
	}
	return true
}

// apply renders the patch from the object as it was decided on and applies it
// to the working copy, so that several patches add up.
func (p *patch) apply(o, work Object, kind Kind, m moment) error {
	if p.native != nil {
		return p.native(work, m)
	}
	values, err := m.render(p.template, kind, o)
	if err != nil {
		return err
	}
	switch work := work.(type) {
	case *corev1.Pod:
		return patchStatus(&work.Status, &corev1.Pod{}, values, p.merge)
	case *corev1.Node:
		return patchStatus(&work.Status, &corev1.Node{}, values, p.merge)
	}
	return nil
}

// patchStatus merges values into a status, by RFC 7386 or by the strategic
// merge rules of schema, the type the status stands in.
func patchStatus[S any](status *S, schema any, values map[string]any, merge bool) error {
	data, err := json.Marshal(status)
	if err != nil {
		return err
	}
	var before map[string]any
	if err := json.Unmarshal(data, &before); err != nil {
		return err
	}
	var after map[string]any
	if merge {
		after = mergePatch(before, values)
	} else {
		merged, err := strategicpatch.StrategicMergeMapPatch(
			map[string]any{"status": before}, map[string]any{"status": values}, schema)
		if err != nil {
			return fmt.Errorf("strategic merge of the status: %w", err)
		}
		after, _ = merged["status"].(map[string]any)
	}
	if data, err = json.Marshal(after); err != nil {
		return err
	}
	var out S
	if err := json.NewDecoder(bytes.NewReader(data)).Decode(&out); err != nil {
		return fmt.Errorf("the patched status does not fit its type: %w", err)
	}
	*status = out
	return nil
}

// mergePatch is RFC 7386 on JSON values.
func mergePatch(target, patch map[string]any) map[string]any {
	out := make(map[string]any, len(target)+len(patch))
	for k, v := range target {
		out[k] = v
	}
	for k, v := range patch {
		switch v := v.(type) {
		case nil:
			delete(out, k)
		case map[string]any:
			inner, _ := out[k].(map[string]any)
			out[k] = mergePatch(inner, v)
		default:
			out[k] = v
		}
	}
	return out
}

// changedFinalizers empties, then removes, then adds what is not there yet.
func changedFinalizers(now []string, change *v1alpha1.StageFinalizers) []string {
	out := slices.Clone(now)
	if change.Empty {
		out = nil
	}
	for _, item := range change.Remove {
		out = slices.DeleteFunc(out, func(f string) bool { return f == item.Value })
	}
	for _, item := range change.Add {
		if !slices.Contains(out, item.Value) {
			out = append(out, item.Value)
		}
	}
	return out
}

// seconds is a time as the API keeps it.
func seconds(t time.Time) metav1.Time { return metav1.NewTime(t.UTC().Truncate(time.Second)) }
