package invariant_test

import (
	"strings"
	"testing"
	"time"

	"github.com/rehearse-k8s/rehearse/internal/viewtest"
	"github.com/rehearse-k8s/rehearse/invariant"
)

func TestCEL(t *testing.T) {
	w := viewtest.NewWorld(t, twoJobs)
	w.Clock = 90 * time.Second
	for expr, want := range map[string]string{
		`list("pods").size() == 7`:          "",
		`list("pods", "other").size() == 1`: "",
		`list("nothing").size() == 0`:       "",
		`list("pods", "default").filter(p, p.status.phase == "Running").size() <= 3`:                                                 "the expression is false",
		`get("jobs.batch", "default", "pi").status.succeeded <= 1`:                                                                   "",
		`get("jobs.batch", "default", "e") == null`:                                                                                  "",
		`get("jobs.batch", "default", "pi").status.conditions.exists(c, c.type == "Complete")`:                                       "",
		`get("jobs.batch", "default", "pi").spec.parallelism > 0`:                                                                    "cannot be evaluated: no such key: spec",
		`get("jobs.batch", "default", "pi").?spec.parallelism.orValue(1) == 1`:                                                       "",
		`has(get("jobs.batch", "default", "pi").status.failed)`:                                                                      "the expression is false",
		`get("jobs.batch", "default", "pi").status.succeeded`:                                                                        ", not true or false",
		`now == timestamp("2000-01-01T00:01:30Z") && elapsed > duration("1m")`:                                                       "",
		`steps.filter(s, s.actor == "user" && s.verb == "create" && s.resource == "pods").size() == 7`:                               "",
		`steps.all(s, s.wrote && s.code == 201 && s.at == 0.0 && s.kind == "request")`:                                               "",
		`steps.exists(s, s.fault != "")`:                                                                                             "the expression is false",
		`list("pods").all(a, list("pods").all(b, list("pods").all(c, steps.all(s, steps.all(r, r == r)))))`:                          "",
		`[1, 2, 3].sum() == 6 && [].sum() == 0 && [0.5, 1.0].sum() == 1.5`:                                                           "",
		`list("jobs.batch", "default").map(j, j.?status.succeeded.orValue(0)).sum() >= 1`:                                            "",
		`list("pods").map(p, p.status.phase == "Running" ? 1 : 0).sum() == sum(list("pods").map(p, p.status.phase == "Running", 1))`: "",
		`list("pods").map(p, 0.5).sum() == 3.5 && dyn([1, 2]).sum() == 3 && [[1, 2], [3]].map(l, l.sum()).sum() == 6`:                "",
		`[dyn(1), dyn(0.5)].sum() == 1.5 && [dyn(0.5), dyn(1)].sum() == 1.5 && [0, 0].sum() == 0`:                                    "",
		`sum([1u, 2u]) == 3u && [duration("1s"), duration("2s")].sum() == duration("3s")`:                                            "",
		`["a"].sum() == 1`:                                 "cannot be evaluated: sum() of a string, which is not a number",
		`[dyn(1), dyn("a")].sum() == 1`:                    "cannot be evaluated: sum() of a string, which is not a number",
		`[dyn(1), dyn(duration("1s"))].sum() == 1`:         "cannot be evaluated: sum() of numbers and other values",
		`[dyn(duration("1s")), dyn(1)].sum() == 1`:         "cannot be evaluated: sum() of numbers and other values",
		`[1,2,3,4,5,6,7,8,9,10].all(a, ` + nested(6) + `)`: "costs more than",
		`list("pods").map(p, p.metadata.name).exists(n, n.split("-").size() > 0 && n.lowerAscii() == "free")`: "",
	} {
		i, err := invariant.CEL("a condition", expr)
		if err != nil {
			t.Error(err)
			continue
		}
		viewtest.Check(t, i, w, want)
	}
}

// nested returns a condition that takes at least 10^n steps.
func nested(n int) string {
	expr := "true"
	for range n {
		expr = "[1,2,3,4,5,6,7,8,9,10].all(b, [1,2].size() == 2 && " + expr + ")"
	}
	return expr
}

func TestCELThatDoesNotCompile(t *testing.T) {
	for expr, want := range map[string]string{
		``:                          `invariant "bad": column `,
		`pods.size() == 1`:          `invariant "bad": column 1: undeclared reference to 'pods'`,
		`1 == 1 && podz`:            `invariant "bad": column 11: undeclared reference to 'podz'`,
		"true &&\n podz":            `invariant "bad": line 2, column 2: undeclared reference to 'podz'`,
		`list("pods").size()`:       `invariant "bad": column 1: the expression gives int, not true or false`,
		`list(3) == []`:             `invariant "bad": column 5: found no matching overload for 'list'`,
		`get("pods") == null`:       `invariant "bad": column 4: found no matching overload for 'get'`,
		`@view == 1`:                `invariant "bad": column 1: Syntax error`,
		`list("pods").all(p, p.x =`: `invariant "bad": column 2`,
	} {
		_, err := invariant.CEL("bad", expr)
		if err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: error %v, want %q", expr, err, want)
		}
	}
	defer func() {
		if p := recover(); p == nil {
			t.Error("MustCEL accepted an expression that does not compile")
		}
	}()
	invariant.MustCEL("bad", "podz")
}

// TestOneExpressionInTwoWorlds checks that several runs may use one compiled expression.
func TestOneExpressionInTwoWorlds(t *testing.T) {
	i := invariant.MustCEL("there are pods", `list("pods").size() > 0`)
	full, empty := viewtest.NewWorld(t, twoJobs), viewtest.NewWorld(t, "")
	for range 4 {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			for range 100 {
				viewtest.Check(t, i, full, "")
				viewtest.Check(t, i, empty, "the expression is false")
			}
		})
	}
}

// FuzzCEL checks that no expression causes a panic, whether it compiles or not.
func FuzzCEL(f *testing.F) {
	for _, expr := range []string{`list("pods").size() > 1`, `get("pods","a","b").x`, `steps[0].at`, `now`, `list(`, `list(list("pods"))`} {
		f.Add(expr)
	}
	w := viewtest.NewWorld(f, twoJobs)
	f.Fuzz(func(_ *testing.T, expr string) {
		if i, err := invariant.CEL("fuzz", expr); err == nil {
			_ = i.Check(w)
		}
	})
}

func BenchmarkCEL(b *testing.B) {
	i := invariant.MustCEL("few pods", `list("pods", "default").filter(p, p.?status.phase.orValue("") == "Running").size() <= 9`)
	w := viewtest.NewWorld(b, twoJobs)
	for b.Loop() {
		if err := i.Check(w); err != nil {
			b.Fatal(err)
		}
	}
}
