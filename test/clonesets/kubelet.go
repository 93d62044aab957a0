package clonesets

import (
	"context"
	"fmt"
	"hash/fnv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/rehearse-k8s/rehearse/examples/kubelet"
	"github.com/rehearse-k8s/rehearse/simtest"
)

// Behaviour is how a pod lives. The zero value does everything at once and well.
type Behaviour struct {
	// Unbound leaves a pod without a node, as a scheduler does that finds none for it. So
	// are pods that name a scheduler of their own.
	Unbound bool
	// Start is how long a pod takes from its binding to running containers, and Restart how
	// long a container is down that begins anew, in whole seconds.
	Start, Restart time.Duration
	// Unready are the names of containers that run and are never ready.
	Unready []string
	// SameImage gives all images one ID, as tags of one image have.
	SameImage bool
	// Stop is how long a deleted pod takes to end; it is killed when its grace is over.
	Stop time.Duration

	// Notice is how long a change of a pod takes from the API to its containers: until then
	// the kubelet works with the pod as it was. Kill is how long a container whose spec has
	// changed runs on while the status says already that the change was observed. Report is
	// how long a status takes to be written.
	Notice, Kill, Report time.Duration
	// Crash is how long the first container of a pod runs until it crashes, once; CrashOnChange
	// is how long after a change of the spec has reached the node, once for each change. 0: never.
	// A container that crashes is restarted as the kubelet knows it, maybe from the old spec.
	Crash, CrashOnChange time.Duration
	// Resize is how long a resize takes that needs no restart.
	Resize time.Duration
}

// nodes is over how many nodes pods are spread.
const nodes = 3

// life is what the kubelet of all nodes, and the scheduler, do from a start to a crash.
type life struct {
	behaviour func(*corev1.Pod) Behaviour
	runtime   *containerRuntime
	// workers are what it knows of pods. Only its own goroutine uses them; after a crash the times count again.
	workers map[types.UID]*worker
}

// worker is what a kubelet knows of one pod.
type worker struct {
	// starting and stopping are since when the pod is known to do so, changed and written
	// since when a change of it waits to be noticed, and a status to be written.
	starting, stopping, changed, written time.Time
	// pod is the pod as the containers know it.
	pod *corev1.Pod
}

// Kubelet binds pods and plays their lives. Without a function all pods behave well. It
// writes as real kubelets do: what has changed of a status, as a strategic merge patch with
// the pod's UID and without a resourceVersion, whatever others have written in between.
func Kubelet(behaviour func(*corev1.Pod) Behaviour) simtest.Constructor {
	if behaviour == nil {
		behaviour = func(*corev1.Pod) Behaviour { return Behaviour{} }
	}
	containers := newRuntime() // they run on when the kubelet crashes
	return func(ctx context.Context, config *rest.Config) error {
		return kubelet.Serve(ctx, config, &life{behaviour: behaviour, runtime: containers, workers: map[types.UID]*worker{}})
	}
}

// Changed implements kubelet.Life.
func (k *life) Changed(_, _ *corev1.Pod) {}

// Sync implements kubelet.Life.
func (k *life) Sync(ctx context.Context, pods kubelet.Pods, cached *corev1.Pod) (time.Duration, error) {
	b := k.behaviour(cached)
	w := k.workers[cached.UID]
	if w == nil {
		w = &worker{}
		k.workers[cached.UID] = w
	}
	finished := kubelet.Finished(cached)
	now := time.Now()
	switch {
	case cached.DeletionTimestamp != nil:
		return k.stop(ctx, pods, w, cached, finished, b)
	case finished:
		return 0, nil
	case cached.Spec.NodeName == "":
		return 0, bind(ctx, pods.Client, cached, b)
	case cached.Status.Phase != corev1.PodRunning:
		if wake := left(&w.starting, b.Start); wake > 0 {
			return wake, nil
		}
	}
	wake := w.notice(cached, b)
	status, next := k.runtime.run(w.pod, cached, b, now)
	wake = sooner(wake, next)
	if equality.Semantic.DeepEqual(status, &cached.Status) {
		w.written = time.Time{}
		return wake, nil
	}
	if wait := left(&w.written, b.Report); wait > 0 {
		return sooner(wake, wait), nil
	}
	return wake, write(ctx, pods, w, cached, status)
}

// notice takes over what has changed of a pod, once it is time, and says how long that is away.
func (w *worker) notice(cached *corev1.Pod, b Behaviour) time.Duration {
	if w.pod != nil && differs(w.pod, cached) {
		if wait := left(&w.changed, b.Notice); wait > 0 {
			return wait
		}
	}
	w.pod, w.changed = cached, time.Time{}
	return 0
}

// differs tells whether two versions of a pod differ in anything that a kubelet reads: its
// own status is not among it.
func differs(a, b *corev1.Pod) bool {
	if a.Generation != b.Generation || !equality.Semantic.DeepEqual(a.Labels, b.Labels) || !equality.Semantic.DeepEqual(a.Annotations, b.Annotations) {
		return true
	}
	for _, gate := range b.Spec.ReadinessGates {
		if !equality.Semantic.DeepEqual(conditionOf(a, gate.ConditionType), conditionOf(b, gate.ConditionType)) {
			return true
		}
	}
	return false
}

// left is how much of a duration is left that began when this was first asked.
func left(since *time.Time, of time.Duration) time.Duration {
	if since.IsZero() {
		*since = time.Now()
	}
	return time.Until(since.Add(of))
}

func bind(ctx context.Context, client kubernetes.Interface, pod *corev1.Pod, b Behaviour) error {
	if b.Unbound || len(pod.Spec.SchedulingGates) > 0 || pod.Spec.SchedulerName != corev1.DefaultSchedulerName {
		return nil
	}
	h := fnv.New32a()
	h.Write([]byte(pod.Name))
	return client.CoreV1().Pods(pod.Namespace).Bind(ctx, &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		Target:     corev1.ObjectReference{Kind: "Node", Name: fmt.Sprintf("node-%d", h.Sum32()%nodes)},
	}, metav1.CreateOptions{})
}

// stop reports the exit of a pod that is being deleted, and then removes it. If a finalizer keeps it, the API server removes
// it with the last one.
func (k *life) stop(ctx context.Context, pods kubelet.Pods, w *worker, cached *corev1.Pod, finished bool, b Behaviour) (time.Duration, error) {
	grace := time.Duration(0)
	if s := cached.DeletionGracePeriodSeconds; s != nil {
		grace = time.Duration(*s) * time.Second
	}
	if !finished {
		if wake := left(&w.stopping, min(b.Stop, grace)); wake > 0 {
			return wake, nil
		}
		pod := cached.DeepCopy()
		end(pod, time.Now())
		return 0, write(ctx, pods, w, cached, &pod.Status)
	}
	if grace == 0 {
		return 0, nil
	}
	return 0, pods.Remove(ctx, cached)
}

// write sends what differs from the status that the kubelet has observed.
func write(ctx context.Context, pods kubelet.Pods, w *worker, observed *corev1.Pod, status *corev1.PodStatus) error {
	err := pods.WriteStatus(ctx, observed, status)
	if err == nil {
		w.written = time.Time{}
	}
	return err
}
