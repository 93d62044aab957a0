package jobs

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/internal/sim"
	"github.com/rehearse-k8s/rehearse/simtest"
	"github.com/rehearse-k8s/rehearse/simtest/kubecontrollers"
)

// Race is a known way to mislead a Job controller: a scenario, and the faults in it.
type Race struct {
	// Name is R1 to R7; What is a sentence that describes it.
	Name, What string
	// Faults are the only faults. They leave open which event or write they apply to, because that depends on
	// what a controller writes: the search tries all.
	Faults []fault.Fault
	// Runs is the number of runs that suffices.
	Runs int

	spec    batchv1.JobSpec
	outcome func(*corev1.Pod) Outcome
	act     func(w *simtest.World, job *batchv1.Job) // what the user does; nil: creates the Job
}

// Test returns the test of the race with a controller.
func (r Race) Test(c simtest.Constructor) func(*simtest.World) {
	return func(w *simtest.World) {
		begin(w, c, r.outcome)
		w.Faults(r.Faults...)
		job := jobOf(*r.spec.DeepCopy())
		if r.act != nil {
			r.act(w, job)
			return
		}
		w.Create(job)
	}
}

// Play searches the race with a controller up to the first violated invariant. It does not fail the test.
func (r Race) Play(t testing.TB, c simtest.Constructor) *sim.Result {
	t.Helper()
	return simtest.Explore(t, simtest.Seeds(r.Runs), r.Test(c))
}

// lateJobs delays the events of the Job on their way to the controller, but not those of pods.
var lateJobs = fault.Fault{Kind: fault.KindLag, Actor: Actor, Resource: "jobs.batch", Object: "default/" + jobName}

// Races returns the seven races.
func Races() []Race {
	return []Race{
		{
			Name: "R1", What: "a Job of one pod ends, and its events are late: a second pod is created",
			Faults: []fault.Fault{lateJobs}, Runs: 150,
			spec:    batchv1.JobSpec{Parallelism: ptr.To[int32](1), Completions: ptr.To[int32](1), BackoffLimit: ptr.To[int32](0)},
			outcome: succeedsAfter(5 * time.Second),
		},
		{
			Name: "R2", What: "a Job fails at its first pod, and its events are late: another pod is created despite its limit",
			Faults: []fault.Fault{lateJobs}, Runs: 150,
			spec:    batchv1.JobSpec{Parallelism: ptr.To[int32](1), Completions: ptr.To[int32](1), BackoffLimit: ptr.To[int32](0)},
			outcome: func(*corev1.Pod) Outcome { return Outcome{After: 5 * time.Second, Exit: 1} },
		},
		{
			Name: "R3", What: "before the end, two of three pods at a time: a counted success is forgotten, and a fourth pod is created",
			Faults: []fault.Fault{lateJobs}, Runs: 400,
			spec:    batchv1.JobSpec{Parallelism: ptr.To[int32](2), Completions: ptr.To[int32](3)},
			outcome: byTurns(4*time.Second, 9*time.Second),
		},
		{
			Name: "R4", What: "one of two indexes has succeeded and the other runs: it gets another pod",
			Faults: []fault.Fault{lateJobs}, Runs: 400,
			spec: batchv1.JobSpec{
				Parallelism: ptr.To[int32](2), Completions: ptr.To[int32](2), CompletionMode: ptr.To(batchv1.IndexedCompletion),
			},
			outcome: func(pod *corev1.Pod) Outcome {
				if pod.Annotations[batchv1.JobCompletionIndexAnnotation] == "0" {
					return Outcome{After: 4 * time.Second}
				}
				return Outcome{After: 30 * time.Second}
			},
		},
		{
			Name: "R5", What: "the answer to the create of a pod is lost, and the pod's event is late: another one is created",
			Faults: []fault.Fault{
				{Kind: fault.KindLostAnswer, Actor: Actor, Verb: "create", Resource: "pods"},
				{Kind: fault.KindLag, Actor: Actor, Resource: "pods"},
				{Kind: fault.KindRelist, Actor: Actor, Resource: "pods"},
			}, Runs: 800,
			spec:    batchv1.JobSpec{Parallelism: ptr.To[int32](1), Completions: ptr.To[int32](1), BackoffLimit: ptr.To[int32](0)},
			outcome: succeedsAfter(20 * time.Second),
		},
		{
			Name: "R6", What: "the controller crashes between two of its writes and restarts; its events are late",
			Faults: []fault.Fault{
				{Kind: fault.KindCrash, Actor: Actor},
				{Kind: fault.KindLag, Actor: Actor, Resource: "jobs.batch"},
				{Kind: fault.KindLag, Actor: Actor, Resource: "pods"},
			}, Runs: 400,
			spec:    batchv1.JobSpec{Parallelism: ptr.To[int32](1), Completions: ptr.To[int32](1), BackoffLimit: ptr.To[int32](0)},
			outcome: succeedsAfter(5 * time.Second),
		},
		{
			Name: "R7", What: "a Job is deleted and created again with the same name while a pod of the first is being created: the second gets no pods, or inherits what the controller remembers of the first",
			Faults: []fault.Fault{
				{Kind: fault.KindLateRequest, Actor: Actor, Verb: "create", Resource: "pods"},
				{Kind: fault.KindLateAnswer, Actor: Actor, Verb: "create", Resource: "pods"},
				{Kind: fault.KindLag, Actor: Actor, Resource: "pods"},
			}, Runs: 400,
			spec:    batchv1.JobSpec{Parallelism: ptr.To[int32](1), Completions: ptr.To[int32](1), BackoffLimit: ptr.To[int32](0)},
			outcome: succeedsAfter(5 * time.Second),
			act: func(w *simtest.World, job *batchv1.Job) {
				again := job.DeepCopy()
				w.Controller("garbage-collector", kubecontrollers.GarbageCollectorOf("jobs.batch", "pods"))
				w.Create(job)
				w.Advance(100 * time.Millisecond)
				w.Delete(job)
				w.Advance(100 * time.Millisecond)
				w.Create(again)
			},
		},
	}
}

// OlderServer is R6 with a server that is behind: the controller restarts and lists an older state (kubernetes
// issue 59848). The API contract does not allow that, so a failure is no defect of the controller.
func OlderServer() Race {
	for _, r := range Races() {
		if r.Name == "R6" {
			r.Name, r.What = "R6 older", r.What+", and its first lists too"
			r.Faults = append(r.Faults, fault.Fault{Kind: fault.KindTimeTravel, Actor: Actor})
			return r
		}
	}
	panic("race R6 does not exist")
}

// LostSuccess was found by the family: a pod succeeds and the event is late, the user suspends the Job, and
// the controller crashes after it has removed the pod's finalizer, because its cache shows the pod as running,
// and before it has deleted the pod. The next instance takes the pod for counted, and it is not.
func LostSuccess() Race {
	return Race{
		Name: "lost success", What: "the finalizer of a pod is removed because the Job is suspended; the pod has succeeded, and a crash loses the reason of the removal",
		Faults: []fault.Fault{
			{Kind: fault.KindCrashAfter, Actor: Actor, Verb: "patch", Resource: "pods"},
			{Kind: fault.KindLag, Actor: Actor, Resource: "pods", For: 40 * time.Second},
		}, Runs: 200,
		spec: batchv1.JobSpec{
			Parallelism: ptr.To[int32](1), Completions: ptr.To[int32](1), CompletionMode: ptr.To(batchv1.IndexedCompletion),
		},
		outcome: succeedsAfter(3 * time.Second),
		act: func(w *simtest.World, job *batchv1.Job) {
			w.Create(job)
			w.Advance(3500 * time.Millisecond)
			w.Patch(job, types.MergePatchType, `{"spec":{"suspend":true}}`)
			w.Advance(3 * time.Second)
			w.Patch(job, types.MergePatchType, `{"spec":{"suspend":false}}`)
		},
	}
}

// Relisted is for a controller that reads pods through a shared cache. The user lowers parallelism by one and
// raises it again, so that the new pod gets another name than the terminating one, and annotates both.
// Meanwhile the watch of pods expires. If the pods of the next list arrived one at a time, the store would be
// at the revision of the annotation of the first pod, which is after the creation of the new one, without the
// new one; a third pod would be created with the name of the deleted one.
func Relisted() Race {
	return Race{
		Name: "relisted", What: "a relist contains several pods: one that was created before another one changed comes after it",
		Faults: []fault.Fault{{Kind: fault.KindRelist, Actor: Actor, Resource: "pods"}}, Runs: 180,
		spec:    batchv1.JobSpec{Parallelism: ptr.To[int32](2), Completions: ptr.To[int32](20)},
		outcome: func(*corev1.Pod) Outcome { return Outcome{After: 5 * time.Minute, Stop: 2 * time.Second} },
		act: func(w *simtest.World, job *batchv1.Job) {
			w.Create(job)
			w.Advance(5 * time.Second)
			w.Patch(job, types.MergePatchType, `{"spec":{"parallelism":1}}`)
			w.Advance(500 * time.Millisecond)
			w.Patch(job, types.MergePatchType, `{"spec":{"parallelism":2}}`)
			w.Advance(500 * time.Millisecond)
			annotatePods(w)
			w.Advance(time.Minute)
			w.Patch(job, types.MergePatchType, `{"spec":{"suspend":true}}`)
		},
	}
}

// annotatePods writes to all pods, the oldest first, as a user or another controller may at any time.
func annotatePods(w *simtest.World) {
	all := w.View().List("pods")
	slices.SortStableFunc(all, func(a, b *unstructured.Unstructured) int {
		return a.GetCreationTimestamp().Compare(b.GetCreationTimestamp().Time)
	})
	client, err := kubernetes.NewForConfig(w.Config())
	if err != nil {
		w.Fatalf("%v", err)
	}
	for _, p := range all {
		pod := &corev1.Pod{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
			ObjectMeta: metav1.ObjectMeta{Namespace: p.GetNamespace(), Name: p.GetName()},
		}
		if !w.Get(pod) {
			continue
		}
		patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"seen":"%d"}}}`, w.Now().UnixMilli())
		_, err := client.CoreV1().Pods(p.GetNamespace()).Patch(context.Background(), p.GetName(), types.MergePatchType, patch, metav1.PatchOptions{})
		if err != nil && !apierrors.IsNotFound(err) { // the pod may be gone
			w.Fatalf("annotate pod %s: %v", p.GetName(), err)
		}
	}
}

// RemovedSuccess is about the two writes that remove a pod: the pod has succeeded, its kubelet reports it when
// the finalizer is removed, and the delete does not follow or is late. The success must count.
func RemovedSuccess() Race {
	return Race{
		Name: "removed success", What: "a pod succeeds between the two writes by which it is removed, because the Job is suspended: its work is repeated",
		Faults: []fault.Fault{
			{Kind: fault.KindCrash, Actor: Actor},
			{Kind: fault.KindLateAnswer, Actor: Actor, Verb: "patch", Resource: "pods"},
			{Kind: fault.KindLateRequest, Actor: Actor, Verb: "delete", Resource: "pods"},
		}, Runs: 200,
		spec:    batchv1.JobSpec{Parallelism: ptr.To[int32](1), Completions: ptr.To[int32](1), BackoffLimit: ptr.To[int32](0)},
		outcome: func(*corev1.Pod) Outcome { return Outcome{After: 3 * time.Second, Late: 20 * time.Second} },
		act: func(w *simtest.World, job *batchv1.Job) {
			w.Create(job)
			w.Advance(5 * time.Second)
			w.Patch(job, types.MergePatchType, `{"spec":{"suspend":true}}`)
			w.Advance(3 * time.Second)
			w.Patch(job, types.MergePatchType, `{"spec":{"suspend":false}}`)
		},
	}
}

func succeedsAfter(d time.Duration) func(*corev1.Pod) Outcome {
	return func(*corev1.Pod) Outcome { return Outcome{After: d} }
}

// byTurns makes pods succeed after one of several times each, by their names.
func byTurns(times ...time.Duration) func(*corev1.Pod) Outcome {
	return func(pod *corev1.Pod) Outcome {
		return Outcome{After: times[fault.Pick(len(times), 1, pod.Name)]}
	}
}
