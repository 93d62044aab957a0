// Package kubelet is a small kubelet for tests in virtual time: it takes the place of the kubelets of all nodes, for the
// examples and for the searches of test/jobs and test/clonesets.
//
// It is a client-go controller like any other. [Run] starts pods after half a second; pods with restartPolicy Never
// succeed five seconds later, and deleted pods stop and are removed. [New] takes an [Outcome] for each pod. [Serve]
// is the loop below both: a caller with a [Life] of its own uses it.
//
// Pods need no node. Writes are those of a real kubelet ([Pods]): patches of the status by UID, which may arrive late, and a
// last DELETE. Delays count from when this process observed a pod, or from a time in the pod itself, so that late
// events, lost answers and restarts change only when something happens. It runs no containers, and it is not the
// stage engine, which simulates kubelets in clusters.
package kubelet

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

const (
	startsAfter   = 500 * time.Millisecond
	succeedsAfter = 5 * time.Second
	// killed is the exit code of a container that was stopped.
	killed = 137
)

// Outcome is what a pod does.
type Outcome struct {
	// Start is how long it takes to run, from when the kubelet observes it.
	Start time.Duration
	// After is how long it runs, from its start time; 0: until it is deleted.
	After time.Duration
	// Exit is the exit code of its containers.
	Exit int32
	// Stop is how long its containers take to exit once it is being deleted. With ExitsOnStop they then exit with
	// Exit, otherwise they are killed.
	Stop        time.Duration
	ExitsOnStop bool
	// Late is how long after the exit the status reports it, unless another client changes or deletes the
	// pod before: then the kubelet synchronizes the pod and reports the exit at once.
	Late time.Duration
}

// Run is the kubelet of the examples, until ctx ends.
func Run(ctx context.Context, config *rest.Config) error {
	return New(func(pod *corev1.Pod) Outcome {
		o := Outcome{Start: startsAfter}
		if pod.Spec.RestartPolicy == corev1.RestartPolicyNever {
			o.After = succeedsAfter
		}
		return o
	})(ctx, config)
}

// New returns a kubelet whose pods do what outcome returns for them.
func New(outcome func(*corev1.Pod) Outcome) func(context.Context, *rest.Config) error {
	return func(ctx context.Context, config *rest.Config) error {
		return Serve(ctx, config, &kubelet{
			outcome: outcome, starting: map[types.UID]time.Time{}, stopping: map[types.UID]time.Time{}, reported: map[types.UID]corev1.PodStatus{},
		})
	}
}

// kubelet implements Life.
type kubelet struct {
	outcome func(*corev1.Pod) Outcome
	// starting and stopping are when a pod was first observed to start and to be deleted. reported is the last status
	// that was written: the cache may be behind it. Only Sync uses them.
	starting, stopping map[types.UID]time.Time
	reported           map[types.UID]corev1.PodStatus
	// changed are the UIDs of pods whose metadata another client has changed.
	changed sync.Map
}

// Changed implements Life.
func (k *kubelet) Changed(before, after *corev1.Pod) {
	if before.UID == after.UID && !sameMetadata(before, after) {
		k.changed.Store(after.UID, true)
	}
}

// sameMetadata reports whether no other client has changed the metadata of a pod.
func sameMetadata(a, b *corev1.Pod) bool {
	return slices.Equal(a.Finalizers, b.Finalizers) && maps.Equal(a.Labels, b.Labels) && maps.Equal(a.Annotations, b.Annotations) && len(a.OwnerReferences) == len(b.OwnerReferences)
}

// Sync implements Life.
func (k *kubelet) Sync(ctx context.Context, pods Pods, cached *corev1.Pod) (time.Duration, error) {
	pod := cached.DeepCopy()
	if status, ok := k.reported[pod.UID]; ok {
		pod.Status = status
	}
	o := k.outcome(pod)
	exited := o.exited(pod)
	switch {
	case pod.DeletionTimestamp != nil:
		return k.stop(ctx, pods, cached, pod, o)
	case Finished(pod):
		return 0, nil
	case pod.Status.Phase != corev1.PodRunning:
		if o.Start > 0 {
			if wake := time.Until(since(k.starting, pod.UID).Add(o.Start)); wake > 0 {
				return wake, nil
			}
		}
		now := metav1.Now()
		pod.Status.StartTime = &now
		run(pod)
	case exited.IsZero():
		return 0, nil
	default:
		if _, changed := k.changed.Load(pod.UID); changed {
			o.Late = 0
		}
		if wake := time.Until(exited.Add(o.Late)); wake > 0 {
			return wake, nil
		}
		finish(pod, o.Exit, exited)
	}
	return 0, k.write(ctx, pods, cached, pod)
}

// since returns when it was first called for a pod.
func since(times map[types.UID]time.Time, uid types.UID) time.Time {
	if _, ok := times[uid]; !ok {
		times[uid] = time.Now()
	}
	return times[uid]
}

// exited returns when the container of a pod that has started exits by itself; zero for never.
func (o Outcome) exited(pod *corev1.Pod) time.Time {
	if o.After == 0 || pod.Status.StartTime == nil {
		return time.Time{}
	}
	return pod.Status.StartTime.Add(o.After)
}

// stop reports the exit of a pod that is being deleted, and then removes it.
func (k *kubelet) stop(ctx context.Context, pods Pods, cached, pod *corev1.Pod, o Outcome) (time.Duration, error) {
	at, code := since(k.stopping, pod.UID).Add(o.Stop), int32(killed)
	if o.ExitsOnStop {
		code = o.Exit
	}
	if exited := o.exited(pod); !exited.IsZero() && exited.Before(at) {
		at, code = exited, o.Exit
	}
	if !Finished(pod) {
		if wake := time.Until(at); wake > 0 {
			return wake, nil
		}
		finish(pod, code, at)
		return 0, k.write(ctx, pods, cached, pod)
	}
	if s := pod.DeletionGracePeriodSeconds; s != nil && *s == 0 {
		return 0, nil // a finalizer keeps it
	}
	return 0, pods.Remove(ctx, pod)
}

// write sends the fields of the status that a kubelet owns. Conditions of other clients stay as they are.
func (k *kubelet) write(ctx context.Context, pods Pods, cached, pod *corev1.Pod) error {
	status := cached.Status.DeepCopy()
	status.Phase, status.StartTime, status.ContainerStatuses = pod.Status.Phase, pod.Status.StartTime, pod.Status.ContainerStatuses
	for _, c := range pod.Status.Conditions {
		i := slices.IndexFunc(status.Conditions, func(is corev1.PodCondition) bool { return is.Type == c.Type })
		switch {
		case c.Type != corev1.PodReady:
		case i < 0:
			status.Conditions = append(status.Conditions, c)
		default:
			status.Conditions[i] = c
		}
	}
	if err := pods.WriteStatus(ctx, cached, status); err != nil {
		return err
	}
	k.reported[pod.UID] = pod.Status
	return nil
}

func run(pod *corev1.Pod) {
	pod.Status.Phase = corev1.PodRunning
	state := corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}}
	report(pod, state, corev1.ConditionTrue)
}

func finish(pod *corev1.Pod, code int32, at time.Time) {
	pod.Status.Phase = corev1.PodSucceeded
	if code != 0 {
		pod.Status.Phase = corev1.PodFailed
	}
	state := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, FinishedAt: metav1.NewTime(at)}}
	report(pod, state, corev1.ConditionFalse)
}

// report sets the state of all containers, and whether the pod is ready.
func report(pod *corev1.Pod, state corev1.ContainerState, ready corev1.ConditionStatus) {
	pod.Status.ContainerStatuses = nil
	for _, c := range pod.Spec.Containers {
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: c.Name, Image: c.Image, State: state, Ready: ready == corev1.ConditionTrue,
		})
	}
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: ready, LastTransitionTime: metav1.Now()}}
}
