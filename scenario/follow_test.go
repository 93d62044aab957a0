package scenario_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/viewtest"
	"github.com/rehearse-k8s/rehearse/scenario"
)

// player plays one run for the invariants of a scenario: it checks those of Always after each write, as rehearse test
// does, and those of Eventually at the end.
type player struct {
	*viewtest.Script
	all      scenario.Invariants
	resource string // of the owner
	owner    map[string]any
	pods     map[string]map[string]any
	violated []string
}

// play starts a run of an owner that the user creates and the controller c observes.
func play(s *scenario.Scenario, resource, apiVersion, kind string, spec map[string]any) *player {
	p := &player{Script: viewtest.NewScript(), all: s.Invariants(), resource: resource, pods: map[string]map[string]any{}}
	p.Watch(3, "clonesets.apps.kruise.io", "")
	p.owner = map[string]any{"apiVersion": apiVersion, "kind": kind, "spec": spec, "status": map[string]any{},
		"metadata": map[string]any{"namespace": "default", "name": "web", "uid": "uid-web", "generation": int64(1)}}
	p.see(p.wrote("user", "create", resource, "web", p.owner))
	return p
}

// wrote records a write of an object and checks the invariants of Always.
func (p *player) wrote(actor, verb, resource, name string, object map[string]any, causes ...int) int {
	n := p.Add(history.Step{Kind: history.Request, Actor: actor, Verb: verb, Code: 200, Before: 1, Revision: p.Revision + 1,
		Object: history.Object{Resource: resource, Namespace: "default", Name: name, UID: "uid-" + name}}, causes...)
	object["metadata"].(map[string]any)["resourceVersion"] = fmt.Sprint(p.Revision)
	p.Objects = map[string][]*unstructured.Unstructured{p.resource: {(&unstructured.Unstructured{Object: p.owner}).DeepCopy()}}
	for _, pod := range slices.Sorted(maps.Keys(p.pods)) {
		p.Objects["pods"] = append(p.Objects["pods"], (&unstructured.Unstructured{Object: p.pods[pod]}).DeepCopy())
	}
	for _, i := range p.all.Always {
		if err := i.Check(p); err != nil && !slices.Contains(p.violated, i.Name) {
			p.violated = append(p.violated, i.Name)
		}
	}
	return n
}

// see delivers the event of a write of the owner to the controller.
func (p *player) see(write int) int {
	return p.Frame(map[string]int{"jobs.batch": 2, "clonesets.apps.kruise.io": 3}[p.resource], write)
}

// create has the controller create a pod of the owner, decided at a step.
func (p *player) create(name string, decided int) {
	p.pods[name] = map[string]any{
		"metadata": map[string]any{"namespace": "default", "name": name, "uid": "uid-" + name, "labels": map[string]any{"app": "web"},
			"ownerReferences": []any{map[string]any{"apiVersion": p.owner["apiVersion"], "kind": p.owner["kind"], "name": "web", "uid": "uid-web", "controller": true}}},
		"status": map[string]any{"phase": "Running"},
	}
	p.Frame(1, p.wrote("c", "create", "pods", name, p.pods[name], decided))
}

// status writes the phase of a pod.
func (p *player) status(name, phase string) {
	p.pods[name]["status"] = map[string]any{"phase": phase}
	p.Frame(1, p.wrote("kubelet", "update", "pods", name, p.pods[name]))
}

// finish writes conditions of the owner as the controller.
func (p *player) finish(conditions ...string) {
	var all []any
	for _, c := range conditions {
		all = append(all, map[string]any{"type": c, "status": "True"})
	}
	p.owner["status"] = map[string]any{"conditions": all, "succeeded": int64(1)}
	p.see(p.wrote("c", "update", p.resource, "web", p.owner))
}

// now is a step at which a reconcile starts.
func (p *player) now() int { return p.Add(history.Step{Kind: history.Time}) }

// end returns the invariants that are violated at the end.
func (p *player) end() (violated []string) {
	for _, i := range p.all.Eventually {
		if err := i.Check(p); err != nil {
			violated = append(violated, i.Name)
		}
	}
	return violated
}

// oneJob is the spec of a Job of one pod.
func oneJob() map[string]any {
	return map[string]any{"parallelism": int64(1), "completions": int64(1), "backoffLimit": int64(6), "completionMode": "NonIndexed",
		"selector": map[string]any{"matchLabels": map[string]any{"app": "web"}}, "template": map[string]any{}}
}

const jobOracle = "  invariants: {always: [{oracle: Job, with: {name: web}}]}\n"

// TestJobOracle plays a right and three wrong controllers of Jobs.
func TestJobOracle(t *testing.T) {
	for _, c := range []struct {
		name string
		play func(p *player)
		want string // a part of what is violated during the run
		end  bool   // whether the invariant of the end holds
	}{
		{"the pod is created once and counted", func(p *player) {
			p.create("a", p.now())
			p.status("a", "Succeeded")
			p.finish("SuccessCriteriaMet", "Complete")
		}, "", true},
		{"two pods are created at once", func(p *player) {
			p.create("a", p.now())
			p.create("b", p.now())
		}, "beyond its parallelism", false},
		{"a pod is created after the Job is complete", func(p *player) {
			p.create("a", p.now())
			p.status("a", "Succeeded")
			p.finish("SuccessCriteriaMet", "Complete")
			p.create("b", p.now())
		}, "after its success or failure is decided", false},
		{"the pod has succeeded and the Job is never completed", func(p *player) {
			p.create("a", p.now())
			p.status("a", "Succeeded")
		}, "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := play(mustParse(t, "  clients: [{name: c}]\n"+jobOracle), "jobs.batch", "batch/v1", "Job", oneJob())
			c.play(p)
			if got := strings.Join(p.violated, "\n"); c.want == "" && got != "" || !strings.Contains(got, c.want) {
				t.Errorf("violated during the run: %q, want %q", got, c.want)
			}
			if got := p.end(); (len(got) == 0) != c.end {
				t.Errorf("violated at the end: %q; want none: %t", got, c.end)
			}
		})
	}
}

// TestCloneSetOracle plays a right and a wrong controller of CloneSets.
func TestCloneSetOracle(t *testing.T) {
	s := mustParse(t, "  clients: [{name: c}]\n  invariants: {always: [{oracle: CloneSet, with: {name: web}}]}\n")
	spec := func() map[string]any { return map[string]any{"replicas": int64(1), "template": map[string]any{}} }
	good := play(s, "clonesets.apps.kruise.io", "apps.kruise.io/v1alpha1", "CloneSet", spec())
	good.create("a", good.now())
	equal(t, "violated by one pod", []string(nil), good.violated)
	bad := play(s, "clonesets.apps.kruise.io", "apps.kruise.io/v1alpha1", "CloneSet", spec())
	bad.create("a", bad.now())
	bad.create("b", bad.now())
	equal(t, "violated by two pods", []string{"no pod of CloneSet default/web is created beyond replicas and maxSurge"}, bad.violated)
	equal(t, "violated at the end", []string{"CloneSet default/web has converged, or waits for others"}, bad.end())
}

// TestStaysOracle: the invariant may begin to hold at any time, but must not end.
func TestStaysOracle(t *testing.T) {
	s := mustParse(t, "  invariants: {always: [{oracle: Stays, with: {oracle: Exists, with: {resource: pods, name: a}}}]}\n")
	with, without := viewtest.NewWorld(t, "resource: pods\nmetadata: {namespace: default, name: a}\n"), viewtest.NewWorld(t, "")
	stays := s.Invariants().Always[0]
	viewtest.Check(t, stays, without, "")
	viewtest.Check(t, stays, with, "")
	viewtest.Check(t, stays, with, "")
	viewtest.Check(t, stays, without, "does not exist")
}

// TestInvariantsPerRun: invariants that follow a run do not carry what they recorded over to the next run.
func TestInvariantsPerRun(t *testing.T) {
	s := mustParse(t, "  invariants: {always: [{oracle: Stays, with: {oracle: Exists, with: {resource: pods, name: a}}}]}\n")
	with, without := viewtest.NewWorld(t, "resource: pods\nmetadata: {namespace: default, name: a}\n"), viewtest.NewWorld(t, "")
	first := s.Invariants().Always[0]
	viewtest.Check(t, first, with, "")
	viewtest.Check(t, s.Invariants().Always[0], without, "")
	viewtest.Check(t, first, without, "does not exist")

	jobs := mustParse(t, "  clients: [{name: c}]\n"+jobOracle)
	bad := play(jobs, "jobs.batch", "batch/v1", "Job", oneJob())
	bad.create("a", bad.now())
	bad.create("b", bad.now())
	good := play(jobs, "jobs.batch", "batch/v1", "Job", oneJob())
	good.create("a", good.now())
	if len(bad.violated) == 0 || len(good.violated) > 0 {
		t.Errorf("the first run violates %q, the second %q", bad.violated, good.violated)
	}
}
