package scenario_test

import (
	"strings"
	"testing"

	"github.com/rehearse-k8s/rehearse/api/rehearse/v1alpha1"
	"github.com/rehearse-k8s/rehearse/fault"
)

// TestAutomaticChecks: a scenario excludes fields, invariants, faults and clients from the automatic checks.
func TestAutomaticChecks(t *testing.T) {
	s := mustParse(t, `  clients: [{name: a}, {name: b, builtin: job}]
  invariants:
    ignore: [{resource: pods, path: status.hostIP}, {resource: webs.example.com}]
    disable: [Quiescence, EndState]
  faults: {except: [crash actor=a, lag resource=pods], trusted: [b]}
`)
	equal(t, "ignore", []v1alpha1.Ignored{{Resource: "pods", Path: "status.hostIP"}, {Resource: "webs.example.com"}}, s.Ignore)
	equal(t, "disable", []string{"Quiescence", "EndState"}, s.Disabled)
	equal(t, "except", []string{"crash actor=a", "lag resource=pods"}, fault.Strings(s.Except))
	equal(t, "trusted", []string{"b"}, s.Trusted)
	if !s.EndsVary {
		t.Error("EndState is disabled and ends are compared")
	}
	equal(t, "endsVary", []string{"EndState"}, mustParse(t, "  invariants: {endsVary: true}\n").Disabled)

	var b strings.Builder
	if err := s.Describe(&b); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"  not compared: pods status.hostIP\n", "  not checked: Quiescence\n", "  never: lag resource=pods\n", "  none for: b\n"} {
		if !strings.Contains(b.String(), line) {
			t.Errorf("%q is missing in\n%s", line, b.String())
		}
	}
}

// TestUnknownAutomaticChecks: names that do not exist are rejected with their line, and the nearest name is
// listed first.
func TestUnknownAutomaticChecks(t *testing.T) {
	for text, want := range map[string]string{
		"  invariants: {disable: [quiesence]}\n":                          "spec.invariants.disable[0]: quiesence: unknown automatic invariant; want one of Quiescence, ",
		"  invariants: {disable: [nothing-like-it]}\n":                    "spec.invariants.disable[0]: nothing-like-it: unknown automatic invariant; want one of ",
		"  invariants: {disable: [HotLoop, HotLoop]}\n":                   "spec.invariants.disable[1]: HotLoop: is listed twice; remove one",
		"  invariants: {ignore: [{resource: pod}]}\n":                     `spec.invariants.ignore[0].resource: pod: no such resource; write "pods"`,
		"  invariants: {ignore: [{path: status}]}\n":                      "spec.invariants.ignore[0].resource: is missing",
		"  invariants: {ignore: [{resource: pods, path: 'status..x'}]}\n": `spec.invariants.ignore[0].path: status..x: path "status..x"`,
		"  invariants: {ignore: [{resource: pods, path: ''}]}\n":          "spec.invariants.ignore[0].path: is empty; leave it out",
		"  faults: {trusted: [b]}\n":                                      "spec.faults.trusted[0]: b: no client is named b; there is a",
		"  faults: {trusted: ['']}\n":                                     "spec.faults.trusted[0]: must name a client",
		"  faults: {except: [lagg]}\n":                                    "spec.faults.except[0]: lagg: ",
		"  faults: {except: [lag actor=c]}\n":                             "spec.faults.except[0]: lag actor=c: no client is named c",
	} {
		_, err := parse(text, nil)
		if got := problems(t, err); len(got) != 1 || !strings.HasPrefix(got[0], want) {
			t.Errorf("%s: %q", text, got)
		}
	}
}
