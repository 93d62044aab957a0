package job

import (
	"bytes"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/rehearse-k8s/rehearse/internal/workload"
)

// carryOut applies an action as the API server does, and returns the pod after it.
func (w *world) carryOut(a *workload.Action, pod *corev1.Pod) *corev1.Pod {
	if a.Verb == workload.Create {
		return w.create(pod)
	}
	now := w.pods[pod.Name]
	if now == nil || now.UID != pod.UID || a.Exact && now.ResourceVersion != pod.ResourceVersion {
		return nil
	}
	p := now.DeepCopy()
	if a.Verb == workload.Delete {
		if p.DeletionTimestamp == nil {
			p.DeletionTimestamp = ptr.To(metav1.NewTime(w.now))
			w.putPod(p)
			w.logf("delete %s", p.UID)
		}
		w.reap(p)
		return p
	}
	switch {
	case bytes.Contains(a.Body(), []byte(`"controller":true`)):
		p.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(w.job(), batchJob)}
		p.Finalizers = []string{trackingFinalizer}
		w.logf("adopt %s", p.UID)
	case bytes.Contains(a.Body(), []byte(`"$patch":"delete"`)):
		p.OwnerReferences, p.Finalizers = nil, nil
		w.disowned[p.UID] = true
		w.logf("disown %s", p.UID)
	case bytes.Contains(a.Body(), []byte("$deleteFromPrimitiveList/finalizers")):
		if !hasFinalizer(p) {
			return p
		}
		w.removeFinalizers(p, a.Then != nil)
		p.Finalizers = nil
		delete(p.Annotations, removalAnnotation)
		if bytes.Contains(a.Body(), fmt.Appendf(nil, `%q:"true"`, removalAnnotation)) && !w.naive.noMark {
			p.Annotations = with(p.Annotations, removalAnnotation, "true")
		}
		w.logf("release %s (%s)", p.UID, p.Status.Phase)
	case bytes.Contains(a.Body(), []byte(`"finalizers"`)):
		p.Finalizers = []string{trackingFinalizer}
		delete(p.Annotations, removalAnnotation)
		w.logf("track %s again", p.UID)
	default:
		w.t.Fatalf("unexpected patch %s", a.Body())
	}
	w.putPod(p)
	w.reap(p)
	return p
}

func (w *world) create(pod *corev1.Pod) *corev1.Pod {
	name := pod.Name
	if w.naive.randomNames {
		name = fmt.Sprintf("pod-%d", w.rng.Uint64())
	}
	switch old := w.pods[name]; {
	case old == nil:
	case w.ours(old):
		return old // the shell reads the pod and finds that it created it itself
	default:
		if w.past.Taken == nil {
			w.past.Taken = map[string]bool{}
		}
		w.past.Taken[name] = true
		return nil
	}
	p := pod.DeepCopy()
	p.Name, p.UID, p.CreationTimestamp = name, types.UID(fmt.Sprintf("pod-%d", w.revision+1)), metav1.NewTime(w.now)
	p.Status.Phase = corev1.PodPending
	if w.landing { // the decision was correct when the request was sent, and a sent request cannot be cancelled
		w.stray[p.UID], w.touchedAt[completionIndex(p)] = true, true
	} else {
		w.checkCreate(p)
	}
	w.putPod(p)
	w.logf("create %s %s index %d", p.Name, p.UID, completionIndex(p))
	return p
}

// reap removes a finished, terminating pod that has no finalizer.
func (w *world) reap(p *corev1.Pod) {
	if p.DeletionTimestamp != nil && isFinished(p) && len(p.Finalizers) == 0 {
		w.dropPod(p)
	}
}

// somePod returns a random pod that fits accepts, nil if no pod fits.
func (w *world) somePod(fits func(*corev1.Pod) bool) *corev1.Pod {
	var names []string
	for name, p := range w.pods {
		if fits(p) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	return w.pods[names[w.rng.IntN(len(names))]].DeepCopy()
}

// kubelet moves a random unfinished pod one step ahead. failing is the percentage of pods that fail.
func (w *world) kubelet(failing int) {
	p := w.somePod(func(p *corev1.Pod) bool { return !isFinished(p) })
	if p == nil {
		return
	}
	fails := w.rng.IntN(100) < failing
	switch {
	case p.DeletionTimestamp != nil:
		w.finishPod(p, w.rng.IntN(4) > 0)
	case p.Status.Phase == corev1.PodPending:
		p.Status.Phase = corev1.PodRunning
		p.Spec.NodeName = "node"
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(w.now)}}
	case fails && w.job().Spec.Template.Spec.RestartPolicy == corev1.RestartPolicyOnFailure:
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", RestartCount: mostRestarts(p) + 1}}
	default:
		w.finishPod(p, fails)
	}
	w.putPod(p)
	w.logf("kubelet %s %s", p.UID, p.Status.Phase)
	w.reap(p)
}

// finishPod terminates a pod's containers, with an exit code from 1 to 4 if it fails.
func (w *world) finishPod(p *corev1.Pod, failed bool) {
	code := int32(0)
	p.Status.Phase = corev1.PodSucceeded
	if failed {
		code = 1 + w.rng.Int32N(4)
		p.Status.Phase = corev1.PodFailed
	}
	p.Status.Conditions = slices.DeleteFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady })
	p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: metav1.NewTime(w.now)})
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		ExitCode: code, FinishedAt: metav1.NewTime(w.now),
	}}}}
}
