package job

import "testing"

// TestActive checks that pods that a plan creates count as active at once, unless the previous creates were
// rejected: otherwise a Job over its quota would report active pods that never exist.
func TestActive(t *testing.T) {
	for _, c := range []struct {
		batch int
		want  int32
	}{{0, 1}, {2, 2}, {1, 0}} {
		s := newHarness(t, newJob("p=3 c=3"), nil)
		s.past.Batch = c.batch
		s.step()
		if got := s.last.Status.Active; got != c.want {
			t.Errorf("batch %d: active %d, want %d", c.batch, got, c.want)
		}
	}
}

// TestSlowStart checks that the first plan creates one pod, and each later plan twice as many while creates
// succeed.
func TestSlowStart(t *testing.T) {
	for _, c := range []struct{ batch, want int }{{0, 1}, {1, 1}, {2, 2}, {64, 64}, {1000, 100}} {
		s := newHarness(t, newJob("p=200 c=200"), nil)
		s.past.Batch, s.limits.Pods = c.batch, 100
		s.step()
		if s.created != c.want {
			t.Errorf("batch %d: %d pods are created, want %d", c.batch, s.created, c.want)
		}
	}
}

// TestElasticStatus checks that succeeded decreases together with completions, unless the API would reject the
// status because parallelism differs from completions.
func TestElasticStatus(t *testing.T) {
	play(t, []played{
		{name: "smaller", job: "p=2 c=2 indexed succeeded=3 completed=0,2,3", want: "active=1 succeeded=1 completed=0 created=1 [1]"},
		{name: "smaller, pods beyond", job: "p=2 c=2 indexed succeeded=1 completed=3", pods: "R #0, R #1, R #2", want: "active=2 terminating=1 removed=1"},
		{name: "larger", job: "p=4 c=4 indexed succeeded=2 completed=0,1", pods: "S untracked #0, S untracked #1", want: "active=2 succeeded=2 completed=0,1 created=2 [2,3]"},
		{name: "smaller, then less parallel", job: "p=1 c=2 indexed succeeded=3 completed=0,2,3", want: "active=1 succeeded=3 completed=0 created=1 [1]"},
		{name: "to nothing", job: "p=0 c=0 indexed succeeded=1 completed=3", pods: "R #1", want: "terminating=1 removed=1 SuccessCriteriaMet(CompletionsReached)"},
		{name: "failed stays", job: "p=2 c=2 indexed perindex=0 failed=2 failed-indexes=1,3", pods: "R #0", want: "active=1 failed=2 failed-indexes=1"},
	})
}
