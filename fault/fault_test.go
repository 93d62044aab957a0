package fault_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/history"
)

// TestLevels holds the table of kinds against a file that people can read: a level
// is a contract with users: it says whether a failing controller has a bug.
func TestLevels(t *testing.T) {
	classes := map[fault.Class]string{fault.Event: "event", fault.Call: "call", fault.Process: "process", fault.Interference: "interference"}
	var b strings.Builder
	for _, k := range fault.Kinds(fault.Adversarial) {
		holds := ""
		if k.Holds() {
			holds = "  holds"
		}
		fmt.Fprintln(&b, strings.TrimRight(fmt.Sprintf("%-14s %-12s %-12s%s", k, k.Level(), classes[k.Class()], holds), " "))
	}
	const golden = "testdata/kinds.txt"
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(golden, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), b.String()); d != "" {
		t.Errorf("UPDATE_GOLDEN=1 writes it again (-want +got)\n%s", d)
	}
}

func TestKinds(t *testing.T) {
	last := -1
	for _, l := range []fault.Level{fault.Legal, fault.Seen, fault.Adversarial} {
		kinds := fault.Kinds(l)
		if len(kinds) <= last {
			t.Errorf("%s has no kinds of its own", l)
		}
		last = len(kinds)
		for _, k := range kinds {
			if k.Source() == "" {
				t.Errorf("%s has no source", k)
			}
			if k.Level() > l {
				t.Errorf("%s is among the kinds up to %s", k, l)
			}
		}
		kinds = slices.DeleteFunc(slices.Clone(kinds), func(k fault.Kind) bool { return k == fault.KindOverlap })
		for n, f := range fault.Any(l) {
			if f != fault.Of(kinds[n]) {
				t.Errorf("Any(%s)[%d] is %s", l, n, f)
			}
		}
		if back, err := fault.ParseLevel(l.String()); err != nil || back != l {
			t.Errorf("%s: %s, %v", l, back, err)
		}
	}
	if _, err := fault.ParseLevel("ilegal"); err == nil || !strings.Contains(err.Error(), `"ilegal": want legal, seen or adversarial`) {
		t.Errorf("got %v", err)
	}
	if got := fault.Level(9).String(); got != "Level(9)" {
		t.Errorf("got %s", got)
	}
	if k := fault.Kind("no such"); k.Level() != fault.Adversarial || k.Holds() {
		t.Errorf("an unknown kind is %s", k.Level())
	}
}

func TestPatterns(t *testing.T) {
	for text, f := range map[string]fault.Fault{
		"lag resource=pods":                              fault.Lag("pods"),
		"relist resource=pods":                           fault.Relist("pods"),
		"disconnect resource=pods":                       fault.Disconnect("pods"),
		"conflict resource=pods":                         fault.Conflict("pods"),
		"lost-answer actor=job":                          fault.LostAnswer("job"),
		"crash actor=job":                                fault.Crash("job"),
		"pause actor=job":                                fault.Pause("job"),
		"throttle":                                       fault.Of(fault.KindThrottle),
		"overlap actor=my%20job":                         {Kind: fault.KindOverlap, Actor: "my job"},
		"lag nth=2 writes=3":                             {Kind: fault.KindLag, Nth: 2, Writes: 3},
		"lag until=jobs.batch":                           {Kind: fault.KindLag, Until: "jobs.batch"},
		"relist nth=1 until=pods@42":                     {Kind: fault.KindRelist, Nth: 1, Until: "pods", UntilRevision: 42},
		"pause nth=2 for=1m30s":                          {Kind: fault.KindPause, Nth: 2, For: 90 * time.Second},
		"error verb=get object=/api":                     {Kind: fault.KindError, Verb: "get", Object: "/api"},
		"edit target=deployments.apps/default/web nth=1": {Kind: fault.KindEdit, Target: "deployments.apps/default/web", Nth: 1},
		"delete target=nodes/a":                          {Kind: fault.KindDelete, Target: "nodes/a"},
		"error verb=put object=/x":                       {Kind: fault.KindError, Verb: "put", Object: "/x"},
	} {
		if f.String() != text || f.Check() != nil {
			t.Errorf("%q is written %q, %v", text, f, f.Check())
		}
		if back, err := fault.Parse(text); err != nil || back != f {
			t.Errorf("%q is read as %+v, %v", text, back, err)
		}
	}
}

func TestParseRejects(t *testing.T) {
	for text, want := range map[string]string{
		"":                              "fault: empty",
		" \t":                           "fault: empty",
		"lagg":                          `unknown kind "lagg": want one of lag, crash-after,`,
		"lag pods":                      `"pods": want FIELD=VALUE`,
		"lag resource=":                 `"resource=": want FIELD=VALUE`,
		"lag kind=pods":                 "unknown field kind: want one of actor, verb, resource, object, target, nth, for, writes, until",
		"lag nth=1 nth=2":               "nth is given twice",
		"lag nth=0":                     "nth=0: want a number from 1",
		"lag nth=-1":                    "nth=-1: want a number from 1",
		"lag nth=99999999999999999999":  ": want a number from 1",
		"lag writes=x":                  "writes=x: want a number from 1",
		"lag for=3":                     "for=3: want a duration such as 30s",
		"lag for=-3s":                   "for=-3s: want a duration",
		"lag for=3s writes=1":           "for, writes and until: want at most one of them",
		"lag for=3s until=pods":         "for, writes and until: want at most one of them",
		"lag until=pods@x":              "until=pods@x: want a resource such as pods, or one with a revision",
		"lag until=@3":                  "until=@3: want a resource",
		"pause until=pods":              "pause holds no event, request or answer",
		"conflict for=3s":               "conflict holds nothing",
		"lag verb=update":               "lag acts on events, which have no verb",
		"conflict verb=put":             "verb=put: want one of create, update,",
		"conflict verb=get":             "conflict acts on writes, and get is a read",
		"crash-after verb=list":         "crash-after acts on writes, and list is a read",
		"lag resource=pods/status":      "lag acts on events, and resource=pods/status is a subresource",
		"drop-bookmark object=default/": "drop-bookmark acts on bookmarks",
		"lag target=pods/a":             "lag changes no object as another user: target does not apply",
		"label target=pods":             "target=pods: want an object such as deployments.apps/default/web or nodes/a",
		"label target=pods//a":          "target=pods//a: want an object",
		"label target=pods/n/a/status":  "target=pods/n/a/status: want an object",
		"lag actor=a%2":                 "actor=a%2: %2: want % and two hexadecimal digits",
		"lag actor=%zz":                 "actor=%zz: %zz: want %",
		"lag actor=%+1":                 "want %",
	} {
		f, err := fault.Parse(text)
		if err == nil || !strings.Contains(err.Error(), want) || f != (fault.Fault{}) {
			t.Errorf("%q: %v, %v, want %q in it", text, f, err, want)
		}
	}
	for _, f := range []fault.Fault{{}, {Kind: "x"}, {Kind: fault.KindLag, Nth: -1}, {Kind: fault.KindLag, For: -1}, {Kind: fault.KindLag, Writes: -1}} {
		if err := f.Check(); err == nil || !strings.HasPrefix(err.Error(), "fault \"") {
			t.Errorf("%+v: %v", f, err)
		}
	}
}

func TestParseAll(t *testing.T) {
	lines := []string{"# a comment", "", "  lag nth=1 ", "conflict actor=job"}
	faults, err := fault.ParseAll(lines)
	if err != nil {
		t.Fatal(err)
	}
	if got := fault.Strings(faults); !slices.Equal(got, []string{"lag nth=1", "conflict actor=job"}) {
		t.Errorf("got %q", got)
	}
	if _, err := fault.ParseAll(append(lines, "oops")); err == nil || !strings.Contains(err.Error(), `"oops"`) {
		t.Errorf("got %v", err)
	}
}

// TestTarget: a target names an object, and a pattern without one covers every target.
func TestTarget(t *testing.T) {
	web := history.Object{Resource: "deployments.apps", Namespace: "default", Name: "web"}
	for _, want := range []history.Object{web, {Resource: "nodes", Name: "a"}} {
		f := fault.Fault{Kind: fault.KindRecreate, Target: fault.TargetOf(want)}
		if o, ok := f.TargetObject(); !ok || o != want {
			t.Errorf("%s: %v, %t", f, o, ok)
		}
	}
	f := fault.Fault{Kind: fault.KindRecreate, Actor: "job", Target: fault.TargetOf(web), Nth: 1}
	for pattern, want := range map[string]bool{
		"recreate": true, "recreate target=deployments.apps/default/web": true, "recreate target=deployments.apps/default/b": false, "edit": false,
	} {
		p, err := fault.Parse(pattern)
		if err != nil || fault.Allowed([]fault.Fault{p}, f) != want {
			t.Errorf("%s covers %s: want %t; %v", pattern, f, want, err)
		}
	}
}

// TestCrashIsBoth: the pattern of a crash allows both of its moments and nothing else.
func TestCrashIsBoth(t *testing.T) {
	patterns := []fault.Fault{fault.Crash("job")}
	for text, want := range map[string]bool{
		"crash-before actor=job nth=1": true, "crash-after actor=job/1 nth=2": true,
		"crash-after actor=other nth=1": false, "pause actor=job nth=1": false,
	} {
		f, err := fault.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if fault.Allowed(patterns, f) != want {
			t.Errorf("%s: allowed is not %v", text, want)
		}
	}
	if slices.Contains(fault.Kinds(fault.Adversarial), fault.KindCrash) {
		t.Error("a search would try crashes twice")
	}
}
