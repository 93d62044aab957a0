package scenario_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/scenario"
)

var levels = []fault.Level{fault.Legal, fault.Seen, fault.Adversarial}

// TestLevels: the level bounds what is searched if nothing else is said.
func TestLevels(t *testing.T) {
	for _, level := range levels {
		s := mustParse(t, fmt.Sprintf("  faults: {level: %s}\n", level))
		if s.Level != level {
			t.Errorf("level %s, want %s", s.Level, level)
		}
		equal(t, level.String(), fault.Any(level), s.Patterns)
	}
	equal(t, "by default", fault.Any(fault.Legal), mustParse(t, "  faults: {}\n").Patterns)
}

// TestLeaderElection: overlap is tried only for clients that run without leader election, at every level.
func TestLeaderElection(t *testing.T) {
	const clients = "  clients: [{name: a, command: [a], leaderElection: none}, {name: b, command: [b], leaderElection: lease}, {name: c, command: [c]}]\n"
	s := mustParse(t, clients)
	overlap := fault.Fault{Kind: fault.KindOverlap, Actor: "a"}
	equal(t, "legal", append(fault.Any(fault.Legal), overlap), s.Patterns)
	if err := s.SetLevel(fault.Seen); err != nil {
		t.Fatal(err)
	}
	equal(t, "seen", append(fault.Any(fault.Seen), overlap), s.Patterns)
	_, err := parse(strings.Replace(clients, "lease", "leases", 1), nil)
	equal(t, "problems", []string{`spec.clients[1].leaderElection: leases: must be none or lease`}, problems(t, err))
}

// TestEveryKindOfFault: each kind of fault is accepted from its level on and rejected below it, and the error says
// which level to set.
func TestEveryKindOfFault(t *testing.T) {
	for _, kind := range fault.Kinds(fault.Adversarial) {
		for _, level := range levels {
			s, err := parse(fmt.Sprintf("  faults: {level: %s, only: [%s]}\n", level, kind), nil)
			if kind.Level() <= level {
				if err != nil {
					t.Errorf("%s: %v", kind, err)
					continue
				}
				equal(t, fmt.Sprint(kind), []fault.Fault{fault.Of(kind)}, s.Patterns)
				continue
			}
			want := fmt.Sprintf("spec.faults.only[0]: %[1]s: %[1]s is of level %[2]s and the scenario's level is %[3]s; set spec.faults.level to %[2]s", kind, kind.Level(), level)
			equal(t, fmt.Sprint(kind), []string{want}, problems(t, err))
		}
	}
}

// TestFaultPatterns: what a pattern names must exist: its kind, its client, its resource.
func TestFaultPatterns(t *testing.T) {
	const clients = "  clients: [{name: a}, {name: b, builtin: job}]\n"
	for text, want := range map[string]string{
		"lag":                               "",
		"lag actor=a resource=pods":         "",
		"lag actor=a/0 resource=jobs.batch": "",
		"lag actor=b+":                      "",
		"crash-after actor=b verb=create resource=pods":        "",
		"error resource=pods/status verb=update":               "",
		"lag resource=webs.example.com object=default/a nth=2": "",
		"lag actor=c":                  "lag actor=c: no client is named c; there is a or b",
		"lag actor=user":               "lag actor=user: no client is named user; there is a or b",
		"lag resource=pod":             `pod: no such resource; write "pods"`,
		"error resource=job/status":    `job: no such resource; write "jobs.batch"`,
		"lag resource=Pods":            `Pods: is not a resource; write one such as "pods" or "jobs.batch"`,
		"lag nth=x":                    "lag nth=x: ",
		"lag colour=red":               "lag colour=red: ",
		"lag verb=create":              "lag verb=create: ",
		"crash resource=pods verb=get": "crash resource=pods verb=get: ",
		"resource=pods":                "resource=pods: ",
	} {
		s, err := parse(clients+fmt.Sprintf("  faults: {only: [%q]}\n", text), nil)
		if want == "" {
			if err != nil {
				t.Errorf("%s: %v", text, err)
			} else if f, _ := fault.Parse(text); len(s.Patterns) != 1 || s.Patterns[0] != f {
				t.Errorf("%s: patterns %v", text, s.Patterns)
			}
			continue
		}
		all := problems(t, err)
		if len(all) != 1 || !strings.HasPrefix(all[0], "spec.faults.only[0]: "+want) {
			t.Errorf("%s:\n%q\nwant %q", text, all, want)
		}
	}
}

// TestSetLevelOfPatterns: the level of the command line replaces that of the file, unless a pattern is above it; the
// document follows.
func TestSetLevelOfPatterns(t *testing.T) {
	for _, c := range []struct {
		faults string
		level  fault.Level
		want   string // the error
	}{
		{"{}", fault.Seen, ""},
		{"{level: adversarial}", fault.Legal, ""},
		{"{only: [lag]}", fault.Adversarial, ""},
		{"{level: seen, only: [lag]}", fault.Legal, ""},
		{"{level: seen, only: [lag, repeat-event, lose-event]}", fault.Legal,
			"s.yaml:6: spec.faults.only[1]: repeat-event: repeat-event is of level seen and the scenario's level is legal; set spec.faults.level to seen"},
	} {
		s := mustParse(t, "  faults: "+c.faults+"\n")
		before := *s
		err := s.SetLevel(c.level)
		if c.want != "" {
			equal(t, c.faults, c.want, fmt.Sprint(err))
			if s.Level != before.Level || s.Spec.Faults.Level != before.Spec.Faults.Level {
				t.Errorf("%s: the level is %s after an error", c.faults, s.Level)
			}
			continue
		}
		if err != nil || s.Level != c.level || s.Document().Spec.Faults.Level != c.level.String() {
			t.Errorf("%s: %v, level %s, in the document %q", c.faults, err, s.Level, s.Document().Spec.Faults.Level)
		}
		want := before.Patterns
		if !strings.Contains(c.faults, "only") {
			want = fault.Any(c.level)
		}
		equal(t, c.faults, want, s.Patterns)
	}
}

// TestBudget: the defaults, and what the file says instead.
func TestBudget(t *testing.T) {
	for budget, want := range map[string]string{
		"{}":                     "200 runs, 5m0s",
		"{runs: 0}":              "200 runs, 5m0s",
		"{runs: 7}":              "7 runs, 5m0s",
		"{time: 90s}":            "200 runs, 1m30s",
		"{runs: 1, time: 1ms}":   "1 runs, 1ms",
		"{runs: -1}":             "spec.budget.runs: -1: must not be negative",
		"{time: 0s}":             "spec.budget.time: 0s: must be more than 0; leave it out for 5m0s",
		"{runs: 1, time: never}": "spec.budget.time: never: is not a duration; write one such as 30s or 5m",
	} {
		s, err := parse("  budget: "+budget+"\n", nil)
		got := strings.Join(problems(t, err), "\n")
		if err == nil {
			got = fmt.Sprintf("%d runs, %s", s.Runs, s.Budget)
		}
		equal(t, budget, want, got)
	}
}

// TestCluster: the defaults of the cluster, and that none is different from nothing.
func TestCluster(t *testing.T) {
	for cluster, want := range map[string]string{
		"":                           "2 nodes, controllers [stage scheduler], stages []",
		"{nodes: 0}":                 "0 nodes, controllers [stage scheduler], stages []",
		"{nodes: 5000}":              "5000 nodes, controllers [stage scheduler], stages []",
		"{nodes: null}":              "2 nodes, controllers [stage scheduler], stages []",
		"{controllers: []}":          "2 nodes, controllers [], stages []",
		"{controllers: null}":        "2 nodes, controllers [stage scheduler], stages []",
		"{controllers: [scheduler]}": "2 nodes, controllers [scheduler], stages []",
		"{stages: [\"builtin:pod-fast\", \"builtin:any\"]}": "2 nodes, controllers [stage scheduler], stages [builtin:pod-fast builtin:any]",
		"{nodes: -1}":                      "spec.cluster.nodes: -1: must not be negative",
		"{controllers: [stage, b, stage]}": "spec.cluster.controllers[2]: stage: is listed twice; remove one",
		"{controllers: [\"\"]}":            "spec.cluster.controllers[0]: must name a controller",
		"{controllers: [a]}":               "spec.clients[0].name: a: names another actor of a recorded run; choose another name",
	} {
		s, err := parse("  cluster: "+cluster+"\n", nil)
		got := strings.Join(problems(t, err), "\n")
		if err == nil {
			got = fmt.Sprintf("%d nodes, controllers %v, stages %v", s.Nodes, s.Controllers, s.Stages)
		}
		equal(t, cluster, want, got)
	}
	controllers := scenario.DefaultControllers()
	controllers[0] = "changed"
	equal(t, "defaults after a change by a caller", []string{"stage", "scheduler"}, scenario.DefaultControllers())
	equal(t, "defaults where one is under test", []string{"scheduler"}, mustParse(t, "  clients: [{name: a, builtin: stage}]\n").Controllers)
	both := mustParse(t, "  clients: [{name: a, builtin: stage}]\n  cluster: {controllers: [stage]}\n")
	equal(t, "a list is used as it is", []string{"stage"}, both.Controllers)
}
