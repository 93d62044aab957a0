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

// Behaviour is how the kubelet treats a pod. With the zero value, every step happens at once and succeeds.
type Behaviour struct {
	// Unbound leaves a pod without a node, as a scheduler does that finds none. Pods with another
	// schedulerName also stay without a node.
	Unbound bool
	// Start is how long a pod takes from its binding to running containers, and Restart how long a restarting
	// container is down, in whole seconds.
	Start, Restart time.Duration
	// Unready are the names of containers that run and are never ready.
	Unready []string
	// SameImage gives all images the same ID, like tags of one image.
	SameImage bool
	// Stop is how long a deleted pod takes to terminate; it is killed when its grace period is over.
	Stop time.Duration

	// Notice is how long a change of a pod takes from the API to its containers: until then the kubelet works
	// with the old pod. Kill is how long a container whose spec has changed continues to run after the status
	// shows that the change was observed. Report is how long a status takes to be written.
	Notice, Kill, Report time.Duration
	// Crash is how long the first container of a pod runs until it crashes, once; CrashOnChange is the same
	// after a change of the spec has reached the node, once for each change. 0: never. A container that
	// crashes is restarted from the spec that the kubelet knows, which may be the old one.
	Crash, CrashOnChange time.Duration
	// Resize is how long a resize without a restart takes.
	Resize time.Duration
}

// nodes is the number of nodes that pods are spread over.
const nodes = 3

// life is one instance of the kubelet of all nodes and of the scheduler, from a start to a crash.
type life struct {
	behaviour func(*corev1.Pod) Behaviour
	runtime   *containerRuntime
	// workers contain what it knows of pods. Only its own goroutine uses them; after a crash the times start
	// again.
	workers map[types.UID]*worker
}

// worker is what a kubelet knows of one pod.
type worker struct {
	// starting and stopping are since when the pod is known to start or stop, changed and written since when a
	// change waits to be noticed and a status to be written.
	starting, stopping, changed, written time.Time
	// pod is the version of the pod that the containers know.
	pod *corev1.Pod
}

// Kubelet returns a controller that binds pods and simulates them. Without a function all pods have the zero
// Behaviour. It writes as real kubelets do: the changed part of a status, as a strategic merge patch with the
// pod's UID and without a resourceVersion, whatever others have written in between.
func Kubelet(behaviour func(*corev1.Pod) Behaviour) simtest.Constructor {
	if behaviour == nil {
		behaviour = func(*corev1.Pod) Behaviour { return Behaviour{} }
	}
	containers := newRuntime() // the containers continue to run when the kubelet crashes
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

// notice makes the observed version of a pod the one to act on, once Notice has passed, and returns how long
// that takes.
func (w *worker) notice(cached *corev1.Pod, b Behaviour) time.Duration {
	if w.pod != nil && differs(w.pod, cached) {
		if wait := left(&w.changed, b.Notice); wait > 0 {
			return wait
		}
	}
	w.pod, w.changed = cached, time.Time{}
	return 0
}

// differs reports whether two versions of a pod differ in anything that a kubelet reads, which excludes its
// own status.
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

// left returns how much is left of a duration that starts with the first call.
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

// stop reports the exit of a terminating pod, and then removes the pod. If a finalizer keeps it, the API
// server removes it with the last one.
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

// write sends the difference from the status that the kubelet has observed.
func write(ctx context.Context, pods kubelet.Pods, w *worker, observed *corev1.Pod, status *corev1.PodStatus) error {
	err := pods.WriteStatus(ctx, observed, status)
	if err == nil {
		w.written = time.Time{}
	}
	return err
}
