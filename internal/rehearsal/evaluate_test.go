package rehearsal

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/apiserver"
	"github.com/rehearse-k8s/rehearse/internal/store"
	"github.com/rehearse-k8s/rehearse/internal/verdict"
)

// TestAnsweredPrefix: a record is checked up to the first write whose effect is not known yet.
func TestAnsweredPrefix(t *testing.T) {
	request := func(verb string, code int, reply, note string) history.Step {
		return history.Step{Kind: history.Request, Verb: verb, Code: code, Reply: reply, Note: note}
	}
	for name, c := range map[string]struct {
		steps []history.Step
		want  int
	}{
		"nothing":             {nil, 0},
		"all answered":        {[]history.Step{request("create", 201, "", ""), request("get", 0, "", ""), {Kind: history.Frame}}, 3},
		"one under way":       {[]history.Step{request("create", 201, "", ""), request("patch", 0, "", ""), {Kind: history.Frame}}, 1},
		"one without answer":  {[]history.Step{request("create", 0, "lost", ""), request("get", 200, "", "")}, 2},
		"one that went wrong": {[]history.Step{request("create", 0, "", "the server has gone"), request("get", 200, "", "")}, 2},
	} {
		run := &history.Run{Steps: c.steps}
		if prefix, _ := answeredPrefix(run, nil, nil); len(prefix.Steps) != c.want {
			t.Errorf("%s: %d steps, want %d", name, len(prefix.Steps), c.want)
		}
	}
}

// changes writes the named pods, at revisions 2, 3 and so on, and returns the changes.
func changes(t *testing.T, names ...string) (*verdict.Objects, []verdict.Change) {
	t.Helper()
	worlds := store.New(store.Options{})
	world := worlds.World("run")
	of, err := newFollower(storeSource{worlds, world}, verdict.ObjectsOptions{Decodings: verdict.NewDecodings(apiserver.DecodeStored), Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	for n, name := range names {
		key := "/pods/default/" + name
		_, now, _, _, _ := world.RawGet(key)
		object := fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"default","name":%q,"generation":%d}}`, name, n)
		if _, ok := world.RawPut(key, []byte(object), now); !ok {
			t.Fatalf("%s is not written", name)
		}
	}
	all, err := of.follow()
	if err != nil {
		t.Fatal(err)
	}
	return of.Objects, all
}

// TestAttributeChanges: each change belongs to the step that wrote it, also if the answer contains no
// revision, and changes keep their order.
func TestAttributeChanges(t *testing.T) {
	write := func(verb, name string, revision int64, code int) history.Step {
		return history.Step{Kind: history.Request, Verb: verb, Object: history.Object{Namespace: "default", Name: name}, Revision: revision, Code: code}
	}
	for name, c := range map[string]struct {
		changes []string // the first change has revision 2
		steps   []history.Step
		want    string // the step of each change
		whole   string // the same once the run is over, if it differs
	}{
		"by revision": {
			[]string{"a", "b"}, []history.Step{write("create", "a", 2, 201), write("create", "b", 3, 201)}, "0 1", "",
		},
		"without a revision, by name": {
			[]string{"a", "b"}, []history.Step{write("delete", "b", 0, 200), write("delete", "a", 0, 200), write("create", "c", 9, 201)}, "0 0", "",
		},
		"not to a rejected write": {
			[]string{"a"}, []history.Step{write("delete", "a", 0, 404), write("delete", "a", 0, 200)}, "1", "",
		},
		"two writes of one object": {
			[]string{"a", "a"}, []history.Step{write("delete", "a", 0, 200), write("delete", "a", 0, 200)}, "0 1", "",
		},
		"many by one": {
			[]string{"a", "b", "c"}, []history.Step{write("deletecollection", "", 0, 200), write("create", "c", 4, 201)}, "0 0 1", "",
		},
		"a change without a step belongs to the next step": {
			[]string{"x", "a"}, []history.Step{write("create", "b", 9, 201), write("create", "a", 3, 201)}, "1 1", "",
		},
		"a last change without a step is attributed at the end": {
			[]string{"a", "x"}, []history.Step{write("create", "a", 2, 201), write("create", "b", 9, 409)}, "0 -", "0 1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			of, all := changes(t, c.changes...)
			record := &history.Run{}
			for _, s := range c.steps {
				record.Add(s)
			}
			if c.whole == "" {
				c.whole = c.want
			}
			for whole, want := range map[bool]string{false: c.want, true: c.whole} {
				if got := assigned(all, changesByStep(record, all, attributeChanges(record, all, of), whole)); got != want {
					t.Errorf("over %t: %s, want %s", whole, got, want)
				}
			}
		})
	}
}

// TestDeleteWithoutRevision: a delete was sent after a create and executed before it. Its answer has no revision, or has
// not arrived. It does not belong to the step of the create: there, its author and its fault would be unknown.
func TestDeleteWithoutRevision(t *testing.T) {
	_, all := changes(t, "a", "a", "b") // b is created at revision 4, after the second change of a
	object := func(name string) history.Object {
		return history.Object{Resource: "pods", Namespace: "default", Name: name}
	}
	for name, c := range map[string]struct {
		code  int
		steps []int // as attributeChanges returns them
		whole bool
		want  string
	}{
		"whole, answered":      {200, []int{0, 2, 1}, true, "create a: 2 | delete a: 3 | create b: 4"},
		"so far, answered":     {200, []int{0, 2, 1}, false, "create a: 2 | delete a: 3 | create b: 4"},
		"so far, not answered": {0, []int{0, -1, 1}, false, "create a: 2"},
	} {
		record := &history.Run{}
		record.Add(history.Step{Kind: history.Request, Verb: "create", Object: object("a"), Revision: 2, Truth: 2, Code: 201})
		record.Add(history.Step{Kind: history.Request, Verb: "create", Object: object("b"), Revision: 4, Truth: 4, Code: 201})
		record.Add(history.Step{Kind: history.Request, Verb: "delete", Object: object("a"), Truth: 2, Code: c.code})
		record, steps := orderWrites(record, all, c.steps)
		if !c.whole {
			record, steps = answeredPrefix(record, all, steps)
		}
		by := changesByStep(record, all, steps, c.whole)
		var words []string
		for n := range record.Steps {
			word := record.Steps[n].Verb + " " + record.Steps[n].Name + ":"
			for _, change := range by[n] {
				word += fmt.Sprint(" ", change.Revision)
			}
			words = append(words, word)
		}
		if got := strings.Join(words, " | "); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// assigned returns the step of each change; "-": it has none.
func assigned(all []verdict.Change, made map[int][]verdict.Change) string {
	var words []string
	for _, c := range all {
		word := "-"
		for n, some := range made {
			if slices.ContainsFunc(some, func(x verdict.Change) bool { return x.Revision == c.Revision }) {
				word = fmt.Sprint(n)
			}
		}
		words = append(words, word)
	}
	return strings.Join(words, " ")
}

// TestAddClusterWrites: a write by the cluster itself is recorded before the first step that observes it, and
// causes the events about it.
func TestAddClusterWrites(t *testing.T) {
	of, all := changes(t, "a", "b", "a", "c") // revisions 2, 3, 4 and 5
	pod := history.Object{Namespace: "default", Name: "a"}
	record := &history.Run{}
	record.Add(history.Step{Kind: history.Request, Verb: "create", Object: pod, Revision: 2, Code: 201, Truth: 2, Actor: "client"})
	record.Add(history.Step{Kind: history.Frame, Object: pod, Revision: 2, Truth: 2, Actor: "client", Causes: []int{0}})
	record.Add(history.Step{Kind: history.Frame, Object: pod, Revision: 4, Truth: 4, Actor: "client"})
	record.Add(history.Step{Kind: history.Request, Verb: "get", Code: 200, Truth: 4, Actor: "client", Causes: []int{2}})
	for whole, want := range map[bool]string{
		false: "client create 2 | client frame 2 of 0 | cluster create 3 | cluster update 4 | client frame 4 of 3 | client get 0 of 4 / 0 2 3 -",
		true:  "client create 2 | client frame 2 of 0 | cluster create 3 | cluster update 4 | client frame 4 of 3 | client get 0 of 4 | cluster create 5 / 0 2 3 6",
	} {
		steps := attributeChanges(record, all, of)
		grown, steps := addClusterWrites(record, all, steps, of, func(string) bool { return false }, whole)
		var words []string
		for n := range grown.Steps {
			s := &grown.Steps[n]
			what := s.Verb
			if s.Kind == history.Frame {
				what = "frame"
			}
			text := fmt.Sprintf("%s %s %d", s.Actor, what, s.Revision)
			for _, cause := range s.Causes {
				text += fmt.Sprintf(" of %d", cause)
			}
			words = append(words, text)
		}
		got := strings.Join(words, " | ") + " / " + assigned(all, changesByStep(grown, all, steps, whole))
		if got != want {
			t.Errorf("over %t:\n got %s\nwant %s", whole, got, want)
		}
	}
}
