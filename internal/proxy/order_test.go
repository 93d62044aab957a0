package proxy

import (
	"slices"
	"testing"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/history"
)

func newRun() *Run {
	return &Run{plan: fault.NewPlan(nil), known: map[string]revisions{}, wrote: map[int64]int{}, newestOf: map[string]int64{}, newestDelivered: map[watch]int64{}}
}

// TestUnobservedWriter: another user, whom the proxy does not observe, writes a revision. A client's write that changes
// nothing after it receives that revision: it is no write, and does not move the writes before it.
func TestUnobservedWriter(t *testing.T) {
	for _, resource := range []string{"pods", "nodes"} {
		t.Run(resource, func(t *testing.T) {
			r := newRun()
			write := func(verb string, code int, o history.Object, revision int64) history.Step {
				s := history.Step{Kind: history.Request, Verb: verb, Object: o}
				n := r.Add(s)
				s.Code, s.Revision = code, revision
				r.mu.Lock()
				s.Before = r.before(n, s.Object, revision)
				r.mu.Unlock()
				r.complete(n, s)
				return s
			}
			theirs := history.Object{Resource: resource, Name: "theirs"}
			write("patch", 200, theirs, 4)
			// The other user writes revision 5 of theirs.
			write("create", 201, history.Object{Resource: "pods", Name: "ours"}, 6)
			r.Add(history.Step{Kind: history.Request, Verb: "delete", Object: history.Object{Resource: "pods", Name: "ours"}, Code: 200})
			same := write("patch", 200, theirs, 5)
			if resource == "pods" && same.Wrote() {
				t.Errorf("a patch that changed nothing is a write: %+v", same)
			}
			var names []string
			for _, s := range r.Record().Steps {
				names = append(names, s.Verb+" "+s.Name)
			}
			if want := []string{"patch theirs", "create ours", "delete ours", "patch theirs"}; !slices.Equal(names, want) {
				t.Errorf("%q, want %q", names, want)
			}
		})
	}
}

// TestOrder: writes are in the order of their revisions, not of their requests; the event of a
// write comes after it, and has it as a cause.
func TestOrder(t *testing.T) {
	r := newRun()
	write := func(name string) history.Step {
		return history.Step{Kind: history.Request, Actor: name, Verb: "create", Code: 201, Object: history.Object{Resource: "pods", Name: name}}
	}
	first := r.Add(write("sent-first"))
	second := r.Add(write("sent-second"))
	s := write("sent-second")
	s.Revision = 5
	r.complete(second, s)
	r.Add(history.Step{Kind: history.Frame, Actor: "c", Revision: 5, Object: history.Object{Resource: "pods", Name: "sent-second"}})
	s = write("sent-first")
	s.Revision = 6
	r.complete(first, s)
	r.Add(history.Step{Kind: history.Frame, Actor: "c", Revision: 6, Object: history.Object{Resource: "pods", Name: "sent-first"}})
	record := r.Record()
	var names []string
	var revisions, truths []int64
	for _, s := range record.Steps {
		names, revisions, truths = append(names, string(s.Kind)+" "+s.Name), append(revisions, s.Revision), append(truths, s.Truth)
	}
	if want := []string{"request sent-second", "request sent-first", "frame sent-second", "frame sent-first"}; !slices.Equal(names, want) {
		t.Errorf("%q", names)
	}
	if !slices.Equal(revisions, []int64{5, 6, 5, 6}) || !slices.Equal(truths, []int64{5, 6, 6, 6}) {
		t.Errorf("revisions %d, truths %d", revisions, truths)
	}
	if a, b := record.Steps[2].Causes, record.Steps[3].Causes; !slices.Equal(a, []int{0}) || !slices.Equal(b, []int{1}) {
		t.Errorf("causes %d and %d", a, b)
	}
	if again := r.Record(); again != record {
		t.Error("another record without another step")
	}
}
