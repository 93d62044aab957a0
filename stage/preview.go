package stage

import (
	"strconv"
	"time"

	"github.com/rehearse-k8s/rehearse/internal/stage/render"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// Outcome is the result of a stage without an API.
type Outcome struct {
	// Effects are those of Play, with every write as a separate request.
	Effects
	// After is the object that the API would then have; nil if it was deleted.
	After Object
}

// Preview plays the chosen stage of a decision and returns the object after it. It is Play for tools: it always
// renders the templates, and it does not check what the API server would reject.
func (s *Set) Preview(now time.Time, o Object, d Decision, facts Facts) (Outcome, error) {
	out := Outcome{Effects: Effects{Stage: d.Stage, UID: d.UID, ResourceVersion: d.ResourceVersion}, After: o}
	if d.chosen == nil {
		return out, nil
	}
	if facts == nil {
		facts = render.NoFacts{}
	}
	m := render.Moment{
		Now: now, Facts: facts, Object: o,
		Chance: render.Chance{Seed: d.seed, UID: d.UID, Stage: d.Stage, Played: d.played},
	}
	w := &working{object: o, kind: d.chosen.Kind, values: ValuesOf(o)}
	e, step, err := playOn(w, &d, m)
	if err != nil {
		return out, d.failed(step, err)
	}
	out.Effects = e
	var after Object
	if d.chosen.oneUpdate {
		// The engine sends one update, so the object is the result of this update.
		update, step, err := playUpdate(&d, o, m)
		if err != nil {
			return out, d.failed(step, err)
		}
		if after = copied(o); update.Object != nil {
			after = copied(update.Object)
		} else if !update.Delete {
			out.Requests = nil
		}
	} else if after, err = ObjectOf(w.values, d.chosen.Kind); err != nil {
		return out, d.failed(max(len(d.chosen.Operations)-1, 0), err)
	}
	if !out.Writes() {
		return out, nil
	}
	out.After = stored(after, o, out.Delete, now)
	return out, nil
}

// ObjectOf converts JSON values to an object.
func ObjectOf(values map[string]any, kind Kind) (Object, error) {
	var typed Object
	switch kind {
	case KindPod:
		typed = &corev1.Pod{}
	case KindNode:
		typed = &corev1.Node{}
	default:
		return &unstructured.Unstructured{Object: values}, nil
	}
	return typed, runtime.DefaultUnstructuredConverter.FromUnstructured(values, typed)
}

// stored applies what the API server does with a written object: it sets a new version, and returns nil for a
// terminating object without finalizers.
func stored(after, before Object, deleted bool, now time.Time) Object {
	n, _ := strconv.ParseUint(before.GetResourceVersion(), 10, 64)
	after.SetResourceVersion(strconv.FormatUint(n+1, 10))
	grace := after.GetDeletionGracePeriodSeconds()
	if deleted {
		var none int64
		after.SetDeletionGracePeriodSeconds(&none)
		if at := seconds(now); after.GetDeletionTimestamp() == nil || grace != nil && *grace > 0 {
			after.SetDeletionTimestamp(&at)
		}
		grace = &none
	}
	if after.GetDeletionTimestamp() != nil && (grace == nil || *grace == 0) && len(after.GetFinalizers()) == 0 {
		return nil
	}
	return after
}

// RequestDeletion returns the object after a DELETE request, or nil if the API server removes it at once. A bound
// pod that has not terminated gets its grace period.
func RequestDeletion(o Object, now time.Time) Object {
	if o.GetDeletionTimestamp() != nil {
		return o
	}
	after := copied(o)
	var grace int64
	if p, ok := after.(*corev1.Pod); ok && p.Spec.NodeName != "" && p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed {
		grace = corev1.DefaultTerminationGracePeriodSeconds
		if p.Spec.TerminationGracePeriodSeconds != nil {
			grace = max(*p.Spec.TerminationGracePeriodSeconds, 0)
		}
	}
	at := metav1.NewTime(seconds(now).Add(time.Duration(grace) * time.Second))
	after.SetDeletionTimestamp(&at)
	after.SetDeletionGracePeriodSeconds(&grace)
	return stored(after, o, false, now)
}

func copied(o Object) Object {
	switch o := o.(type) {
	case *corev1.Pod:
		return o.DeepCopy()
	case *corev1.Node:
		return o.DeepCopy()
	case *unstructured.Unstructured:
		return o.DeepCopy()
	}
	return o
}
