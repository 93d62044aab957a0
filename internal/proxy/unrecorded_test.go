package proxy_test

import (
	"slices"
	"testing"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/proxy"
)

// TestUnrecorded: a request that a crash prevents from being served has no step. The next step names it, because a fault of the repeated request counts
// both. The write of a deposed leader has arrived when its leader is terminated; if that is not possible, it is an ordinary request.
func TestUnrecorded(t *testing.T) {
	p := newProxy(t)
	c, ns := through(t, p, "c", admin), namespace(t)
	var r *proxy.Run
	r = begin(t, p, proxy.Hooks{
		Depose: func(f fault.Fault, crash history.Step) bool {
			if f.Nth == 4 { // there is a second instance already
				return false
			}
			r.Add(crash)
			return true
		},
	}, "crash-before actor=c verb=create resource=configmaps nth=1", "lost-answer actor=c verb=create resource=configmaps nth=2",
		"deposed-write actor=c verb=create resource=configmaps nth=3 writes=1",
		"deposed-write actor=c verb=create resource=configmaps nth=4 writes=1")
	for range 2 {
		if err := create(t.Context(), c, ns, "a"); err == nil {
			t.Error("a create that a fault interrupts was answered")
		}
	}
	_ = create(t.Context(), c, ns, "b") // its client has been terminated
	must(t, create(t.Context(), c, ns, "c"))
	record := r.End()
	var got []string
	for n := range record.Steps {
		s := &record.Steps[n]
		for _, a := range s.Unrecorded {
			got = append(got, "unrecorded "+a.Verb+" "+a.Name)
		}
		if s.Kind == history.Crash || s.IsWrite() {
			got = append(got, string(s.Kind)+" "+s.Name)
		}
	}
	want := []string{"crash ", "unrecorded create a", "request a", "unrecorded create b", "crash ", "request b", "request c"}
	if !slices.Equal(got, want) {
		t.Errorf("the record has %q; want %q", got, want)
	}
}
