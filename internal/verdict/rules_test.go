package verdict

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/invariant"
)

// violated returns a check that fails for the invariants with these names.
func violated(names ...string) func(invariant.Invariant) error {
	return func(i invariant.Invariant) error {
		if slices.Contains(names, i.Name) {
			return errors.New("seen")
		}
		return nil
	}
}

// TestUnmet: each rule is reported with the time within which it must hold, and the state is
// compared with the baseline only if every other rule holds.
func TestUnmet(t *testing.T) {
	ready := Eventually{invariant.Invariant{Name: "ready"}, 20 * time.Minute}
	deleted, orphans := invariant.Deleted().Name, invariant.NoOrphans().Name
	differs := func() error { return errors.New("replicas is 2") }
	for name, c := range map[string]struct {
		final    Final
		violated []string
		want     string // oracle @ time
		exempt   string
	}{
		"all hold":                           {Final{Timeout: time.Minute}, nil, "", ""},
		"an eventually":                      {Final{Timeout: time.Minute, Eventually: []Eventually{ready}}, []string{"ready"}, "ready, within 20m0s @20m0s", ""},
		"a rule of every run":                {Final{Timeout: time.Minute}, []string{deleted}, deleted + " @1m0s", ""},
		"within the longest eventually":      {Final{Timeout: time.Minute, Eventually: []Eventually{ready}}, []string{deleted}, deleted + " @20m0s", ""},
		"orphans":                            {Final{Timeout: time.Minute}, []string{orphans}, orphans + " @1m0s", ""},
		"orphans without faults":             {Final{Learn: true}, []string{orphans}, "", orphans},
		"orphans as without faults":          {Final{Exempt: map[string]bool{orphans: true}}, []string{orphans}, "", ""},
		"another state":                      {Final{Timeout: time.Minute, Baseline: differs}, nil, BaselineOracle + " @1m0s", ""},
		"another state and an unmet rule":    {Final{Timeout: time.Minute, Baseline: differs}, []string{deleted}, deleted + " @1m0s", ""},
		"disabled rules":                     {Final{Timeout: time.Minute, Baseline: differs, Policy: Policy{Disabled: invariant.AutomaticNames()}}, []string{deleted, orphans}, "", ""},
		"a successor's delete":               {Final{Timeout: time.Minute, Baseline: differs}, []string{invariant.NoSuccessorDeleted().Name}, invariant.NoSuccessorDeleted().Name + " @1m0s", ""},
		"only one is disabled":               {Final{Timeout: time.Minute, Policy: Policy{Disabled: []string{invariant.AutomaticNoOrphans}}}, []string{deleted, orphans}, deleted + " @1m0s", ""},
		"a rule that only others can exempt": {Final{Timeout: time.Minute, Exempt: map[string]bool{deleted: true}}, []string{deleted}, deleted + " @1m0s", ""},
	} {
		unmet, exempt := c.final.Unmet(violated(c.violated...))
		var got []string
		for _, u := range unmet {
			got = append(got, fmt.Sprintf("%s @%s", u.Oracle, u.Within))
		}
		if text := strings.Join(got, "; "); text != c.want || strings.Join(exempt, ";") != c.exempt {
			t.Errorf("%s: %q, exempt %q", name, text, exempt)
		}
	}
}

// TestFirstViolated: the first of several violated invariants is the failure.
func TestFirstViolated(t *testing.T) {
	all := []invariant.Invariant{{Name: "a"}, {Name: "b"}, {Name: "c"}}
	if f := FirstViolated(all, violated("b", "c"), 7, time.Second); f == nil || *f != (history.Failure{Oracle: "b", Message: "seen", Step: 7, At: time.Second}) {
		t.Errorf("got %+v", f)
	}
	if f := FirstViolated(all, violated(), -1, 0); f != nil {
		t.Errorf("got %+v", f)
	}
	empty := viewOf{run: &history.Run{}}
	hotLoop := func(i invariant.Invariant, _ invariant.View) error { return violated(invariant.DefaultHotLoop.Name)(i) }
	if f := WholeRecord(Policy{}, empty, hotLoop, 0); f == nil || f.Step != 0 {
		t.Errorf("of an empty record: %+v", f)
	}
	if f := WholeRecord(Policy{Disabled: []string{invariant.AutomaticHotLoop}}, empty, hotLoop, 0); f != nil {
		t.Errorf("disabled: %+v", f)
	}
}

// TestDecide: a run is over when it is quiet, no fault delays anything and no rule is violated. It fails
// after a timeout, which is extended by the time during which faults delayed something.
func TestDecide(t *testing.T) {
	const s = time.Second
	within := func(d time.Duration) []Unmet { return []Unmet{{Oracle: "rule", Message: "seen", Within: d}} }
	rules := Quiescence{Quiet: 10 * s, Timeout: 100 * s}
	first := Quiescence{Quiet: 10 * s, Timeout: 100 * s, QuietFirst: true}
	optional := Quiescence{Quiet: 10 * s, Timeout: 100 * s, QuietFirst: true, Optional: true}
	for name, c := range map[string]struct {
		rules Quiescence
		at    Moment
		unmet []Unmet
		want  string
	}{
		"quiet":                          {rules, Moment{Now: 50 * s, Ended: 30 * s, LastWrite: 40 * s}, nil, "over"},
		"not quiet yet":                  {rules, Moment{Now: 49 * s, Ended: 30 * s, LastWrite: 40 * s}, nil, "wait 1s"},
		"a fault holds something back":   {rules, Moment{Now: 50 * s, Ended: 50 * s, LastWrite: 40 * s, Holding: true}, nil, "wait 1h0m0s"},
		"unmet":                          {rules, Moment{Now: 50 * s, Ended: 30 * s, LastWrite: 40 * s}, within(60 * s), "wait 40s"},
		"unmet for too long":             {rules, Moment{Now: 90 * s, Ended: 30 * s, LastWrite: 40 * s}, within(60 * s), "rule: seen"},
		"longer by what faults held":     {rules, Moment{Now: 90 * s, Ended: 30 * s, LastWrite: 40 * s, Held: 7 * s}, within(60 * s), "wait 7s"},
		"the shorter of two waits":       {rules, Moment{Now: 45 * s, Ended: 30 * s, LastWrite: 40 * s}, within(60 * s), "wait 5s"},
		"unmet while it still writes":    {rules, Moment{Now: 90 * s, Ended: 30 * s, LastWrite: 89 * s}, within(60 * s), "rule: seen"},
		"writes first, then the rules":   {first, Moment{Now: 90 * s, Ended: 30 * s, LastWrite: 89 * s}, within(60 * s), "wait 9s"},
		"quiet, then the rules":          {first, Moment{Now: 99 * s, Ended: 30 * s, LastWrite: 89 * s}, within(60 * s), "rule: seen"},
		"a fault after the end":          {rules, Moment{Now: 90 * s, Ended: 30 * s, LastWrite: 40 * s, LastFault: 50 * s}, within(60 * s), "wait 40s"},
		"a fault after the end, longer":  {rules, Moment{Now: 90 * s, Ended: 30 * s, LastWrite: 40 * s, LastFault: 50 * s, Held: 7 * s}, within(60 * s), "wait 47s"},
		"a fault before the end":         {rules, Moment{Now: 90 * s, Ended: 30 * s, LastWrite: 40 * s, LastFault: 20 * s}, within(60 * s), "rule: seen"},
		"it goes on writing":             {rules, Moment{Now: 130 * s, Ended: 30 * s, LastWrite: 129 * s}, nil, QuiescenceOracle + ": an actor still writes 1m40s after the last step of the scenario: job"},
		"a heartbeat after a pause":      {first, Moment{Now: 130 * s, Ended: 30 * s, LastWrite: 129 * s, BusySince: 129 * s}, within(200 * s), "wait 9s"},
		"writes again after a pause":     {first, Moment{Now: 230 * s, Ended: 30 * s, LastWrite: 229 * s, BusySince: 130 * s}, nil, QuiescenceOracle + ": an actor still writes 3m20s after the last step of the scenario: job"},
		"it may go on writing":           {optional, Moment{Now: 130 * s, Ended: 30 * s, LastWrite: 129 * s}, nil, "over"},
		"it may, and a rule is violated": {optional, Moment{Now: 130 * s, Ended: 30 * s, LastWrite: 129 * s}, within(60 * s), "rule: seen"},
		"it may go on, but not over yet": {optional, Moment{Now: 99 * s, Ended: 30 * s, LastWrite: 98 * s}, nil, "wait 9s"},
		"writes longer, faults held":     {rules, Moment{Now: 130 * s, Ended: 30 * s, LastWrite: 129 * s, Held: s}, nil, "wait 9s"},
		"it goes on writing, rules last": {first, Moment{Now: 130 * s, Ended: 30 * s, LastWrite: 129 * s}, within(0), QuiescenceOracle + ": an actor still writes 1m40s after the last step of the scenario: job"},
	} {
		d := c.rules.Decide(c.at, func() []Unmet { return c.unmet }, func() string { return "job" })
		got := "wait " + d.Wait.String()
		switch {
		case d.Over:
			got = "over"
		case d.Failure != nil:
			got = d.Failure.Oracle + ": " + d.Failure.Message
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// TestWrites: a pause of the quiet time ends a period of writes.
func TestWrites(t *testing.T) {
	var w Writes
	for _, c := range []struct{ at, busySince time.Duration }{{3, 0}, {8, 0}, {18, 18}, {27, 18}, {40, 40}} {
		if w.Add(c.at, 10); w.BusySince != c.busySince || w.Last != c.at {
			t.Errorf("after a write at %d: %+v, want busy since %d", c.at, w, c.busySince)
		}
	}
}

// TestFindLivelock: many steps are a livelock of the controllers, unless the test itself continues.
func TestFindLivelock(t *testing.T) {
	run := func(n int) *history.Run {
		steps := make([]history.Step, n)
		for i := range steps {
			steps[i] = history.Step{Kind: history.Request, Actor: []string{"job", "job", "pod"}[i%3]}
		}
		return &history.Run{Steps: steps}
	}
	for name, c := range map[string]struct {
		steps, lastPause int
		waiting          bool
		want             string
	}{
		"short":                   {maxStepsAtOnce, 0, true, ""},
		"at once":                 {maxStepsAtOnce + 1, 0, false, "2001 steps without a pause, until 1s; job sent 1334 requests"},
		"a pause":                 {maxStepsAtOnce + 1, 5, false, ""},
		"no end":                  {maxSteps + 1, maxSteps, true, "not quiescent after 20001 steps in 1s; job sent 13334 requests"},
		"the test does not end":   {maxSteps + 1, maxSteps, false, "test: the test function has not returned after 20001 steps, at 1s: it loops, or waits for something that no actor does"},
		"as long as it may go on": {maxSteps, maxSteps, false, ""},
	} {
		got := ""
		if l := FindLivelock(run(c.steps), c.lastPause, time.Second, c.waiting); l != nil {
			if got = l.Message; l.Test {
				got = "test: " + got
			} else if l.Oracle != QuiescenceOracle {
				t.Errorf("%s: %s", name, l.Oracle)
			}
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestCompareAfter: only deletes and evictions may legitimately change the final state, and the status of an object that is created again with what
// the user had changed: a Job that was suspended at first, for example, has the condition Suspended, and the new one need not have it.
func TestCompareAfter(t *testing.T) {
	state := func(suspended, succeeded string) State {
		return NewState([]Object{{Resource: "jobs.batch", Content: map[string]any{
			"metadata": map[string]any{"name": "words", "namespace": "default"}, "spec": map[string]any{"suspend": suspended},
			"status": map[string]any{"succeeded": succeeded},
		}}})
	}
	b := NewBaseline([]State{state("false", "3"), state("false", "3")})
	for kind, want := range map[fault.Kind]bool{fault.KindLag: true, fault.KindCrashAfter: true, fault.KindLabel: true, fault.KindRecreate: true, fault.KindDelete: false, fault.KindEvict: false} {
		if compare := b.CompareAfter([]fault.Fault{{Kind: fault.KindLag}, {Kind: kind}}); (compare != nil) != want {
			t.Errorf("%s: compared: %t", kind, compare != nil)
		}
	}
	patch := &history.Step{Kind: history.Request, Actor: history.User, Verb: "patch", Code: 200, Object: history.Object{Resource: "jobs.batch", Namespace: "default", Name: "words"}, Revision: 7}
	id, ok := EditedID(patch)
	recreate := []fault.Fault{{Kind: fault.KindRecreate, Target: "jobs.batch/default/words"}}
	if b.CompareAfter(recreate)(state("false", "2")) == nil {
		t.Error("the status of an object that the user did not change is not compared")
	}
	b.MaskEdited(map[string]bool{id: ok})
	if err := b.CompareAfter(recreate)(state("false", "2")); err != nil {
		t.Error(err)
	}
	if b.CompareAfter(recreate)(state("true", "3")) == nil {
		t.Error("the spec of the new object is not compared")
	}
	if b.CompareAfter([]fault.Fault{{Kind: fault.KindRecreate, Target: "jobs.batch/default/pi"}})(state("false", "2")) == nil {
		t.Error("the new object is another one")
	}
	for _, verb := range []string{"create", "delete"} {
		s := *patch
		s.Verb = verb
		if _, ok := EditedID(&s); ok {
			t.Errorf("%s changes no object", verb)
		}
	}
}

// TestHistoryOfRecreated: an object that the user has changed and that a fault creates again has no earlier content, so its controller keeps no history of
// that content. Everything else that belongs to it is compared.
func TestHistoryOfRecreated(t *testing.T) {
	owned := func(resource, kind, name string, more map[string]any) Object {
		content := map[string]any{"metadata": map[string]any{"name": name, "namespace": "default", "annotations": more["annotations"], "ownerReferences": []any{
			map[string]any{"kind": kind, "name": "db", "controller": true, "uid": "u"},
		}}}
		if r, ok := more["replicas"]; ok {
			content["spec"] = map[string]any{"replicas": r}
		}
		return Object{Resource: resource, Content: content}
	}
	revision := func(n string) map[string]any {
		return map[string]any{"annotations": map[string]any{"deployment.kubernetes.io/revision": n}, "replicas": "2"}
	}
	old := map[string]any{"replicas": "0"}
	pod, set := owned("pods", "StatefulSet", "db-0", nil), owned("controllerrevisions.apps", "StatefulSet", "db-1", nil)
	for name, c := range map[string]struct {
		target    string
		want, got []Object
		same      bool
	}{
		"revisions of a StatefulSet":    {"statefulsets.apps/default/db", []Object{pod, set, set}, []Object{pod, set}, true},
		"its pods":                      {"statefulsets.apps/default/db", []Object{pod, pod, set, set}, []Object{pod, set}, false},
		"revisions of another object":   {"statefulsets.apps/default/pi", []Object{pod, set, set}, []Object{pod, set}, false},
		"revisions of another kind":     {"daemonsets.apps/default/db", []Object{pod, set, set}, []Object{pod, set}, false},
		"old ReplicaSets, and revision": {"deployments.apps/default/db", []Object{owned("replicasets.apps", "Deployment", "a", revision("2")), owned("replicasets.apps", "Deployment", "b", old)}, []Object{owned("replicasets.apps", "Deployment", "a", revision("1"))}, true},
		"the present ReplicaSet":        {"deployments.apps/default/db", []Object{owned("replicasets.apps", "Deployment", "a", revision("2"))}, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := NewBaseline([]State{NewState(c.want), NewState(c.want)})
			target := fault.Fault{Kind: fault.KindRecreate, Target: c.target}
			o, _ := target.TargetObject()
			if err := b.CompareAfter([]fault.Fault{target})(NewState(c.got)); err == nil {
				t.Error("without a change by the user, everything is compared")
			}
			b.MaskEdited(map[string]bool{idOf(o.Resource, o.Namespace, o.Name): true})
			if err := b.CompareAfter([]fault.Fault{target})(NewState(c.got)); (err == nil) != c.same {
				t.Errorf("%v, want the same state: %v", err, c.same)
			}
		})
	}
}

// staleRun records a controller whose cache lags: it creates a pod, and creates another one before it
// observes the first.
func staleRun(live, guarded bool, first, second string) *history.Run {
	run := &history.Run{Header: history.Header{Live: live}}
	object := func(name string) history.Object {
		return history.Object{Resource: "pods", Namespace: "default", Name: name}
	}
	run.Add(history.Step{Kind: history.Start, Actor: "job"})
	run.Add(history.Step{Kind: history.Request, Actor: "job", Verb: "list", Object: history.Object{Resource: "pods"}, Code: 200, Revision: 1, Causes: []int{0}})
	run.Add(history.Step{Kind: history.Request, Actor: "job", Verb: "watch", Object: history.Object{Resource: "pods"}, Code: 200, Stream: 1, Causes: []int{1}})
	run.Add(history.Step{Kind: history.Time, At: time.Minute})
	run.Add(history.Step{Kind: history.Request, Actor: "job", Verb: "create", Object: object(first), Code: 201, Revision: 2, Truth: 2, At: time.Minute, Causes: []int{3}})
	run.Add(history.Step{Kind: history.Time, At: 2 * time.Minute})
	run.Add(history.Step{Kind: history.Request, Actor: "job", Verb: "create", Object: object(second), Code: 201, Revision: 3, Truth: 3, At: 2 * time.Minute, Guarded: guarded, Causes: []int{5}})
	run.Add(history.Step{Kind: history.Frame, Actor: "job", Object: object(first), Type: "ADDED", Stream: 1, Revision: 2, At: 3 * time.Minute, Causes: []int{4}})
	return run
}

// TestStaleOwnWrites: a write on a stale view fails a run in virtual time if the policy requires that, no
// precondition prevented its effect, and it has the same owner. Every other one is only reported.
func TestStaleOwnWrites(t *testing.T) {
	for name, c := range map[string]struct {
		run     *history.Run
		fails   bool
		reports int
	}{
		"same generateName":   {staleRun(false, false, "pi-abcde", "pi-fghij"), true, 0},
		"another owner":       {staleRun(false, false, "pi-abcde", "rho-fghij"), false, 1},
		"the API can reject":  {staleRun(false, true, "pi-abcde", "pi-fghij"), false, 1},
		"inferred, live run":  {staleRun(true, false, "pi-abcde", "pi-fghij"), false, 1},
		"nothing was written": {&history.Run{}, false, 0},
	} {
		if f, reports := StaleOwnWrites(Policy{}, c.run); f != nil || c.fails && len(reports) == 0 {
			t.Errorf("%s: without RequireObservedWrites: failure %+v, reports %q", name, f, reports)
		}
		f, reports := StaleOwnWrites(Policy{RequireObservedWrites: true}, c.run)
		if (f != nil) != c.fails || len(reports) != c.reports {
			t.Errorf("%s: failure %+v, reports %q", name, f, reports)
		}
		if f != nil && (f.Oracle != StaleOracle || f.Step != 6 || f.At != 2*time.Minute) {
			t.Errorf("%s: %+v", name, f)
		}
	}
}

// TestSameSubjectNewOwner: an owner that was deleted and created again counts as another owner.
func TestSameSubjectNewOwner(t *testing.T) {
	run := staleRun(false, false, "pi-abcde", "pi-fghij")
	write, own := run.Steps[6], run.Steps[4]
	if !sameSubject(run, &write, &own) {
		t.Error("two pods of one owner")
	}
	run.Steps[5] = history.Step{N: 5, Kind: history.Request, Verb: "create", Object: history.Object{Resource: "jobs.batch", Namespace: "default", Name: "pi"}, Code: 201, Revision: 9}
	if sameSubject(run, &write, &own) {
		t.Error("the owner was created between the two writes")
	}
}

// TestCauses: the causes of a step are followed to the first step, and cycles end.
func TestCauses(t *testing.T) {
	run := &history.Run{Steps: []history.Step{{}, {Causes: []int{0}}, {}, {Causes: []int{1, 4}}, {Causes: []int{3, 99, -1}}}}
	for step, want := range map[int]string{0: "0", 1: "0 1", 2: "2", 3: "0 1 3 4", 4: "0 1 3 4", 5: "", -1: ""} {
		var got []string
		causes := Causes(run, step)
		for n := range run.Steps {
			if causes[n] {
				got = append(got, fmt.Sprint(n))
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("of %d: %s, want %s", step, got, want)
		}
	}
}
