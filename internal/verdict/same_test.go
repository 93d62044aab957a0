package verdict

import (
	"testing"

	"github.com/rehearse-k8s/rehearse/history"
)

// TestFailureKey: two failures are the same if they violate the same invariant for the same object and with the
// same kind of difference.
func TestFailureKey(t *testing.T) {
	run := func(oracle, message string, steps ...history.Step) *history.Run {
		r := &history.Run{Failure: &history.Failure{Oracle: oracle, Message: message}}
		for _, s := range steps {
			r.Add(s)
		}
		return r
	}
	created := func(name string) history.Step {
		return history.Step{Kind: history.Request, Actor: "a", Verb: "create", Object: history.Object{Resource: "pods", Namespace: "default", Name: name}, Code: 201, Revision: 3}
	}
	wrote := func(actor, name string) history.Step {
		return history.Step{Kind: history.Request, Actor: actor, Verb: "patch", Object: history.Object{Resource: "jobs.batch", Namespace: "default", Name: name}, Code: 200, Revision: 9, Before: 8}
	}
	for name, c := range map[string]struct {
		a, b *history.Run
		same bool
	}{
		"another invariant":     {run("x", "it is 3"), run("y", "it is 3"), false},
		"another number":        {run("x", "there are 2 after 3.5s"), run("x", "there are 17 after 1m2s"), true},
		"another object":        {run("x", "pods default/web-0 is gone"), run("x", "pods default/web-1 is gone"), false},
		"another namespace":     {run("x", "pods a/web is gone"), run("x", "pods b/web is gone"), false},
		"another value":         {run(BaselineOracle, `configmaps default/c: data.n is "2"; without faults "1"`), run(BaselineOracle, `configmaps default/c: data.n is "7"; without faults "1"`), true},
		"another path":          {run(BaselineOracle, `configmaps default/c: data.n is "2"; without faults "1"`), run(BaselineOracle, `configmaps default/c: data.m is "2"; without faults "1"`), false},
		"another difference":    {run(BaselineOracle, `configmaps default/c: data.n is "2"; without faults "1"`), run(BaselineOracle, `configmaps default/c: data.n is "2"; without faults it is not set`), false},
		"a quoted object":       {run("x", `a sent 50 requests "get pods default/a" within 10s`), run("x", `a sent 60 requests "get pods default/b" within 10s`), false},
		"generated names":       {run("x", "there are 2: default/web-x7k2p, default/web-qqvbz"), run("x", "there are 3: default/web-44ffg, default/web-aaaaa, default/web-b2b2b", created("web-aaaaa")), true},
		"template hashes":       {run("x", "pods default/web-6d4cf56db6-x7k2p is there"), run("x", "pods default/web-7f9b8c6d54-qqvbz is there"), true},
		"hashes without digits": {run("x", "pods default/one-nclkbnnklz is there"), run("x", "pods default/one-9mflnpzgfr is there"), true},
		"hashes of owners":      {run("x", "pods default/web-0-8a7e0c51 is there"), run("x", "pods default/web-0-11111111 is there"), true},
		"words are not hashes":  {run("x", "pods default/web-frontend"), run("x", "pods default/web-database"), false},
		"UIDs":                  {run("x", "owned by 7c9e6679-7425-40de-944b-e07fc1f90ae7"), run("x", "owned by 550e8400-e29b-41d4-a716-446655440000"), true},
		"steps":                 {run("x", "step 12: a decided at step 9, on pods at revision 4"), run("x", "step 30: a decided at step 21, on pods at revision 14"), true},
		"writes without end":    {run(QuiescenceOracle, "a patches jobs default/x", wrote("a", "x")), run(QuiescenceOracle, "a patches jobs default/y", wrote("a", "y")), true},
		"writes of another one": {run(QuiescenceOracle, "a patches jobs default/x", wrote("a", "x")), run(QuiescenceOracle, "b patches jobs default/x", wrote("b", "x")), false},
		"stacks":                {run("x", "panic: at 0xc000123\ngoroutine 7 [running]"), run("x", "panic: at 0xc000456\ngoroutine 9 [running]"), true},
		"a run that passed":     {run("x", "y"), &history.Run{}, false},
	} {
		if got := SameFailure(c.a, c.b); got != c.same {
			t.Errorf("%s: same %v\n%s\n%s", name, got, FailureKey(c.a), FailureKey(c.b))
		}
	}
	if SameFailure(&history.Run{}, &history.Run{}) {
		t.Error("two runs that passed have the same failure")
	}
}
