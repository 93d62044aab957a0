package stage

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rehearse-k8s/rehearse/api/kwok/v1alpha1"
	"github.com/rehearse-k8s/rehearse/internal/convert"
	"github.com/rehearse-k8s/rehearse/internal/stage/kubelet"
	"github.com/rehearse-k8s/rehearse/internal/stage/limit"
	"github.com/rehearse-k8s/rehearse/internal/stage/render"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// Facts returns values for templates that the object does not contain.
type Facts = render.Facts

// Play returns the effects of the chosen stage of a decision on the object of the decision. facts may be nil if no
// template requests them. Each operation sees the effects of the operations before it, and operations that change
// nothing are omitted. An error, always an *Error, means that the stage cannot be played on this object: a template
// fails, a patch does not fit, or no address is available.
func (s *Set) Play(now time.Time, o Object, d Decision, facts Facts) (Effects, error) {
	return new(Player).Play(s, now, o, d, facts)
}

// Player plays stages for one caller at a time. It caches templates with bound functions between plays, because
// binding takes longer than most renderings. The result is the same. The zero value is ready.
type Player struct {
	set   *Set // the set of the templates
	bound render.Cache
}

// Play is Set.Play.
func (p *Player) Play(s *Set, now time.Time, o Object, d Decision, facts Facts) (Effects, error) {
	if p.set != s {
		p.set, p.bound = s, render.Cache{}
	}
	if d.chosen == nil {
		return Effects{Stage: d.Stage, UID: d.UID, ResourceVersion: d.ResourceVersion}, nil
	}
	if facts == nil {
		facts = render.NoFacts{}
	}
	m := render.Moment{
		Now: now, Facts: facts, Object: o, Cache: p.bound,
		Chance: render.Chance{Seed: d.seed, UID: d.UID, Stage: d.Stage, Played: d.played},
	}
	play := playRequests
	if d.chosen.oneUpdate {
		play = playUpdate
	}
	e, step, err := play(&d, o, m)
	if err != nil {
		return Effects{}, d.failed(step, err)
	}
	return e, nil
}

// failed returns an error that names the operation that could not be played.
func (d *Decision) failed(step int, err error) *Error {
	op := &d.chosen.Operations[step]
	field := op.Field
	switch {
	case op.patch != nil:
		field = op.patch.field
	case op.apply != nil:
		field = op.apply.field
	}
	return &Error{File: d.chosen.file, Line: op.line, Stage: d.Stage, Field: field, Problem: err.Error(), Overran: errors.As(err, new(*limit.Exceeded))}
}

// playUpdate combines all operations into one update of a pod or a node.
func playUpdate(d *Decision, o Object, m render.Moment) (e Effects, step int, err error) {
	e = Effects{Stage: d.Stage, UID: d.UID, ResourceVersion: d.ResourceVersion}
	work := shallow(o)
	for i := d.step; i < len(d.chosen.Operations); i++ {
		op := &d.chosen.Operations[i]
		switch {
		case op.Event != nil:
			e.Events = append(e.Events, Event{Type: op.Event.Type, Reason: op.Event.Reason, Message: op.Event.Message, Step: i})
		case e.Delete: // after a delete only Events are possible
		case op.Delete:
			e.Delete, e.DeleteStep = true, i
		case op.Finalizers != nil:
			work.SetFinalizers(changedFinalizers(work.GetFinalizers(), op.Finalizers))
		case op.patch != nil:
			m.Step = i
			if err := op.patch.applyToStatus(work, d.chosen.Kind, m); err != nil {
				return Effects{}, i, err
			}
		}
	}
	switch {
	case !sameStatus(o, work):
		e.Object, e.Write = work, WriteStatus
	case !slices.Equal(o.GetFinalizers(), work.GetFinalizers()):
		e.Object, e.Write = work, WriteObject
	}
	return e, 0, nil
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

// applyToStatus renders the patch from the working copy and applies it to the working copy, so that several patches
// accumulate.
func (p *patch) applyToStatus(work Object, kind Kind, m render.Moment) error {
	if pod, ok := work.(*corev1.Pod); ok && p.step != nil {
		return p.step(pod, kubelet.Moment{Now: m.Now, Addresses: m.Facts})
	}
	rendered, err := p.template.Render(m, work)
	if err != nil {
		return err
	}
	values, err := asMapping(rendered)
	if err != nil || values == nil {
		return err
	}
	merge := p.kind == types.MergePatchType
	switch work := work.(type) {
	case *corev1.Pod:
		return patchStatus(&work.Status, &corev1.Pod{}, values, merge)
	case *corev1.Node:
		return patchStatus(&work.Status, &corev1.Node{}, values, merge)
	}
	return nil
}

// asMapping returns the mapping that a merge needs; nil if the template renders nothing.
func asMapping(rendered any) (map[string]any, error) {
	switch values := rendered.(type) {
	case nil:
		return nil, nil
	case map[string]any:
		return values, nil
	}
	return nil, errors.New("the template does not render a YAML mapping")
}

// patchStatus merges values into a status, by RFC 7386 or by the strategic merge rules of schema, the type that
// contains the status.
func patchStatus[S any](status *S, schema any, values map[string]any, merge bool) error {
	before, err := runtime.DefaultUnstructuredConverter.ToUnstructured(status)
	if err != nil {
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
	var out S
	if err := fromValues(after, &out); err != nil {
		return fmt.Errorf("the patched status does not fit its type: %w", err)
	}
	*status = out
	return nil
}

// fromValues sets the fields of a struct from JSON values. The converter is several times as fast as JSON, but
// truncates a number that its field cannot contain; so it is used only for numbers that fit every field.
func fromValues(values map[string]any, out any) error {
	if convert.KeepsNumbers(values) {
		return runtime.DefaultUnstructuredConverter.FromUnstructured(values, out)
	}
	data, err := json.Marshal(values)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, out)
}

// mergePatch applies RFC 7386 to JSON values.
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

// changedFinalizers empties the list, then removes, then adds missing finalizers.
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

// seconds truncates a time to whole seconds, as the API does.
func seconds(t time.Time) metav1.Time { return metav1.NewTime(t.UTC().Truncate(time.Second)) }
