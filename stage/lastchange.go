package stage

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// LastChange returns the newest time in an object: of its creation, of a change of a condition or a container, of
// its deletion request, or otherwise of the last write of a field. The current state started at this time or later.
// It is zero if the object contains no time.
func LastChange(o Object) time.Time {
	var last newest
	last.note(o.GetCreationTimestamp().Time)
	if at := o.GetDeletionTimestamp(); at != nil {
		var grace int64
		if g := o.GetDeletionGracePeriodSeconds(); g != nil {
			grace = *g
		}
		last.note(at.Add(-time.Duration(grace) * time.Second))
	}
	switch o := o.(type) {
	case *corev1.Pod:
		last.pod(&o.Status)
	case *corev1.Node:
		for i := range o.Status.Conditions {
			last.note(o.Status.Conditions[i].LastTransitionTime.Time)
			last.note(o.Status.Conditions[i].LastHeartbeatTime.Time)
		}
	case *unstructured.Unstructured:
		last.other(o)
	}
	return last.at
}

// newest is the newest of the recorded times.
type newest struct{ at time.Time }

func (n *newest) note(at time.Time) {
	if at.After(n.at) {
		n.at = at
	}
}

func (n *newest) pod(status *corev1.PodStatus) {
	for i := range status.Conditions {
		n.note(status.Conditions[i].LastTransitionTime.Time)
	}
	for _, list := range [][]corev1.ContainerStatus{status.InitContainerStatuses, status.ContainerStatuses} {
		for i := range list {
			if running := list[i].State.Running; running != nil {
				n.note(running.StartedAt.Time)
			}
			if terminated := list[i].State.Terminated; terminated != nil {
				n.note(terminated.FinishedAt.Time)
			}
		}
	}
}

// other reads an object of another kind: the conditions are at the usual path.
func (n *newest) other(o *unstructured.Unstructured) {
	found, _, _ := unstructured.NestedFieldNoCopy(o.Object, "status", "conditions")
	conditions, _ := found.([]any)
	for _, item := range conditions {
		c, _ := item.(map[string]any)
		for _, field := range []string{"lastTransitionTime", "lastHeartbeatTime"} {
			text, _ := c[field].(string)
			if at, err := time.Parse(time.RFC3339, text); err == nil {
				n.note(at)
			}
		}
	}
	if len(conditions) > 0 {
		return
	}
	for _, f := range o.GetManagedFields() {
		if f.Time != nil {
			n.note(f.Time.Time)
		}
	}
}
