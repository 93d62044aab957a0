package fault_test

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/rehearse-k8s/rehearse/fault"
)

// anyFault draws faults that make sense, from few words, so that they meet.
func anyFault(t *rapid.T, label string) fault.Fault {
	word := func(name string, from ...string) string {
		return rapid.SampledFrom(append(from, "")).Draw(t, label+" "+name)
	}
	f := fault.Fault{
		Kind:  rapid.SampledFrom(fault.Kinds(fault.Adversarial)).Draw(t, label),
		Actor: word("actor", "job", "job/0", "job/1"), Verb: word("verb", "create", "update", "get", "list"),
		Resource: word("resource", "pods", "pods/status"), Object: word("object", "n/a", "n/b"),
		Nth:    rapid.IntRange(0, 3).Draw(t, label+" nth"),
		For:    time.Duration(rapid.IntRange(0, 2).Draw(t, label+" for")) * time.Second,
		Writes: rapid.IntRange(0, 2).Draw(t, label+" writes"),
	}
	if f.Kind.Class() == fault.Interference {
		f.Target = word("target", "pods/n/a", "nodes/a")
	}
	if f.For == 0 && f.Writes == 0 {
		f.Until = word("until", "pods", "jobs.batch")
		if f.Until != "" {
			f.UntilRevision = int64(rapid.IntRange(0, 2).Draw(t, label+" until revision"))
		}
	}
	if f.Check() != nil { // keep what every kind can have
		f = fault.Fault{Kind: f.Kind, Actor: f.Actor, Nth: f.Nth}
	}
	return f
}

func anyItem(t *rapid.T) fault.Item {
	word := func(name string, from ...string) string { return rapid.SampledFrom(from).Draw(t, name) }
	i := fault.Item{
		Class: rapid.SampledFrom([]fault.Class{fault.Event, fault.Call}).Draw(t, "class"),
		Actor: word("who", "job", "job/0", "job/1", "jobs"), Resource: word("what", "pods", "podsets"), Object: word("which", "n/a", "n/b"),
	}
	if i.Class == fault.Event {
		i.Type = word("type", "ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR")
		i.Initial = rapid.Bool().Draw(t, "initial")
		return i
	}
	i.Verb = word("how", "create", "update", "get", "list")
	i.Write = i.Verb == "create" || i.Verb == "update"
	i.Older = i.Verb == "list" && rapid.Bool().Draw(t, "older")
	i.Continues = i.Verb == "list" && !i.Older && rapid.Bool().Draw(t, "continues")
	i.Versioned = i.Write && rapid.Bool().Draw(t, "guarded")
	if rapid.Bool().Draw(t, "status") {
		i.Resource += "/status"
	}
	return i
}

func TestRoundTrip(t *testing.T) {
	text := rapid.OneOf(rapid.String(), rapid.StringMatching(`[a-z/ =%\t\n]*`), rapid.Just("\xff \u00a0\u2028"))
	rapid.Check(t, func(t *rapid.T) {
		f := anyFault(t, "fault")
		f.Actor, f.Object = text.Draw(t, "actor"), ""
		switch f.Kind {
		case fault.KindDropBookmark, fault.KindStaleList, fault.KindExpiredPage: // act on no object
		default:
			f.Object = text.Draw(t, "object")
		}
		if f.Check() != nil {
			t.Fatalf("%+v makes no sense", f)
		}
		back, err := fault.Parse(f.String())
		if err != nil || back != f {
			t.Fatalf("%+v is written %q and read %+v, %v", f, f.String(), back, err)
		}
	})
}

func FuzzParse(f *testing.F) {
	for _, k := range fault.Any(fault.Adversarial) {
		f.Add(k.String() + " actor=a%20b resource=pods nth=2 for=30s")
	}
	f.Fuzz(func(t *testing.T, text string) {
		parsed, err := fault.Parse(text)
		if err != nil {
			return
		}
		if err := parsed.Check(); err != nil {
			t.Fatalf("%q is parsed and then rejected: %v", text, err)
		}
		back, err := fault.Parse(parsed.String())
		if err != nil || back != parsed {
			t.Fatalf("%q: %+v is written %q and read %+v, %v", text, parsed, parsed.String(), back, err)
		}
	})
}

func TestMatches(t *testing.T) {
	event := fault.Item{Class: fault.Event, Actor: "job/1", Resource: "pods", Object: "n/a", Type: "MODIFIED"}
	bookmark := fault.Item{Class: fault.Event, Actor: "job/1", Resource: "pods", Type: "BOOKMARK"}
	end := fault.Item{Class: fault.Event, Actor: "job/1", Resource: "pods", Type: "BOOKMARK", Initial: true}
	first := fault.Item{Class: fault.Event, Actor: "job/1", Resource: "pods", Object: "n/a", Type: "ADDED", Initial: true}
	errorFrame := fault.Item{Class: fault.Event, Actor: "job/1", Resource: "pods", Type: "ERROR"}
	read := fault.Item{Class: fault.Call, Actor: "job/1", Verb: "get", Resource: "pods", Object: "n/a"}
	create := fault.Item{Class: fault.Call, Actor: "job/1", Verb: "create", Resource: "pods", Object: "n/a", Write: true}
	status := fault.Item{Class: fault.Call, Actor: "job/1", Verb: "update", Resource: "pods/status", Object: "n/a", Write: true, Versioned: true}
	items := []fault.Item{event, bookmark, end, first, errorFrame, read, create, status}
	names := []string{"event", "bookmark", "end", "first", "error", "read", "create", "status"}
	for text, want := range map[string][]string{
		"lag":                        {"event", "bookmark", "end", "first"},
		"relist":                     {"event", "bookmark", "end", "first"},
		"disconnect resource=pods":   {"event", "bookmark", "end", "first"},
		"lag object=n/a":             {"event", "first"},
		"lag object=n/b":             nil,
		"lag actor=job":              {"event", "bookmark", "end", "first"},
		"lag actor=job/1":            {"event", "bookmark", "end", "first"},
		"lag actor=job/0":            nil,
		"lag actor=jo":               nil,
		"lag resource=pod":           nil,
		"drop-bookmark":              {"bookmark"},
		"lose-event":                 {"event"},
		"repeat-event":               {"event"},
		"conflict":                   {"status"},
		"error":                      {"read", "create", "status"},
		"throttle":                   {"read", "create", "status"},
		"timeout":                    {"read", "create", "status"},
		"quota":                      {"create"},
		"deny":                       {"create", "status"},
		"late-request":               {"read", "create", "status"},
		"error verb=get":             {"read"},
		"error resource=pods":        {"read", "create", "status"},
		"error resource=pods/status": {"status"},
		"lost-answer":                {"create", "status"},
		"error-after":                {"create", "status"},
		"late-answer":                {"create", "status"},
		"crash-before verb=create":   {"create"},
		"crash-after":                {"create", "status"},
		"pause":                      {"create", "status"},
		"outage":                     {"read", "create", "status"},
		"partition":                  {"create", "status"},
		"deposed-write":              {"create", "status"},
		"overlap":                    {"create", "status"},
		"delete":                     {"create", "status"},
		"evict resource=pods/status": {"status"},
		"label":                      {"create", "status"},
		"finalizer":                  {"create", "status"},
		"recreate":                   {"create", "status"},
		"edit target=pods/n/b":       {"create", "status"},
		"time-travel":                {"create", "status"},
	} {
		f, err := fault.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for n, i := range items {
			if f.Matches(i) {
				got = append(got, names[n])
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s matches %q, want %q", text, got, want)
		}
	}
}

// TestAllowed: what a pattern allows can do nothing that the pattern cannot.
func TestAllowed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, f, i := anyFault(t, "pattern"), anyFault(t, "fault"), anyItem(t)
		if rapid.Bool().Draw(t, "same kind") {
			f.Kind = p.Kind
		}
		if !fault.Allowed([]fault.Fault{p}, f) {
			return
		}
		if f.Matches(i) && !p.Matches(i) {
			t.Fatalf("%s allows %s, which acts on %+v", p, f, i)
		}
		if p.Nth != 0 && p.Nth != f.Nth || p.For != 0 && p.For != f.For || p.Writes != 0 && p.Writes != f.Writes {
			t.Fatalf("%s allows %s", p, f)
		}
	})
	f := fault.Fault{Kind: fault.KindLag, Actor: "job/0", Resource: "pods", Nth: 2, Writes: 1}
	for text, want := range map[string]bool{
		"lag": true, "lag actor=job": true, "lag resource=pods": true, "lag nth=2 writes=1": true,
		"relist": false, "lag nth=1": false, "lag actor=job/1": false, "lag object=n/a": false, "lag for=1s": false,
	} {
		p, err := fault.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if fault.Allowed([]fault.Fault{fault.Of(fault.KindTimeout), p}, f) != want {
			t.Errorf("%s allows %s: %t", text, f, !want)
		}
	}
	if fault.Allowed(nil, f) {
		t.Error("no pattern allows something")
	}
	if fault.Allowed([]fault.Fault{f}, fault.Of(fault.KindLag)) {
		t.Error("one place allows all places")
	}
}

func TestPlan(t *testing.T) {
	faults, err := fault.ParseAll([]string{"lag nth=2", "error verb=update nth=1", "lag object=n/b", "throttle nth=3"})
	if err != nil {
		t.Fatal(err)
	}
	plan := fault.NewPlan(faults)
	event := func(object string) fault.Item {
		return fault.Item{Class: fault.Event, Resource: "pods", Object: object, Type: "ADDED"}
	}
	call := func(verb string) fault.Item {
		return fault.Item{Class: fault.Call, Verb: verb, Resource: "pods", Write: verb != "get"}
	}
	for n, step := range []struct {
		item  fault.Item
		hits  []string
		unmet int
	}{
		{event("n/a"), nil, 4},
		{call("get"), nil, 4},
		{event("n/b"), []string{"lag nth=2", "lag object=n/b"}, 2},
		{event("n/b"), nil, 2},
		{call("update"), []string{"error verb=update nth=1"}, 1},
		{call("update"), []string{"throttle nth=3"}, 0},
		{call("update"), nil, 0},
	} {
		var hits []string
		for _, f := range plan.Meet(step.item) {
			hits = append(hits, f.String())
		}
		if !slices.Equal(hits, step.hits) || len(plan.Unmet()) != step.unmet {
			t.Errorf("item %d: hits %q, want %q; %d unmet, want %d", n, hits, step.hits, len(plan.Unmet()), step.unmet)
		}
	}
}

// TestPlanIndependent: leaving one fault out leaves the others where they were.
func TestPlanIndependent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var faults []fault.Fault
		for range rapid.IntRange(1, 5).Draw(t, "faults") {
			faults = append(faults, anyFault(t, "fault"))
		}
		out := rapid.IntRange(0, len(faults)-1).Draw(t, "out")
		fewer := slices.Delete(slices.Clone(faults), out, out+1)
		all, rest := fault.NewPlan(faults), fault.NewPlan(fewer)
		for n := range rapid.IntRange(0, 20).Draw(t, "items") {
			i := anyItem(t)
			want := all.Meet(i)
			got := rest.Meet(i)
			// The one that is out may have hit too; take it from what all had. An equal one of the plan may have hit instead.
			if len(want) > len(got) {
				for at, f := range want {
					if less := slices.Delete(slices.Clone(want), at, at+1); f == faults[out] && slices.Equal(got, less) {
						want = less
						break
					}
				}
			}
			if !slices.Equal(got, want) {
				t.Fatalf("item %d: without %s it was %v, and not %v", n, faults[out], got, want)
			}
		}
	})
}

func TestPlanOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := anyFault(t, "fault")
		plan := fault.NewPlan([]fault.Fault{f})
		hits, matched := 0, 0
		for range rapid.IntRange(0, 30).Draw(t, "items") {
			i := anyItem(t)
			hits += len(plan.Meet(i))
			if f.Matches(i) {
				matched++
			}
		}
		want := 0
		if matched >= max(f.Nth, 1) {
			want = 1
		}
		if hits != want || len(plan.Unmet()) != 1-want {
			t.Fatalf("%s hit %d times of %d matches; %d unmet", f, hits, matched, len(plan.Unmet()))
		}
	})
}
