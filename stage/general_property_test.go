package stage

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rehearse-k8s/rehearse/internal/stage/kubelet"
	"github.com/rehearse-k8s/rehearse/internal/stage/stagetest"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	podutil "k8s.io/kubernetes/pkg/api/pod"
	"k8s.io/kubernetes/pkg/apis/core"
	corev1conversion "k8s.io/kubernetes/pkg/apis/core/v1"
	"k8s.io/kubernetes/pkg/apis/core/validation"
	"pgregory.net/rapid"
)

// mostAtOnce is the maximum number of writes of one pod without the passage of time.
const mostAtOnce = 8

// podWorld plays one pod through the general stages in virtual time, while other clients interfere,
// and checks every write.
type podWorld struct {
	t    *rapid.T
	set  *Set
	pod  *corev1.Pod
	past Past
	now  time.Time

	nodeReady bool
	gone      bool
	failed    string    // resourceVersion at which a stage could not be played
	freed     time.Time // since when a deleted pod has no finalizers
	atOnce    int
	log       []string
}

func (w *podWorld) fatalf(format string, args ...any) {
	w.t.Helper()
	w.t.Fatalf("%s\n%s", fmt.Sprintf(format, args...), strings.Join(w.log, "\n"))
}

func (w *podWorld) logf(format string, args ...any) {
	w.log = append(w.log, w.now.Format("15:04:05.000 ")+fmt.Sprintf(format, args...))
}

// edit changes the pod as another client would.
func (w *podWorld) edit(what string, change func(p *corev1.Pod)) {
	if w.gone {
		return
	}
	p := w.pod.DeepCopy()
	change(p)
	w.renew(p)
	w.logf("others: %s", what)
	if p.DeletionTimestamp != nil && len(p.Finalizers) == 0 && w.freed.IsZero() {
		w.freed = w.now
	}
}

func (w *podWorld) renew(p *corev1.Pod) {
	n, _ := strconv.Atoi(w.pod.ResourceVersion)
	p.ResourceVersion = strconv.Itoa(n + 1)
	w.pod = p
}

// run plays the stages that become due within the given time.
func (w *podWorld) run(d time.Duration) {
	until := w.now.Add(d)
	for !w.gone {
		decision := w.set.Decide(w.now, 7, w.pod, w.past, Scene{NodeReady: w.nodeReady})
		w.past.Decided(&decision)
		if !decision.Chosen() || decision.Due.After(until) || w.failed == w.pod.ResourceVersion {
			break
		}
		if decision.Due.After(w.now) {
			w.now, w.atOnce = decision.Due, 0
		}
		w.play(decision)
	}
	w.now = until
	if d > 0 {
		w.atOnce = 0
	}
	if deleting := w.pod.DeletionTimestamp; !w.gone && deleting != nil && len(w.pod.Finalizers) == 0 &&
		until.After(deleting.Time) && until.After(w.freed.Add(MinRepeat)) {
		w.fatalf("the pod is still there %s after its deadline", until.Sub(deleting.Time))
	}
}

func (w *podWorld) play(d Decision) {
	e, err := w.set.Play(w.now, w.pod, d, stagetest.Facts{})
	w.past = w.past.After(&d, w.now, e.Writes())
	if err != nil {
		if !strings.Contains(err.Error(), "is not an exit code") && !badTime(w.pod, err) {
			w.fatalf("%s: %v", d.Stage, err)
		}
		w.logf("%s: %v", d.Stage, err)
		w.failed = w.pod.ResourceVersion
		return
	}
	w.logf("%s", d.Stage)
	switch {
	case e.Delete:
		w.gone = true
		if len(w.pod.Finalizers) > 0 || w.pod.DeletionTimestamp == nil {
			w.fatalf("removed without a DELETE request, or in spite of a finalizer")
		}
		if deadline := maxTime(w.pod.DeletionTimestamp.Time, w.freed.Add(MinRepeat)); w.now.After(deadline) {
			w.fatalf("deleted %s after its deadline", w.now.Sub(deadline))
		}
	case e.Write == WriteNothing:
	default:
		after := e.Object.(*corev1.Pod).DeepCopy()
		w.check(w.pod, after)
		w.renew(after)
		if w.atOnce++; w.atOnce > mostAtOnce {
			w.fatalf("%d writes and no time went on", w.atOnce)
		}
	}
}

func maxTime(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

var phases = map[corev1.PodPhase]int{corev1.PodPending: 0, corev1.PodRunning: 1, corev1.PodSucceeded: 2, corev1.PodFailed: 2}

// check checks the invariants of one write.
func (w *podWorld) check(before, after *corev1.Pod) {
	from, to := before.Status.Phase, after.Status.Phase
	if phases[to] < phases[from] || phases[from] == 2 && from != to {
		w.fatalf("phase %s after %s", to, from)
	}
	if before.Status.PodIP != "" && before.Status.PodIP != after.Status.PodIP {
		w.fatalf("podIP %s after %s", after.Status.PodIP, before.Status.PodIP)
	}
	lists := [][2][]corev1.ContainerStatus{
		{before.Status.ContainerStatuses, after.Status.ContainerStatuses},
		{before.Status.InitContainerStatuses, after.Status.InitContainerStatuses},
	}
	for _, l := range lists {
		for i := range l[0] {
			was, is := &l[0][i], containerStatus(l[1], l[0][i].Name)
			switch {
			case is == nil:
				w.fatalf("the status of container %s is lost", was.Name)
			case is.RestartCount < was.RestartCount:
				w.fatalf("container %s: restartCount %d after %d", was.Name, is.RestartCount, was.RestartCount)
			case is.RestartCount > was.RestartCount+1:
				w.fatalf("container %s: %d restarts in one write", was.Name, is.RestartCount-was.RestartCount)
			case was.State.Waiting == nil && is.State.Waiting != nil && is.State.Waiting.Reason != "CrashLoopBackOff" && !w.mayRestart(was, after):
				w.fatalf("container %s waits again: %s", was.Name, is.State.Waiting.Reason)
			case is.RestartCount > was.RestartCount && is.ContainerID == was.ContainerID:
				w.fatalf("container %s has restarted with the same ID: %s", was.Name, is.ContainerID)
			}
			states := 0
			for _, there := range []bool{is.State.Waiting != nil, is.State.Running != nil, is.State.Terminated != nil} {
				if there {
					states++
				}
			}
			if states != 1 || is.Ready && is.State.Running == nil && !(is.State.Terminated != nil && is.State.Terminated.ExitCode == 0) {
				w.fatalf("container %s is in %d states, ready %v", was.Name, states, is.Ready)
			}
		}
	}
	if phases[to] == 2 {
		for i := range after.Status.ContainerStatuses {
			if s := &after.Status.ContainerStatuses[i]; s.State.Running != nil && !strings.HasPrefix(after.Status.Reason, "pod-") {
				w.fatalf("container %s runs in a pod that has ended", s.Name)
			}
		}
	}
	if kubelet.IsConditionTrue(after.Status.Conditions, corev1.PodReady) != (kubelet.IsConditionTrue(after.Status.Conditions, corev1.ContainersReady) && w.gatesOpen(after)) {
		w.fatalf("Ready does not follow from ContainersReady and gates")
	}
	w.valid(before, after)
}

// mayRestart reports whether a container may restart: its spec has changed, or an update in place
// requests it.
func (w *podWorld) mayRestart(was *corev1.ContainerStatus, p *corev1.Pod) bool {
	for _, list := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range list {
			if list[i].Name == was.Name && (list[i].Image != was.Image || kubelet.ResizeRestarts(&list[i], was)) {
				return true
			}
		}
	}
	update, _ := kubelet.RestartRequested(w.pod)
	return update.RestartsContainer(was)
}

func (w *podWorld) gatesOpen(p *corev1.Pod) bool {
	for _, gate := range p.Spec.ReadinessGates {
		if !kubelet.IsConditionTrue(p.Status.Conditions, gate.ConditionType) {
			return false
		}
	}
	return true
}

// valid runs the API server's own validation of status updates.
func (w *podWorld) valid(before, after *corev1.Pod) {
	internal := func(p *corev1.Pod) *core.Pod {
		out := &core.Pod{}
		if err := corev1conversion.Convert_v1_Pod_To_core_Pod(p.DeepCopy(), out, nil); err != nil {
			w.fatalf("%v", err)
		}
		return out
	}
	was, is := internal(before), internal(after)
	options := podutil.GetValidationOptionsFromPodSpecAndMeta(&is.Spec, &was.Spec, &is.ObjectMeta, &was.ObjectMeta)
	if errs := validation.ValidatePodStatusUpdate(is, was, options); len(errs) > 0 {
		w.fatalf("the API rejects the status: %v", errs)
	}
}

// checkEnd checks that a pod that nothing blocks has left Pending.
func (w *podWorld) checkEnd() {
	if w.gone || w.pod.DeletionTimestamp != nil || w.failed == w.pod.ResourceVersion || w.pod.Annotations[kubelet.AnnotationImagePullFails] != "" {
		return
	}
	for i := range w.pod.Status.InitContainerStatuses {
		if s := &w.pod.Status.InitContainerStatuses[i]; s.RestartCount > 0 && !s.Ready {
			return // it fails repeatedly
		}
	}
	if w.pod.Status.Phase == corev1.PodPending {
		w.fatalf("the pod is still Pending")
	}
	if w.pod.Status.Phase != corev1.PodRunning {
		return
	}
	for i := range w.pod.Spec.Containers {
		c, s := &w.pod.Spec.Containers[i], containerStatus(w.pod.Status.ContainerStatuses, w.pod.Spec.Containers[i].Name)
		switch {
		case s == nil:
		case s.State.Waiting != nil && s.State.Waiting.Reason != "CrashLoopBackOff":
			w.fatalf("container %s waits for ever: %+v", c.Name, s.State.Waiting)
		case s.State.Running != nil && (s.Image != c.Image || s.Resources != nil && !equality.Semantic.DeepEqual(*s.Resources, c.Resources)):
			w.fatalf("container %s runs with %s and %+v", c.Name, s.Image, s.Resources)
		}
	}
	if _, asked := kubelet.RestartRequested(w.pod); asked || w.pod.Status.ObservedGeneration != w.pod.Generation {
		w.fatalf("what has changed is not taken in")
	}
}

// TestGeneralLivesGoForward plays random pods, with random changes by other clients, through the
// general stages.
func TestGeneralLivesGoForward(t *testing.T) {
	set := mustBuiltin(t, "pod-general", "pod-chaos")
	rapid.Check(t, func(t *rapid.T) {
		w := &podWorld{t: t, set: set, pod: drawGeneralPod(t), now: stagetest.Start, nodeReady: true}
		for range rapid.IntRange(1, 25).Draw(t, "steps") {
			if rapid.Bool().Draw(t, "wait") {
				w.run(time.Duration(rapid.SampledFrom([]int{0, 1, 3, 10, 60, 700}).Draw(t, "seconds")) * time.Second)
			} else {
				w.interfere()
			}
		}
		w.run(2 * time.Hour)
		w.checkEnd()
	})
}
