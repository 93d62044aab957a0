package simtest

import (
	"slices"
	"strings"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/internal/verdict"
	"github.com/rehearse-k8s/rehearse/invariant"
)

// AllowDifferentOutcomes says that runs with faults may legitimately end in another state than runs
// without: the outcome depends on which pod is first, say. Runs are then judged by the invariants
// alone, and not compared with the runs without faults. [World.Ignore] excludes single fields.
func (w *World) AllowDifferentOutcomes() { w.Disable(invariant.AutomaticEndState) }

// Ignore excludes fields of a resource, such as "pods" or "webs.example.com", from the comparison of final
// states: "status.hostIP", "metadata.annotations[example.com/checksum]", "status.endpoints[*].nodeName". Without
// a path, the objects of the resource are not compared at all.
func (w *World) Ignore(resource string, paths ...string) {
	if resource == "" || strings.ContainsAny(resource, " /") {
		w.fatal("Ignore(%q): want a resource such as pods or webs.example.com", resource)
	}
	if len(paths) == 0 {
		w.policy.Ignore = append(w.policy.Ignore, verdict.Path{Resource: resource})
	}
	for _, path := range paths {
		if err := invariant.CheckPath(path); err != nil {
			w.fatal("Ignore(%q): %v", resource, err)
		}
		w.policy.Ignore = append(w.policy.Ignore, verdict.Path{Resource: resource, Field: path})
	}
}

// Disable turns automatic invariants off: EndState, Quiescence, HotLoop and the others of [invariant.Automatics].
func (w *World) Disable(names ...string) {
	for _, name := range names {
		if known := invariant.AutomaticNames(); !slices.Contains(known, name) {
			w.fatal("Disable(%q): unknown invariant; want one of %s", name, strings.Join(known, ", "))
		}
		w.policy.Disabled = append(w.policy.Disabled, name)
	}
}

// RequireObservedWrites fails a run in which a controller writes an object again, without a precondition, before it
// has observed its own last write of the object. It is a strict rule for controllers that decide from a cache what
// to create or count; without it such writes are only reported.
func (w *World) RequireObservedWrites() { w.policy.RequireObservedWrites = true }

// AllowOverlap says that these controllers run without leader election, so two instances of one may run at
// once, as in a rolling update. The search then also tries the fault overlap for them.
func (w *World) AllowOverlap(controllers ...string) {
	for _, name := range controllers {
		w.overlapping = append(w.overlapping, fault.Fault{Kind: fault.KindOverlap, Actor: name})
	}
}

// Except excludes faults that match these patterns from the search.
func (w *World) Except(patterns ...fault.Fault) {
	for _, p := range patterns {
		if err := p.Check(); err != nil {
			w.fatal("%v", err)
		}
	}
	w.except = append(w.except, patterns...)
}

// Trust says that controllers are not under test: the search injects no fault at their requests and watches,
// and does not check them for hot loops and stale own writes.
func (w *World) Trust(names ...string) { w.policy.Trusted = append(w.policy.Trusted, names...) }

// checkTrusted ends the test function with an error if it trusts a controller that it never started.
func (w *World) checkTrusted() {
	w.mu.Lock()
	unknown := ""
	for _, name := range w.policy.Trusted {
		if w.actors[name] == nil {
			unknown = name
		}
	}
	w.mu.Unlock()
	if unknown != "" {
		w.fatal("Trust(%q): the test starts no controller of that name", unknown)
	}
}
