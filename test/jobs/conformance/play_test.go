package conformance

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/rehearse-k8s/rehearse/simtest"
)

// syncTime is how long a controller may take for something that it can do at once. Upstream waits for a second
// before each sync, and needs several syncs for some changes.
const syncTime = 6 * time.Second

// play is a running scenario: it acts as the user and the kubelets.
type play struct {
	*simtest.World
	power  *power
	client kubernetes.Interface
	ours   bool
	// differed is set when the scenario expected something else of the other controller.
	differed *bool
}

// fatalf fails the scenario and reports its line.
func (p *play) fatalf(format string, args ...any) {
	where := ""
	for skip := 1; skip < 8; skip++ {
		_, file, line, ok := runtime.Caller(skip)
		if !ok {
			break
		}
		if base := filepath.Base(file); base != "play_test.go" && base != "shows_test.go" {
			where = fmt.Sprintf("%s:%d: ", base, line)
			break
		}
	}
	p.Fatalf("%s%s", where, fmt.Sprintf(format, args...))
}

// must fails the scenario if the API has rejected a valid request.
func (p *play) must(err error) {
	if err != nil {
		p.fatalf("%v", err)
	}
}

// either returns what is expected of the controller under test, where the two differ.
func either[T any](p *play, ours, upstream T) T {
	*p.differed = true
	if p.ours {
		return ours
	}
	return upstream
}

// pass advances the time until the controller has done what it can do now.
func (p *play) pass() { p.Advance(syncTime) }

// job returns a Job with one container that is never restarted in place.
func job(change ...func(*batchv1.JobSpec)) *batchv1.Job {
	j := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "work"},
		Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever,
			Containers:    []corev1.Container{{Name: "main", Image: "work"}},
		}}},
	}
	for _, c := range change {
		c(&j.Spec)
	}
	return j
}

func parallelism(n int32) func(*batchv1.JobSpec) {
	return func(s *batchv1.JobSpec) { s.Parallelism = ptr.To(n) }
}

// sized sets parallelism and completions.
func sized(parallelism, completions int32) func(*batchv1.JobSpec) {
	return func(s *batchv1.JobSpec) {
		s.Parallelism, s.Completions = ptr.To(parallelism), ptr.To(completions)
	}
}

func indexed(parallelism, completions int32) func(*batchv1.JobSpec) {
	return func(s *batchv1.JobSpec) {
		sized(parallelism, completions)(s)
		s.CompletionMode = ptr.To(batchv1.IndexedCompletion)
	}
}

func backoffLimit(n int32) func(*batchv1.JobSpec) {
	return func(s *batchv1.JobSpec) { s.BackoffLimit = ptr.To(n) }
}

func perIndex(n int32) func(*batchv1.JobSpec) {
	return func(s *batchv1.JobSpec) { s.BackoffLimitPerIndex = ptr.To(n) }
}

func replacing(policy batchv1.PodReplacementPolicy) func(*batchv1.JobSpec) {
	return func(s *batchv1.JobSpec) { s.PodReplacementPolicy = ptr.To(policy) }
}

func suspended(s *batchv1.JobSpec) { s.Suspend = ptr.To(true) }

// onNode assigns the pods to a node, so that they do not disappear at once when they are deleted: a kubelet
// has to report that they have terminated.
func onNode(s *batchv1.JobSpec) { s.Template.Spec.NodeName = "node" }

// blocker is a finalizer of another controller that keeps pods.
const blocker = "example.com/blocker"

func blocked(s *batchv1.JobSpec) { s.Template.Finalizers = []string{blocker} }

// begin creates a Job and lets the controller observe it.
func (p *play) begin(change ...func(*batchv1.JobSpec)) *batchv1.Job {
	j := job(change...)
	p.Create(j)
	p.pass()
	return j
}

// change edits a Job as a user does with `kubectl edit`.
func (p *play) change(j *batchv1.Job, how func(*batchv1.JobSpec)) {
	p.reread(j)
	how(&j.Spec)
	p.Update(j)
}

// reread updates j to what the API shows now.
func (p *play) reread(j *batchv1.Job) {
	if !p.Get(j) {
		p.fatalf("Job %s is gone", j.Name)
	}
}

// all returns the pods that a Job controls, the oldest first.
func (p *play) all(j *batchv1.Job) (pods []*corev1.Pod) {
	for _, u := range p.View().List("pods") {
		if ref := metav1.GetControllerOf(u); ref == nil || ref.UID != j.UID {
			continue
		}
		pod := &corev1.Pod{}
		p.must(kruntime.DefaultUnstructuredConverter.FromUnstructured(u.Object, pod))
		pods = append(pods, pod)
	}
	slices.SortStableFunc(pods, func(a, b *corev1.Pod) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(indexOf(a), indexOf(b)), cmp.Compare(a.Name, b.Name))
	})
	return pods
}

// indexOf returns a pod's completion index as text.
func indexOf(pod *corev1.Pod) string { return pod.Annotations[batchv1.JobCompletionIndexAnnotation] }

func isFinished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

func isActive(pod *corev1.Pod) bool { return !isFinished(pod) && pod.DeletionTimestamp == nil }

func isTerminating(pod *corev1.Pod) bool { return !isFinished(pod) && pod.DeletionTimestamp != nil }

// those returns the pods of a Job that keep accepts.
func (p *play) those(j *batchv1.Job, keep func(*corev1.Pod) bool) []*corev1.Pod {
	return slices.DeleteFunc(p.all(j), func(pod *corev1.Pod) bool { return !keep(pod) })
}

func (p *play) active(j *batchv1.Job) []*corev1.Pod { return p.those(j, isActive) }

// at returns the active pod of an index.
func (p *play) at(j *batchv1.Job, index string) *corev1.Pod {
	for _, pod := range p.active(j) {
		if indexOf(pod) == index {
			return pod
		}
	}
	p.fatalf("no pod of index %s is active", index)
	return nil
}

// fate is the final status of a pod, as its kubelet reports it.
type fate struct {
	phase     corev1.PodPhase
	exit      int32
	condition corev1.PodConditionType
}

var (
	succeeded = fate{phase: corev1.PodSucceeded}
	failed    = fate{phase: corev1.PodFailed, exit: 1}
	disrupted = fate{phase: corev1.PodFailed, exit: 137, condition: corev1.DisruptionTarget}
)

func exits(code int32) fate { return fate{phase: corev1.PodFailed, exit: code} }

// meets makes pods finish.
func (p *play) meets(f fate, pods ...*corev1.Pod) {
	for _, pod := range pods {
		p.report(pod, func(s *corev1.PodStatus) {
			now := metav1.NewTime(p.Now())
			s.Phase = f.phase
			s.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", Image: "work", State: corev1.ContainerState{
				Terminated: &corev1.ContainerStateTerminated{ExitCode: f.exit, FinishedAt: now},
			}}}
			s.Conditions = slices.DeleteFunc(s.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady })
			if f.condition != "" {
				s.Conditions = append(s.Conditions, corev1.PodCondition{Type: f.condition, Status: corev1.ConditionTrue, LastTransitionTime: now})
			}
		})
	}
}

// runs makes pods run and become ready.
func (p *play) runs(pods ...*corev1.Pod) {
	for _, pod := range pods {
		p.report(pod, func(s *corev1.PodStatus) {
			now := metav1.NewTime(p.Now())
			s.Phase = corev1.PodRunning
			s.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: now}}
			s.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", Image: "work", State: corev1.ContainerState{
				Running: &corev1.ContainerStateRunning{StartedAt: now},
			}}}
		})
	}
}

// report writes the status of a pod as its kubelet does.
func (p *play) report(pod *corev1.Pod, change func(*corev1.PodStatus)) {
	if !p.Get(pod) {
		p.fatalf("pod %s is gone", pod.Name)
	}
	change(&pod.Status)
	p.Update(pod, "status")
}

// leaves does a kubelet's last step for a deleted pod.
func (p *play) leaves(pods ...*corev1.Pod) {
	for _, pod := range pods {
		err := p.client.CoreV1().Pods(pod.Namespace).Delete(context.Background(), pod.Name, metav1.DeleteOptions{
			GracePeriodSeconds: ptr.To[int64](0), Preconditions: metav1.NewUIDPreconditions(string(pod.UID)),
		})
		if !apierrors.IsNotFound(err) {
			p.must(err)
		}
	}
}

// tidy does the last steps of kubelets and other controllers: terminating objects are removed.
func (p *play) tidy() {
	for _, pod := range p.pods() {
		if pod.DeletionTimestamp != nil {
			p.unblock(pod)
			p.leaves(pod)
		}
	}
}

// unblock removes the finalizer of the other controller.
func (p *play) unblock(pods ...*corev1.Pod) {
	for _, pod := range pods {
		if p.Get(pod) {
			pod.Finalizers = slices.DeleteFunc(pod.Finalizers, func(f string) bool { return f == blocker })
			p.Update(pod)
		}
	}
}
