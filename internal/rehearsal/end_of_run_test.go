//go:build unix

package rehearsal

import (
	"errors"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/sim"
	"github.com/rehearse-k8s/rehearse/internal/verdict"
)

// TestWaitStep: a wait whose condition does not hold in time fails the run with the condition's reason.
func TestWaitStep(t *testing.T) {
	inRun(t, copyScenario, func(r *testRun) {
		wait := &r.harness.o.Scenario.Steps[1] // secrets default/copy-a exists, within 10s
		if err := r.step(wait); !errors.Is(err, errRunOver) {
			t.Errorf("%v", err)
		}
		f := r.monitor.failure
		if f == nil || f.Oracle != "secrets default/copy-a exists, within 10s" || f.Message == "" || f.At < wait.Within {
			t.Errorf("%+v", f)
		}
	})
	inRun(t, copyScenario, func(r *testRun) {
		time.AfterFunc(3*time.Second, func() { r.write("copier", "secrets", "copy-a") })
		if err := r.step(&r.harness.o.Scenario.Steps[1]); err != nil || r.monitor.failure != nil || r.elapsed() > 3*time.Second+2*pollInterval {
			t.Errorf("%v, %+v after %s", err, r.monitor.failure, r.elapsed())
		}
	})
}

// TestSettleStep: a settle ends when no actor has written for timeouts.settle, or after its time.
func TestSettleStep(t *testing.T) {
	for writes, want := range map[int]time.Duration{0: 300 * time.Millisecond, 5: 5*100*time.Millisecond + 300*time.Millisecond, 100: time.Second} {
		inRun(t, stepsScenario("settle: {within: 1s}"), func(r *testRun) {
			go r.monitor.follow(r.ctx)
			r.watchers.Go(func() {
				for n := 0; n < writes && r.ctx.Err() == nil; n++ {
					<-time.After(100 * time.Millisecond)
					r.write("copier", "configmaps", "a")
				}
			})
			if err := r.step(&r.harness.o.Scenario.Steps[0]); err != nil || r.monitor.failure != nil {
				t.Errorf("%v %+v", err, r.monitor.failure)
			}
			if took := r.elapsed(); took < want || took > want+4*pollInterval {
				t.Errorf("%d writes: settled after %s, want %s", writes, took, want)
			}
		})
	}
}

// TestSettleAfterStep: a settle does not end before the last step's write counts, also if the monitor has not polled since.
func TestSettleAfterStep(t *testing.T) {
	inRun(t, stepsScenario("settle: {within: 1s}"), func(r *testRun) {
		<-time.After(time.Second)
		r.write("user", "configmaps", "a")
		written := r.elapsed()
		r.catchUp()
		if err := r.step(&r.harness.o.Scenario.Steps[0]); err != nil || r.elapsed() < written+r.harness.timeouts.settle {
			t.Errorf("%v: settled %s after the write", err, r.elapsed()-written)
		}
	})
}

// TestEndOfRun: a run is over when it is quiet and what must hold at the end holds; it fails when that takes too long, or
// when an actor never stops writing.
func TestEndOfRun(t *testing.T) {
	type write struct {
		at   time.Duration
		name string
	}
	for name, c := range map[string]struct {
		writes []write
		every  time.Duration // 0: no more writes
		held   time.Duration // for how long a fault delays something
		oracle string
		says   string
		want   time.Duration
	}{
		"quiet":                           {writes: []write{{0, "copy-b"}}, want: time.Second},
		"quiet after a last write":        {writes: []write{{0, "copy-b"}, {700 * time.Millisecond, "copy-a"}}, want: 1700 * time.Millisecond},
		"what must hold comes late":       {writes: []write{{3 * time.Second, "copy-b"}}, want: 4 * time.Second},
		"what must hold never comes":      {oracle: "secrets default/copy-b exists, within 5s", says: "it does not exist", want: 5 * time.Second},
		"not while a fault delays it":     {held: 7 * time.Second, writes: []write{{8 * time.Second, "copy-b"}}, want: 9 * time.Second},
		"within the time after the fault": {held: 2980 * time.Millisecond, oracle: "secrets default/copy-b exists, within 5s", want: 10930 * time.Millisecond},
		"an actor that never stops": {writes: []write{{0, "copy-b"}}, every: 500 * time.Millisecond, oracle: verdict.QuiescenceOracle,
			says: "after the last step of the scenario: copier creates secrets default/loop", want: 30 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			inRun(t, copyScenario, func(r *testRun) {
				for _, n := range []string{"copy-a", "copy-b"} {
					r.write("user", "configmaps", n)
				}
				if c.held > 0 {
					r.afterFault(fault.Fault{For: c.held}, func() {})
				}
				for _, w := range c.writes {
					time.AfterFunc(w.at, func() { r.write("copier", "secrets", w.name) })
				}
				if c.every > 0 {
					r.write("user", "configmaps", "loop")
					r.watchers.Go(func() {
						for r.ctx.Err() == nil {
							<-time.After(c.every)
							r.write("copier", "secrets", "loop")
						}
					})
				}
				go r.monitor.follow(r.ctx)
				r.awaitEnd()
				took := r.elapsed()
				oracle, message := "", ""
				if f := r.monitor.failure; f != nil {
					oracle, message = f.Oracle, f.Message
				}
				if oracle != c.oracle || !strings.Contains(message, c.says) || took < c.want || took > c.want+20*pollInterval {
					t.Errorf("%q %q after %s, want %q %q after %s", oracle, message, took, c.oracle, c.says, c.want)
				}
			})
		})
	}
}

// TestOutcome: the outcome of a run has the contents of its writes, the first violation, and for a run without faults the
// final state and the client that did nothing.
func TestOutcome(t *testing.T) {
	for name, c := range map[string]struct {
		writes       []string
		learn        bool
		failure      string
		inconclusive string
	}{
		"passed":         {[]string{"user configmaps copy-b", "copier secrets copy-b"}, true, "", ""},
		"nothing tested": {[]string{"user configmaps copy-b", "user secrets copy-b"}, true, "", "client copier wrote nothing in a run without faults: the run tests nothing. Check that the steps of the scenario give it work"},
		"with faults":    {[]string{"user configmaps copy-b", "user secrets copy-b"}, false, "", ""},
		"violated":       {[]string{"user configmaps copy-b", "copier secrets other"}, true, "a copy is never without its original", ""},
	} {
		inRun(t, copyScenario, func(r *testRun) {
			r.plan = sim.Plan{Learn: c.learn}
			for _, w := range c.writes {
				f := strings.Fields(w)
				r.write(f[0], f[1], f[2])
			}
			out, err := r.outcome(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			if f := out.Run.Failure; f != nil {
				got = f.Oracle
				equal(t, name+": step", 1, f.Step)
			}
			equal(t, name+": failure", c.failure, got)
			equal(t, name+": inconclusive", c.inconclusive, out.Run.Inconclusive)
			equal(t, name+": final state", c.learn && c.failure == "", len(out.State) > 0)
			for n := range out.Run.Steps {
				if s := &out.Run.Steps[n]; len(s.Changes) != 1 {
					t.Errorf("%s: step %d has %d changes", name, n, len(s.Changes))
				}
			}
			if r.record.Add(history.Step{Kind: history.Time}) != -1 {
				t.Errorf("%s: a later step is recorded", name)
			}
		})
	}
}

// TestIdleClient: a client that writes nothing is idle, unless it waits to be elected in the place of a client that does.
func TestIdleClient(t *testing.T) {
	request := func(actor, verb, resource, name string, code int) history.Step {
		s := history.Step{Kind: history.Request, Actor: actor, Verb: verb, Code: code, Object: history.Object{Resource: resource, Namespace: "default", Name: name}}
		if verb != "get" && code < 300 {
			s.Revision = 2
		}
		return s
	}
	const leases = "leases.coordination.k8s.io"
	leads := request("a", "create", leases, "op", 201)
	for name, c := range map[string]struct {
		steps []history.Step
		want  string
	}{
		"both write":                      {[]history.Step{request("a", "create", "secrets", "x", 201), request("b", "update", "secrets", "x", 200)}, ""},
		"one only reads":                  {[]history.Step{request("a", "create", "secrets", "x", 201), request("b", "get", "secrets", "x", 200)}, "b"},
		"one is rejected":                 {[]history.Step{request("a", "create", "secrets", "x", 201), request("b", "create", "secrets", "x", 409)}, "b"},
		"one waits for the Lease":         {[]history.Step{leads, request("b", "get", leases, "op", 200)}, ""},
		"it was slower to create it":      {[]history.Step{request("b", "get", leases, "op", 404), leads, request("b", "create", leases, "op", 409)}, ""},
		"one waits for another Lease":     {[]history.Step{leads, request("b", "get", leases, "other", 200)}, "b"},
		"one lists Leases":                {[]history.Step{leads, request("b", "list", leases, "", 200)}, "b"},
		"both read a Lease, one writes":   {[]history.Step{request("a", "create", "secrets", "x", 201), request("a", "get", leases, "op", 200), request("b", "get", leases, "op", 200)}, "b"},
		"one waits for the user's Lease":  {[]history.Step{request("user", "create", leases, "op", 201), request("a", "create", "secrets", "x", 201), request("b", "get", leases, "op", 200)}, "b"},
		"neither leads":                   {[]history.Step{request("a", "get", leases, "op", 200), request("b", "get", leases, "op", 200)}, "a"},
		"another user writes, not client": {[]history.Step{request("user", "create", "secrets", "x", 201), request("b", "create", "secrets", "x", 201)}, "a"},
	} {
		equal(t, name, c.want, idleClient(sets.New("a", "b"), &history.Run{Steps: c.steps}))
	}
}
