package inspect

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/rehearse-k8s/rehearse/history"
)

// walk returns the start and the earlier requests of a request's reconcile, newest first. It follows the
// whole chain of causes for each request: Reconciles must agree with it.
func walk(run *history.Run, request int) (start int, previous []int) {
	var answers []int
	start = request
	for at := request; len(run.Steps[at].Causes) > 0; {
		start = run.Steps[at].Causes[0]
		at = start
		if run.Steps[at].Kind == history.Answer && len(run.Steps[at].Causes) > 0 {
			at = run.Steps[at].Causes[0]
		}
		if run.Steps[at].Kind != history.Request {
			break
		}
		answers, previous = append(answers, start), append(previous, at)
	}
	for n := len(previous) - 1; n >= 0; n-- {
		if verb := run.Steps[previous[n]].Verb; verb != "list" && verb != "watch" {
			break
		}
		start, previous = answers[n], previous[:n]
	}
	return start, previous
}

// TestReconciles compares the index with a walk over the causes, for a record that grows.
func TestReconciles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		run := &history.Run{}
		r := NewReconciles(run)
		for n := range rapid.IntRange(1, 40).Draw(t, "steps") {
			step := history.Step{
				Kind: rapid.SampledFrom([]history.Kind{history.Request, history.Request, history.Answer, history.Frame, history.Time}).Draw(t, "kind"),
				Verb: rapid.SampledFrom([]string{"get", "list", "watch", "update"}).Draw(t, "verb"),
			}
			if n > 0 {
				step.Causes = rapid.SliceOfN(rapid.IntRange(max(0, n-3), n-1), 0, 1).Draw(t, "causes")
			}
			run.Add(step)
			if rapid.Bool().Draw(t, "later") {
				continue
			}
			for i := range run.Steps {
				start, want := walk(run, i)
				var got []int
				for at, ok := r.Previous(i); ok; at, ok = r.Previous(at) {
					got = append(got, at)
				}
				if r.Start(i) != start || !slices.Equal(got, want) {
					t.Fatalf("step %d: start %d after %v, want %d after %v", i, r.Start(i), got, start, want)
				}
			}
		}
	})
}

// TestReconcilesOfMalformedRecord checks that a cause after its step ends the chain.
func TestReconcilesOfMalformedRecord(t *testing.T) {
	request := func(causes ...int) history.Step {
		return history.Step{Kind: history.Request, Verb: "get", Causes: causes}
	}
	for name, steps := range map[string][]history.Step{
		"a request that causes itself": {request(0), request(0)},
		"an answer before its request": {{Kind: history.Answer, Causes: []int{1}}, request(0)},
	} {
		r := NewReconciles(&history.Run{Steps: steps})
		if _, ok := r.Previous(1); r.Start(1) != 1 || ok {
			t.Errorf("%s: start %d, previous %v", name, r.Start(1), ok)
		}
	}
}
