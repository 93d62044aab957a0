package stage

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// LastChange is the newest time an object itself tells of: when it was created,
// when a condition or a container changed, when its deletion was asked for, or
// else when a field was last written. The
// state it is in began then or later. Zero for an object that tells of none.
func LastChange(o Object) time.Time {
	last := o.GetCreationTimestamp().Time
	note := func(at time.Time) {
		if at.After(last) {
			last = at
		}
	}
	if at := o.GetDeletionTimestamp(); at != nil {
		var grace int64
		if g := o.GetDeletionGracePeriodSeconds(); g != nil {
			grace = *g
		}
		note(at.Add(-time.Duration(grace) * time.Second))
	}
	if p, ok := o.(*corev1.Pod); ok {
		for _, list := range [][]corev1.ContainerStatus{p.Status.InitContainerStatuses, p.Status.ContainerStatuses} {
			for i := range list {
				if running := list[i].State.Running; running != nil {
					note(running.StartedAt.Time)
				}
				if terminated := list[i].State.Terminated; terminated != nil {
					note(terminated.FinishedAt.Time)
				}
			}
		}
	}
	status, _ := jsonOf(o)["status"].(map[string]any)
	conditions, _ := status["conditions"].([]any)
	for _, item := range conditions {
		c, _ := item.(map[string]any)
		for _, field := range []string{"lastTransitionTime", "lastHeartbeatTime"} {
			text, _ := c[field].(string)
			if at, err := time.Parse(time.RFC3339, text); err == nil {
				note(at)
			}
		}
	}
	if _, ok := o.(*unstructured.Unstructured); ok && len(conditions) == 0 {
		for _, f := range o.GetManagedFields() {
			if f.Time != nil {
				note(f.Time.Time)
			}
		}
	}
	return last
}
