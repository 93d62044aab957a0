package jobs

import (
	"fmt"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/simtest"
	"github.com/rehearse-k8s/rehearse/test/family"
)

// Case is one Job of the family: its spec, what its pods do, and what its user changes
// while it runs.
type Case struct {
	// Seed is what everything of the case was drawn from.
	Seed    int
	Spec    batchv1.JobSpec
	Changes []Change
	// Annotates says that somebody writes to all pods half a second after each change, and that changes
	// come while pods terminate.
	Annotates bool
	// Fails is how many of ten pods fail, and Slow how many take long.
	Fails, Slow int
}

// Change is what the user does after some time.
type Change struct {
	After time.Duration
	// Patch of the spec, as JSON.
	Patch string
}

// Draws are the cases of n seeds from one on.
func Draws(from, n int) []Case { return family.Draws(Draw, from, n) }

// String is the case as people read it.
func (c Case) String() string {
	spec, err := yaml.Marshal(c.Spec)
	if err != nil {
		return err.Error()
	}
	_, lines, _ := strings.Cut("\n"+strings.ReplaceAll(string(spec), "template:\n  metadata: {}\n  spec:\n    containers: null\n", ""), "\n")
	text := fmt.Sprintf("case %d: %d of 10 pods fail, %d are slow\n%s", c.Seed, c.Fails, c.Slow, lines)
	for _, change := range c.Changes {
		text += fmt.Sprintf("after %s: %s\n", change.After, change.Patch)
	}
	if c.Annotates {
		text += "all pods are annotated after each change\n"
	}
	return text
}

// Story tells the case with a controller. What goes wrong is one of some patterns; none
// stands for AnyFault.
func (c Case) Story(controller simtest.Constructor, patterns ...fault.Fault) func(*simtest.World) {
	if len(patterns) == 0 {
		patterns = AnyFault()
	}
	return func(w *simtest.World) {
		begin(w, controller, c.outcome)
		w.Faults(patterns...)
		job := jobOf(*c.Spec.DeepCopy())
		w.Create(job)
		for _, change := range c.Changes {
			if c.Annotates { // before pods that the change before it has removed are gone
				change.After = min(change.After, 2*time.Second)
			}
			w.Advance(change.After)
			// A Job that has ended takes most changes too; those that the API would
			// refuse then are left out.
			if w.Get(job) && !ended(job) {
				w.Patch(job, types.MergePatchType, change.Patch)
			}
			if c.Annotates {
				w.Advance(500 * time.Millisecond)
				annotatePods(w)
			}
		}
	}
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

// outcome draws what a pod does: by index and attempt, or by its name. Pods of one
// case never all run for ever, so that it ends.
func (c Case) outcome(pod *corev1.Pod) Outcome {
	key := pod.Name
	if index := pod.Annotations[batchv1.JobCompletionIndexAnnotation]; index != "" {
		key = index + " " + pod.Annotations[batchv1.JobIndexFailureCountAnnotation] + pod.Annotations[batchv1.JobIndexIgnoredFailureCountAnnotation]
	}
	draw := func(of int, what string) int { return fault.Pick(of, uint64(c.Seed), key, what) }
	o := Outcome{
		After: time.Duration(1+draw(4, "after")) * time.Second,
		Stop:  time.Duration(draw(3, "stop")) * time.Second,
		Heeds: draw(2, "heeds") == 0,
	}
	if c.Annotates {
		o.Stop += 3 * time.Second
	}
	if draw(10, "slow") < c.Slow {
		o.After += 20 * time.Second
	}
	// A failure that is ignored counts nowhere, and an index without a count of its own
	// would draw the same again for ever: after five minutes all is well.
	if draw(10, "fails") < c.Fails && sinceStart(pod) < 5*time.Minute {
		o.Exit = exitCodes[draw(len(exitCodes), "exit")]
	}
	return o
}

// sinceStart is how far the run had gone when a pod was made. Runs begin at midnight.
func sinceStart(pod *corev1.Pod) time.Duration {
	at := pod.CreationTimestamp.UTC()
	return at.Sub(at.Truncate(24 * time.Hour))
}

// exitCodes are those of containers that fail; rules of pod failure policies name them.
var exitCodes = []int32{1, 2, 3, 42}

// Found is what a search of one case found.
type Found = family.Found[Case]

// Rehearse searches each of some cases for a number of runs, up to the first failure of
// each, and returns those that failed and how many runs there were. It logs what it
// finds, and does not fail the test.
func Rehearse(t testing.TB, controller simtest.Constructor, cases []Case, runs int, patterns ...fault.Fault) (found []Found, played int) {
	t.Helper()
	return family.Rehearse(t, simtest.Seeds(runs), controller, cases, patterns...)
}
