package jobs

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/simtest"
	"github.com/rehearse-k8s/rehearse/simtest/kubecontrollers"
	"github.com/rehearse-k8s/rehearse/test/family"
)

// Case is one Job of the family: its spec, the behaviour of its pods, and the changes of its user.
type Case struct {
	// Seed is the seed from which the case is drawn.
	Seed    int
	Spec    batchv1.JobSpec
	Changes []Change
	// Annotates: another client writes to all pods half a second after each change, and changes happen while
	// pods terminate.
	Annotates bool
	// Fails is how many of ten pods fail, Slow how many take long, and Late how many finish some seconds
	// before their status shows it.
	Fails, Slow, Late int
	// Again is how the user deletes the Job and creates it again, with the same name.
	Again *Again
	// Theirs is after how long the user creates a pod that the Job's selector matches; 0: never.
	Theirs time.Duration
}

// Again is a Job that is deleted and created again.
type Again struct {
	// After is the time from the Job's changes to its deletion, and Pause the time from then to its creation.
	After, Pause time.Duration
	// Orphans: its pods stay (--cascade=orphan). Adopts: the new Job has spec.manualSelector and matches them.
	Orphans, Adopts bool
}

// Change is a change of the user after some time.
type Change struct {
	After time.Duration
	// Patch is a patch of the spec, as JSON.
	Patch string
}

// Draws returns the cases of n consecutive seeds.
func Draws(from, n int) []Case { return family.Draws(Draw, from, n) }

// String returns the case as text.
func (c Case) String() string {
	spec, err := yaml.Marshal(c.Spec)
	if err != nil {
		return err.Error()
	}
	_, lines, _ := strings.Cut("\n"+strings.ReplaceAll(string(spec), "template:\n  metadata: {}\n  spec:\n    containers: null\n", ""), "\n")
	text := fmt.Sprintf("case %d: %d of 10 pods fail, %d are slow, %d late\n%s", c.Seed, c.Fails, c.Slow, c.Late, lines)
	for _, change := range c.Changes {
		text += fmt.Sprintf("after %s: %s\n", change.After, change.Patch)
	}
	if c.Theirs > 0 {
		text += fmt.Sprintf("after %s: the user creates a pod that matches\n", c.Theirs)
	}
	if a := c.Again; a != nil {
		text += fmt.Sprintf("after %s: deleted (orphans: %t), and created again after %s (adopts: %t)\n", a.After, a.Orphans, a.Pause, a.Adopts)
	}
	if c.Annotates {
		text += "all pods are annotated after each change\n"
	}
	return text
}

// Test returns the test of the case with a controller. The faults are some of the patterns; without patterns,
// those of AnyFault.
func (c Case) Test(controller simtest.Constructor, patterns ...fault.Fault) func(*simtest.World) {
	if len(patterns) == 0 {
		patterns = AnyFault()
	}
	return func(w *simtest.World) {
		begin(w, controller, c.outcome)
		if c.Again != nil {
			w.Controller("garbage-collector", kubecontrollers.GarbageCollectorOf("jobs.batch", "pods"))
		}
		w.Faults(patterns...)
		job := jobOf(*c.Spec.DeepCopy())
		w.Create(job)
		for _, change := range c.Changes {
			if c.Annotates { // before pods that the previous change has removed are gone
				change.After = min(change.After, 2*time.Second)
			}
			w.Advance(change.After)
			// The API accepts most changes of a Job that has ended too; the others are left out.
			if w.Get(job) && !ended(job) {
				w.Patch(job, types.MergePatchType, change.Patch)
			}
			if c.Annotates {
				w.Advance(500 * time.Millisecond)
				annotatePods(w)
			}
		}
		if c.Theirs > 0 {
			w.Advance(c.Theirs)
			w.Create(theirs(job))
		}
		if c.Again != nil {
			c.again(w, job)
		}
	}
}

// theirs returns a pod of the user that the Job's selector matches.
func theirs(job *batchv1.Job) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "theirs", Namespace: job.Namespace, Labels: job.Spec.Selector.MatchLabels}}
	job.Spec.Template.Spec.DeepCopyInto(&pod.Spec)
	if *job.Spec.CompletionMode == batchv1.IndexedCompletion {
		pod.Annotations = map[string]string{batchv1.JobCompletionIndexAnnotation: "0"}
	}
	return pod
}

// again deletes the Job and creates it again.
func (c Case) again(w *simtest.World, job *batchv1.Job) {
	w.Advance(c.Again.After)
	policy := metav1.DeletePropagationBackground
	if c.Again.Orphans {
		policy = metav1.DeletePropagationOrphan
	}
	client, err := kubernetes.NewForConfig(w.Config())
	if err != nil {
		w.Fatalf("%v", err)
	}
	uid := job.UID
	if err := client.BatchV1().Jobs(job.Namespace).Delete(context.Background(), job.Name, metav1.DeleteOptions{PropagationPolicy: &policy}); err != nil {
		w.Fatalf("%v", err)
	}
	w.Advance(c.Again.Pause)
	for w.Get(job) { // the garbage collector has not released it
		w.Advance(time.Second)
	}
	next := jobOf(*c.Spec.DeepCopy())
	if c.Again.Adopts {
		next.Spec.ManualSelector = ptr.To(true)
		next.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{batchv1.ControllerUidLabel: string(uid)}}
		next.Spec.Template.Labels = next.Spec.Selector.MatchLabels
	}
	w.Create(next)
}

func ended(job *batchv1.Job) bool {
	for _, c := range job.Status.Conditions {
		switch c.Type {
		case batchv1.JobComplete, batchv1.JobFailed, batchv1.JobSuccessCriteriaMet, batchv1.JobFailureTarget:
			if c.Status == corev1.ConditionTrue {
				return true
			}
		}
	}
	return false
}

// outcome draws what a pod does: by index and attempt, or by its name. The pods of a case never all run
// forever, so that it ends.
func (c Case) outcome(pod *corev1.Pod) Outcome {
	key := pod.Name
	if index := pod.Annotations[batchv1.JobCompletionIndexAnnotation]; index != "" {
		key = index + " " + pod.Annotations[batchv1.JobIndexFailureCountAnnotation] + pod.Annotations[batchv1.JobIndexIgnoredFailureCountAnnotation]
	}
	draw := func(of int, what string) int { return fault.Pick(of, uint64(c.Seed), key, what) }
	o := Outcome{
		After:       time.Duration(1+draw(4, "after")) * time.Second,
		Stop:        time.Duration(draw(3, "stop")) * time.Second,
		ExitsOnStop: draw(2, "heeds") == 0,
	}
	if c.Annotates {
		o.Stop += 3 * time.Second
	}
	if draw(10, "slow") < c.Slow {
		o.After += 20 * time.Second
	}
	if draw(10, "late") < c.Late {
		o.Late = time.Duration(2+draw(19, "later")) * time.Second
	}
	// An ignored failure does not count, and an index without its own count would draw the same outcome
	// forever: after five minutes all pods succeed.
	if draw(10, "fails") < c.Fails && sinceStart(pod) < 5*time.Minute {
		o.Exit = exitCodes[draw(len(exitCodes), "exit")]
	}
	return o
}

// sinceStart returns the time from the start of the run, which is midnight, to the creation of a pod.
func sinceStart(pod *corev1.Pod) time.Duration {
	at := pod.CreationTimestamp.UTC()
	return at.Sub(at.Truncate(24 * time.Hour))
}

// exitCodes are those of containers that fail; rules of pod failure policies use them.
var exitCodes = []int32{1, 2, 3, 42}

// Found is a failure that the search of one case has found.
type Found = family.Found[Case]

// Rehearse searches each of some cases for a number of runs, up to the first failure of each, and returns
// those that failed and how many runs there were. It logs failures, and does not fail the test.
func Rehearse(t testing.TB, controller simtest.Constructor, cases []Case, runs int, patterns ...fault.Fault) (found []Found, played int) {
	t.Helper()
	return family.Rehearse(t, simtest.Seeds(runs), controller, cases, patterns...)
}
