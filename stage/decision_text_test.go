package stage

import (
	"errors"
	"testing"
	"time"

	"github.com/rehearse-k8s/rehearse/internal/stage/stagetest"
)

// TestDecisionText checks the sentence of each kind of decision. Users read it in `stage explain`, in
// logs and in golden files.
func TestDecisionText(t *testing.T) {
	at := func(wait time.Duration) Decision {
		return Decision{Stage: "run", Since: stagetest.Start, Due: stagetest.Start.Add(wait)}
	}
	with := func(d Decision, r Reason) Decision { d.Reason = r; return d }
	held := Decision{Stage: "run", Reason: Reason{Code: Held, Matching: 1}, Problem: `"soon" is no time`}
	drawn := with(at(3*time.Second), Reason{Code: DrawnStage, Matching: 4})
	drawn.LeftOut = []LeftOut{{Stage: "a", Code: NothingToDo}, {Stage: "b", Code: Held, Problem: "no such key: x"}}
	for want, d := range map[string]Decision{
		"nothing: no stage matches":                  {},
		"nothing: run would not change this version": {Stage: "run", Reason: Reason{Code: NothingToDo}},
		`nothing: run is held: "soon" is no time`:    held,
		"run goes on": with(at(0), Reason{Code: Resumed}),
		"run after 0s: the only stage that matches":        with(at(0), Reason{Code: OnlyStage, Matching: 1}),
		"run after 1s: the only stage that matches, again": with(at(time.Second), Reason{Code: OnlyStage, Matching: 1, Repeats: true}),
		"run after 1m0s: a timer, due first":               with(at(time.Minute), Reason{Code: TimerStage, Matching: 2}),
		"run after 3s: drawn among 4 that match; left out: a would change nothing; left out: b is held: no such key: x": drawn,
		"run after 1.5s: drawn among 2 that match, again":                                                               with(at(1500*time.Millisecond), Reason{Code: DrawnStage, Matching: 2, Repeats: true}),
	} {
		if got := d.String(); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

// TestErrorText checks which parts of its place an error names.
func TestErrorText(t *testing.T) {
	for want, e := range map[string]*Error{
		"no Stage in this file":                          {Problem: "no Stage in this file"},
		"f.yaml: no Stage in this file":                  {File: "f.yaml", Problem: "no Stage in this file"},
		"f.yaml:7: stage a: spec.weight: is too small":   {File: "f.yaml", Line: 7, Stage: "a", Field: "spec.weight", Problem: "is too small"},
		"stage a: spec.weight: is too small":             {Line: 7, Stage: "a", Field: "spec.weight", Problem: "is too small"},
		"f.yaml:7: kind: is required":                    {File: "f.yaml", Line: 7, Field: "kind", Problem: "is required"},
		"f.yaml: stage a: spec: the file has no line of": {File: "f.yaml", Stage: "a", Field: "spec", Problem: "the file has no line of"},
	} {
		if got := e.Error(); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

// TestErrorsOfSeveralStages checks that callers can print the joined error one stage a line, and can
// reach each *Error with the errors package.
func TestErrorsOfSeveralStages(t *testing.T) {
	if err := joined(nil); err != nil {
		t.Errorf("no errors: got %v", err)
	}
	first, second := &Error{Stage: "a", Problem: "x"}, &Error{Stage: "b", Problem: "y"}
	err := joined([]*Error{first, second})
	if got, want := err.Error(), "stage a: x\nstage b: y"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	for _, one := range []*Error{first, second} {
		if !errors.Is(err, one) {
			t.Errorf("errors.Is does not find %v", one)
		}
	}
	var e *Error
	if !errors.As(err, &e) || e != first {
		t.Errorf("errors.As finds %v", e)
	}
}

// TestOverrunIsReportedOncePerStage checks that a selector that does too much is named in the decision with
// its cause, that its stage is not chosen, and that the other stages of the kind still are.
func TestOverrunIsReportedOncePerStage(t *testing.T) {
	const endless = `{matchExpressions: [{key: '[range(1e12)]', operator: DoesNotExist}]}`
	stageOf := func(name, annotations string) string {
		return "---\napiVersion: kwok.x-k8s.io/v1alpha1\nkind: Stage\nmetadata: {name: " + name + annotations + "}\n" +
			"spec: {resourceRef: {kind: Pod}, selector: " + endless + ", next: {delete: true}}\n"
	}
	set := mustCompile(t, stageOf("drawn", "")+stageOf("timer", `, annotations: {rehearse-k8s.github.io/timer: "true"}`)+"---"+podStage("fine", ""))
	d := set.Decide(stagetest.Start, 1, stagetest.NewPod(labelled), Past{}, Scene{})
	if d.Stage != "fine" || d.Reason.Code != OnlyStage {
		t.Errorf("got %s", d.String())
	}
	var names []string
	for _, o := range d.Overran {
		names = append(names, o.Stage)
		if o.Problem == "" {
			t.Errorf("%s: no reason", o.Stage)
		}
	}
	if len(names) != 2 || names[0] != "drawn" || names[1] != "timer" {
		t.Errorf("overran: %v", names)
	}
}
