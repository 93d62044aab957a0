package job

import (
	"fmt"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
)

// TestHandledOnce checks that the tally counts the action of the pod failure policy for a failure once: when
// the status records the failure, or when the pod of an ignored failure is released.
func TestHandledOnce(t *testing.T) {
	const in = batchv1.PodFailurePolicyOnExitCodesOpIn
	codes := failurePolicy(onExit("Ignore", in, 1), onExit("Count", in, 2), onExit("FailIndex", in, 3), onExit("FailJob", in, 4))
	for _, c := range []struct{ job, pods, want string }{
		{"p=1 c=1", "F exit=1", "map[Ignore:1]"},
		{"p=9 c=9", "F exit=1, F exit=2, F exit=2, F exit=9", "map[Count:2 Ignore:1]"},
		{"p=2 c=2", "F exit=4, R", "map[FailJob:1]"},
		{"p=2 c=2 indexed perindex=3", "F #0 exit=3, F #1 exit=1 ago=1", "map[FailIndex:1]"}, // index 1 waits
		{"p=1 c=1", "F untracked exit=2", "map[]"},
		{"p=1 c=1", "S", "map[]"},
	} {
		s := newHarness(t, newJob(c.job, codes), newPods(c.pods))
		s.settle()
		if got := fmt.Sprint(s.handled); got != c.want {
			t.Errorf("%s: %s: %s, want %s", c.job, c.pods, got, c.want)
		}
	}
}

// TestHandledLater checks that failures are not tallied while the status waits.
func TestHandledLater(t *testing.T) {
	s := newHarness(t, newJob("p=1 c=1 started=9", failurePolicy(onExit("Count", "In", 1))), newPods("F exit=1 ago=1"))
	s.limits.CountPause = time.Hour
	s.past = Past{StatusWrites: 1000, StatusAt: noon}
	if s.step() || len(s.last.Tally.Handled) > 0 || s.last.Wake == 0 {
		t.Errorf("%+v", s.last)
	}
}

// TestLateFailuresAreTalliedOnce checks an ignored failure of an index: each plan classifies it until another
// pod of the index is created, but it is tallied once.
func TestLateFailuresAreTalliedOnce(t *testing.T) {
	s := newHarness(t, newJob("p=1 c=1 indexed perindex=3", failurePolicy(onExit("Ignore", "In", 1))), newPods("F #0 exit=1 ago=1"))
	s.settle()
	for range 3 {
		s.now = s.now.Add(time.Second)
		s.settle()
		s.step()
		if len(s.last.Tally.Handled) > 0 {
			t.Fatalf("tallied while the index waits: %v", s.last.Tally.Handled)
		}
	}
	s.now = s.now.Add(time.Minute)
	s.settle()
	if got := fmt.Sprint(s.handled, s.created, s.released); got != "map[Ignore:1] 1 1" {
		t.Errorf("handled, created, released: %s", got)
	}
}

// TestTally checks the numbers of creations that upstream's metrics report.
func TestTally(t *testing.T) {
	for _, c := range []struct {
		job, pods string
		want      string
	}{
		{"p=2 c=5", "", "created 2 removed 0 released 0 replaces false ended  "},
		{"p=2 c=5 failed=1", "R", "created 1 removed 0 released 0 replaces true ended  "},
		{"p=2 c=5", "R terminating untracked", "created 2 removed 0 released 0 replaces true ended  "},
		{"p=2 c=5", "4 R", "created 0 removed 2 released 0 replaces false ended  "},
		{"p=1 c=2 uncounted-succeeded=a", "a: S, R", "created 0 removed 0 released 1 replaces false ended  "},
		{"p=1 c=1 succeeded=1", "", "created 0 removed 0 released 0 replaces false ended Complete CompletionsReached"},
		{"p=1 c=1 target=X started=9", "S untracked", "created 0 removed 0 released 0 replaces false ended Failed X"},
	} {
		s := newHarness(t, newJob(c.job), newPods(c.pods))
		s.step()
		n := s.last.Tally
		if got := fmt.Sprintf("created %d removed %d released %d replaces %t ended %s %s", n.Created, n.Removed, n.Released, n.Replaces, n.Ended, n.Why); got != c.want {
			t.Errorf("%s: %s\n got %s\nwant %s", c.job, c.pods, got, c.want)
		}
	}
}

// TestStartIsWrittenWithMore checks that the start of a Job waits a second for other changes of the status,
// and that startTime is then the time of the start, not of the write.
func TestStartIsWrittenWithMore(t *testing.T) {
	first := Plan(noon, State{Job: newJob("p=1 c=2"), Limits: DefaultLimits})
	if first.Status != nil || first.Wake != time.Second || len(first.Actions) != 1 || !first.Recheck {
		t.Fatalf("at first: status %v, wake %s, %d actions, read again %t", first.Status, first.Wake, len(first.Actions), first.Recheck)
	}
	then := Plan(noon.Add(time.Second), State{Job: newJob("p=1 c=2"), Pods: newPods("R ready"), Past: first.Past, Limits: DefaultLimits})
	if s := then.Status; s == nil || !s.StartTime.Time.Equal(noon) || s.Active != 1 || *s.Ready != 1 {
		t.Errorf("a second later: %+v", s)
	}
}

// TestStatusPauses checks how long the status waits: numbers of pods wait a second for other changes; pods
// that are recorded or counted are written at once while the Job has free writes, then 250 ms after the last
// write; decisions never wait.
func TestStatusPauses(t *testing.T) {
	for _, c := range []struct {
		name, job, pods string
		writes          int
		since           time.Duration
		wait            time.Duration // 0 is written now
	}{
		{"the first", "p=1 c=2 started=9", "R ready", 0, 0, time.Second},
		{"the first records", "p=1 c=2", "R, S", 0, 0, 0},
		{"ready", "p=1 c=2 started=9", "R ready", 1, 100 * time.Millisecond, 900 * time.Millisecond},
		{"ready, later", "p=1 c=2 started=9", "R ready", 1, time.Second, 0},
		{"records", "p=1 c=2 started=9", "R, S", freeWrites, 0, 0},
		{"records, no writes left", "p=1 c=2 started=9", "R, S", freeWrites + 1, 100 * time.Millisecond, 150 * time.Millisecond},
		{"counts, no writes left", "p=1 c=2 started=9 uncounted-succeeded=x", "R", freeWrites + 1, 100 * time.Millisecond, 150 * time.Millisecond},
		{"indexes, no writes left", "p=1 c=2 started=9 indexed completed=5", "R #0", freeWrites + 1, 0, 250 * time.Millisecond},
		{"more pods, more writes", "p=1 c=99 started=9 succeeded=25", "R, S", freeWrites + 1, 0, 0},
		{"decides", "p=1 c=1 started=9", "S", 999, 0, 0},
		{"ends", "p=1 c=1 started=9 met=X", "", 999, 0, 0},
		{"suspends", "p=1 c=2 started=9 suspend", "R", 999, 0, 0},
		{"starts", "p=1 c=2", "R", 999, 0, time.Second},
	} {
		past := Past{StatusWrites: c.writes, StatusAt: noon.Add(-c.since), Seeded: true}
		if c.writes == 0 {
			past.StatusAt = time.Time{}
		}
		d := Plan(noon, State{Job: newJob(c.job), Pods: newPods(c.pods), Past: past, Limits: DefaultLimits})
		if (d.Status == nil) != (c.wait > 0) || d.Wake != c.wait {
			t.Errorf("%s: written %t, wakes in %s; want %s", c.name, d.Status != nil, d.Wake, c.wait)
		}
		if d.Status != nil && (d.Past.StatusWrites != c.writes+1 || !d.Past.StatusAt.Equal(noon)) {
			t.Errorf("%s: remembers %d writes, the last at %s", c.name, d.Past.StatusWrites, d.Past.StatusAt)
		}
	}
}
