package sim

import (
	"os"
	"slices"
	"testing"
	"time"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/history"
)

// runOf returns a run of these steps of actor "c", after its start.
func runOf(steps ...history.Step) *history.Run {
	run := &history.Run{Header: history.Header{Format: history.Format}}
	run.Add(history.Step{Kind: history.Start, Actor: "c"})
	for _, s := range steps {
		s.Actor = "c"
		run.Add(s)
	}
	return run
}

func write(name string) history.Step {
	return history.Step{
		Kind: history.Request, Verb: "update", Object: history.Object{Resource: "configmaps", Namespace: "default", Name: name},
		Code: 200, Revision: 2, Before: 1, Guarded: true,
	}
}

var event = history.Step{Kind: history.Frame, Type: "MODIFIED", Object: history.Object{Resource: "configmaps", Namespace: "default", Name: "p"}, Revision: 2}

// TestEventBeforeCrash: faults of an event that its actor can hardly use before a fault terminates it come later: all of them if it sends nothing until
// then, and all but the first if that happens at its next request.
func TestEventBeforeCrash(t *testing.T) {
	start := history.Step{Kind: history.Start}
	crash := func(fault string) history.Step { return history.Step{Kind: history.Crash, Fault: fault} }
	const after, before, deposed = "crash-after actor=c", "crash-before actor=c", "deposed-write actor=c"
	for _, c := range []struct {
		name         string
		steps        []history.Step
		fewest, most int // of the faults that come in their order
	}{
		{"no crash", []history.Step{event, write("a"), write("b")}, 5, 100},
		{"after the second request", []history.Step{event, write("a"), write("b"), crash(after), start, write("a")}, 5, 100},
		{"after a request", []history.Step{event, write("a"), crash(after), start, write("a")}, 1, 1},
		{"by itself", []history.Step{event, write("a"), crash(""), start, write("a")}, 5, 100},
		{"before any request", []history.Step{write("a"), event, crash(after), start, write("a")}, 0, 0},
		{"in place of a request", []history.Step{write("a"), event, crash(before), start, write("a")}, 1, 1},
		{"in place of the second request", []history.Step{event, write("a"), crash(before), start, write("a")}, 5, 100},
		{"with a request on its way", []history.Step{write("a"), event, crash(deposed), start, write("a")}, 1, 1},
		{"before the event", []history.Step{write("a"), crash(after), start, event, write("a")}, 5, 100},
	} {
		all, first := 0, 0
		for _, f := range findCandidates(runOf(c.steps...), fault.Any(fault.Legal), Virtual, nil) {
			if f.Verb != "" {
				continue
			}
			late := f.rank-f.kind >= noDifference
			if late != f.idle {
				t.Errorf("%s: %s: rank %d of kind %d, idle: %v", c.name, f.Fault, f.rank, f.kind, f.idle)
			}
			if all++; !late {
				first++
			}
			if c.most == 1 && late != (all > 1) {
				t.Errorf("%s: fault %d (%s): late: %v", c.name, all, f.Fault, late)
			}
		}
		if all < 5 || first < c.fewest || first > c.most {
			t.Errorf("%s: %d of %d faults at the event come in their order; want %d to %d", c.name, first, all, c.fewest, c.most)
		}
	}
}

// TestNoFaultAtError: the error that ends a watch is not counted as an event, so the faults of two of them would be the same,
// and would act on another event.
func TestNoFaultAtError(t *testing.T) {
	end := event
	end.Type, end.Revision = "ERROR", 0
	seen := map[fault.Fault]bool{}
	for _, f := range findCandidates(runOf(event, end, end, write("a"), event, write("b")), fault.Any(fault.Legal), Virtual, nil) {
		if f.Verb == "" && (f.step == 2 || f.step == 3) || seen[f.Fault] {
			t.Errorf("step %d: %s", f.step, f.Fault)
		}
		seen[f.Fault] = true
	}
	if len(seen) < 10 {
		t.Errorf("%d candidates", len(seen))
	}
}

// TestWantedSteps: candidates at some steps are those of all candidates that are at these steps.
func TestWantedSteps(t *testing.T) {
	for _, name := range []string{"deployment-recreated", "job-off", "statefulset-off"} {
		file, err := os.Open("../../test/upstream/testdata/" + name + ".jsonl")
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		run, err := history.Read(file)
		if err != nil {
			t.Fatal(err)
		}
		all := findCandidates(run, fault.Any(fault.Seen), Virtual, nil)
		for from := range run.Steps {
			var want []ranked
			for _, f := range all {
				if f.step >= from {
					want = append(want, f)
				}
			}
			if got := findCandidates(run, fault.Any(fault.Seen), Virtual, func(step int) bool { return step >= from }); !slices.Equal(got, want) {
				t.Fatalf("%s: %d candidates from step %d on, %d of all", name, len(got), from, len(want))
			}
		}
		if len(all) < 50 {
			t.Errorf("%s: %d candidates", name, len(all))
		}
	}
}

// TestIdleFaults: a hold during which its actor receives nothing else comes later, and so does a partition during which it writes nothing else. A
// replica that is paused is another matter: the other one takes over.
func TestIdleFaults(t *testing.T) {
	caused := write("b")
	caused.Causes = []int{1} // by the write to a
	later := history.Step{Kind: history.Time, At: time.Hour}
	alone := runOf(write("a"), caused, later)
	busy := runOf(write("a"), write("b"), later)
	observed := runOf(write("a"), event, later)
	replica := runOf(write("a"), caused, later)
	for n := range replica.Steps {
		replica.Steps[n].Actor = "c/0"
	}
	for _, c := range []struct {
		name string
		run  *history.Run
		kind fault.Kind
		idle bool
	}{
		{"a late answer", alone, fault.KindLateAnswer, true},
		{"a late answer, and another write", busy, fault.KindLateAnswer, false},
		{"a late answer, and an event", observed, fault.KindLateAnswer, false},
		{"a partition", alone, fault.KindPartition, true},
		{"a partition, and another write", busy, fault.KindPartition, false},
		{"a partition, and an event", observed, fault.KindPartition, true},
		{"a pause", alone, fault.KindPause, true},
		{"a pause, and another write", busy, fault.KindPause, false},
		{"a pause of a replica", replica, fault.KindPause, false},
		{"a timeout", alone, fault.KindTimeout, false},
	} {
		found := findCandidates(c.run, fault.Any(fault.Legal), Virtual, nil)
		n := slices.IndexFunc(found, func(f ranked) bool { return f.Kind == c.kind && f.step == 1 })
		if n < 0 {
			t.Errorf("%s: not among the candidates", c.name)
			continue
		}
		if f := found[n]; f.idle != c.idle || f.rank != f.kind+map[bool]int{true: noDifference}[c.idle] {
			t.Errorf("%s: idle: %v, rank %d of kind %d; want idle: %v", c.name, f.idle, f.rank, f.kind, c.idle)
		}
	}
}

// TestIdleLag: a late event changes nothing if everything that its actor receives until the hold ends is a consequence of it, or waits behind it; or
// if the event was as late without the fault.
func TestIdleLag(t *testing.T) {
	because := func(s history.Step, causes ...int) history.Step {
		s.Causes = causes
		return s
	}
	at := func(d time.Duration, s history.Step) history.Step {
		s.At = d
		return s
	}
	second := event
	second.Name = "q"
	other, another := event, second
	other.Resource, another.Stream = "secrets", 7
	lease := write("l")
	lease.Resource = "leases.coordination.k8s.io"
	quiet := history.Step{Kind: history.Time, At: time.Hour}
	start, crash := history.Step{Kind: history.Start}, history.Step{Kind: history.Crash, Fault: "crash-after actor=c"}
	watch := history.Step{Kind: history.Request, Verb: "watch", Object: history.Object{Resource: "configmaps"}, Code: 200}
	for _, c := range []struct {
		name  string
		lag   fault.Fault
		event int // its step
		steps []history.Step
		idle  bool
	}{
		{"a write because of it", fault.Fault{}, 1, []history.Step{event, because(write("a"), 1), quiet, write("b")}, true},
		{"another write", fault.Fault{}, 1, []history.Step{event, write("a"), quiet, write("b")}, false},
		{"an event behind it", fault.Fault{}, 1, []history.Step{event, second, because(write("a"), 2), quiet, write("b")}, true},
		{"an event after a write because of it", fault.Fault{}, 1, []history.Step{event, because(write("a"), 1), second, quiet, write("b")}, false},
		{"an event of a second watch of the resource", fault.Fault{}, 1, []history.Step{event, another, because(write("a"), 1), quiet, write("b")}, false},
		{"an event of another resource", fault.Fault{}, 1, []history.Step{event, other, because(write("a"), 1), quiet, write("b")}, false},
		{"a watch", fault.Fault{}, 1, []history.Step{event, watch, because(write("a"), 1), quiet, write("b")}, true},
		{"a crash because of it", fault.Fault{}, 1, []history.Step{event, because(write("a"), 1), because(crash, 1), start, because(write("b"), 4), quiet, write("b")}, true},
		{"another crash", fault.Fault{}, 1, []history.Step{event, because(write("a"), 1), crash, start, because(write("b"), 4), quiet, write("b")}, false},
		{"it has waited", fault.Fault{}, 3, []history.Step{write("p"), quiet, because(event, 1), write("a")}, true},
		{"it waited, but not since its watch", fault.Fault{}, 4, []history.Step{write("p"), quiet, watch, because(event, 1), write("a")}, false},
		{"it came at once", fault.Fault{}, 2, []history.Step{write("p"), because(event, 1), write("a")}, false},
		{"it has waited for one write", fault.Fault{Writes: 1}, 3, []history.Step{write("p"), write("a"), because(event, 1), write("b")}, true},
		{"it has waited for a Lease", fault.Fault{Writes: 1}, 3, []history.Step{write("p"), lease, because(event, 1), write("b")}, false},
		{"its write is not in the record", fault.Fault{Writes: 1}, 3, []history.Step{write("p"), write("a"), event, write("b")}, false},
		{"but not for two", fault.Fault{Writes: 2}, 3, []history.Step{write("p"), write("a"), because(event, 1), write("b")}, false},
		{"it has waited for 40 s", fault.Fault{For: 40 * time.Second}, 2, []history.Step{write("p"), at(40*time.Second, because(event, 1)), at(time.Minute, write("a"))}, true},
		{"but not longer", fault.Fault{For: 6 * time.Minute}, 2, []history.Step{write("p"), at(40*time.Second, because(event, 1)), at(time.Minute, write("a"))}, false},
	} {
		for _, replica := range []bool{false, true} {
			run := runOf(c.steps...)
			for n := range run.Steps {
				if replica {
					run.Steps[n].Actor = "c/0"
				}
			}
			want := c.idle && (!replica || c.name != "an event behind it") // another replica may take over
			found := findCandidates(run, fault.Any(fault.Legal), Virtual, nil)
			n := slices.IndexFunc(found, func(f ranked) bool {
				return f.Kind == fault.KindLag && f.step == c.event && f.For == c.lag.For && f.Writes == c.lag.Writes
			})
			if n < 0 {
				t.Errorf("%s: not among the candidates", c.name)
			} else if f := found[n]; f.idle != want {
				t.Errorf("%s: replica: %v, idle: %v", c.name, replica, f.idle)
			}
		}
	}
}

// TestDoubtfulFaults: single faults with a high cost have fewer turns once more than a third of their runs have shown nothing new.
func TestDoubtfulFaults(t *testing.T) {
	for _, c := range []struct{ runs, new, cost, turns int }{
		{0, 0, unpromising, unpromisingTurns},
		{minDoubtful - 1, 0, unpromising, unpromisingTurns},
		{9, 6, unpromising, unpromisingTurns},
		{9, 5, doubtful, fewTurns},
	} {
		g := newGuide(nil, 0)
		for n := range c.runs {
			f := fault.Fault{Kind: fault.KindPause, Actor: "c", Nth: n + 1}
			s := &single{Fault: f, doubtful: true}
			g.at[placeOf(f)] = []*single{s}
			g.ran(f, history.Hash(n), n < c.new)
		}
		if cost, turns := g.unpromising(), g.unpromisingTurns(); cost != c.cost || turns != c.turns {
			t.Errorf("%d of %d runs showed something new: few turns from cost %d on, one in %d; want %d, %d", c.new, c.runs, cost, turns, c.cost, c.turns)
		}
	}
}

// TestDoubtfulPlans: a plan with a single fault counts as doubtful because of its cost.
func TestDoubtfulPlans(t *testing.T) {
	for cost, want := range map[int]bool{doubtful - 1: false, doubtful: true} {
		s := begun()
		f := &single{Fault: fault.Fault{Kind: fault.KindPause, Actor: "c", Nth: 1}, cost: cost}
		s.guide.singles = []*single{f}
		if p := s.draw(); len(p.Faults) != 1 || p.Faults[0] != f.Fault || f.doubtful != want {
			t.Errorf("cost %d: plan %v, doubtful: %v", cost, p.Faults, f.doubtful)
		}
	}
}

// TestStaleListOfNothing: a list after the end of a watch cannot be answered from an older state if its actor has received all writes: the fault
// comes later than for one of a new instance or of a second informer, or of an actor that has not received the last write.
func TestStaleListOfNothing(t *testing.T) {
	list := history.Step{Kind: history.Request, Actor: "c", Verb: "list", Object: history.Object{Resource: "configmaps"}, Code: 200, Older: true, Revision: 8}
	received := func(revision int64) history.Step {
		return history.Step{Kind: history.Frame, Actor: "c", Type: "MODIFIED", Revision: revision, Object: history.Object{Resource: "configmaps", Namespace: "default", Name: "a"}}
	}
	written := write("a")
	written.Revision = 7
	unread := write("b")
	unread.Revision = 8
	again := history.Step{Kind: history.Start, Actor: "c"}
	end := history.Step{Kind: history.Cut, Actor: "c", Object: history.Object{Resource: "configmaps"}}
	for name, c := range map[string]struct {
		steps []history.Step
		idle  bool
	}{
		"everything received":         {[]history.Step{written, received(7), end, list}, true},
		"the last write not received": {[]history.Step{written, received(7), end, unread, list}, false},
		"a new instance":              {[]history.Step{written, received(7), end, again, list}, false},
		"a second informer":           {[]history.Step{written, received(7), list}, false},
		"and after another list":      {[]history.Step{written, received(7), end, list, list}, true},
	} {
		idle := []bool{}
		for _, f := range findCandidates(runOf(c.steps...), fault.Any(fault.Legal), Virtual, nil) {
			if f.Kind == fault.KindStaleList && f.Writes == 1 {
				idle = append(idle, f.idle)
			}
		}
		if len(idle) == 0 || idle[0] != c.idle || len(idle) > 1 && idle[1] {
			t.Errorf("%s: idle: %v", name, idle)
		}
	}
}
