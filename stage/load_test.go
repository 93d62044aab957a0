package stage

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rehearse-k8s/rehearse/api/v1alpha1"
)

const head = "apiVersion: kwok.x-k8s.io/v1alpha1\nkind: Stage\nmetadata: {name: s}\n"

func TestLoadRefuses(t *testing.T) {
	spec := func(text string) string { return head + "spec: {resourceRef: {kind: Pod}, " + text + "}" }
	for name, c := range map[string]struct{ yaml, want string }{
		"no yaml":            {"a: [", "f.yaml: yaml: line 1: did not find expected node content"},
		"nothing":            {"# only a comment\n---\n", "f.yaml: no Stage in this file"},
		"other kind":         {"apiVersion: v1\nkind: Pod\nmetadata: {name: p}", `f.yaml: stage p: this is kind "Pod" of apiVersion "v1"; only kind Stage of apiVersion kwok.x-k8s.io/v1alpha1 is read`},
		"other version":      {"apiVersion: kwok.x-k8s.io/v1beta1\nkind: Stage\nmetadata: {name: p}", `f.yaml: stage p: this is kind "Stage" of apiVersion "kwok.x-k8s.io/v1beta1"; only kind Stage of apiVersion kwok.x-k8s.io/v1alpha1 is read`},
		"unknown field":      {spec("selector: {}, nxt: {delete: true}"), `f.yaml: stage s: unknown field "spec.nxt"`},
		"doubled field":      {spec("selector: {}, selector: {}, next: {delete: true}"), `f.yaml: yaml: unmarshal errors:` + "\n" + `  line 4: key "selector" already set in map`},
		"wrong type":         {spec("selector: {}, weight: heavy, next: {delete: true}"), "f.yaml: stage s: json: cannot unmarshal string into Go struct field StageSpec.spec.weight of type int"},
		"second document":    {spec("selector: {}, next: {delete: true}") + "\n---\nkind: Stage", `f.yaml: document 2: this is kind "Stage" of apiVersion ""; only kind Stage of apiVersion kwok.x-k8s.io/v1alpha1 is read`},
		"no name":            {strings.Replace(spec("selector: {}, next: {delete: true}"), "name: s", "name: ''", 1), "f.yaml: metadata.name: is required"},
		"doubled name":       {spec("selector: {}, next: {delete: true}") + "\n---\n" + spec("selector: {}, next: {delete: true}"), "f.yaml: stage s: metadata.name: another stage has this name"},
		"no kind":            {head + "spec: {selector: {}, next: {delete: true}}", "f.yaml: stage s: spec.resourceRef.kind: is required"},
		"other resource":     {head + "spec: {resourceRef: {apiGroup: apps/v1, kind: Deployment}, selector: {}, next: {delete: true}}", "f.yaml: stage s: spec.resourceRef: not supported yet: apps/v1 Deployment; only v1 Node and v1 Pod are"},
		"no selector":        {spec("next: {delete: true}"), "f.yaml: stage s: spec.selector: a stage without a selector matches nothing; write {} to match every object"},
		"cel":                {spec("selector: {matchExpressions: [{cel: {expression: 'true'}}]}, next: {delete: true}"), "f.yaml: stage s: spec.selector.matchExpressions[0].cel: not supported yet: write the requirement with jq"},
		"empty expression":   {spec("selector: {matchExpressions: [{}]}, next: {delete: true}"), "f.yaml: stage s: spec.selector.matchExpressions[0]: is empty: it needs jq"},
		"both forms":         {spec("selector: {matchExpressions: [{key: .a, jq: {key: .a, operator: Exists}}]}, next: {delete: true}"), "f.yaml: stage s: spec.selector.matchExpressions[0]: write either jq or key, operator and values, not both"},
		"operator":           {spec("selector: {matchExpressions: [{key: .a, operator: Intersection, values: [x]}]}, next: {delete: true}"), `f.yaml: stage s: spec.selector.matchExpressions[0].operator: "Intersection" is not one of In, NotIn, Exists, DoesNotExist`},
		"values missing":     {spec("selector: {matchExpressions: [{key: .a, operator: In}]}, next: {delete: true}"), "f.yaml: stage s: spec.selector.matchExpressions[0].values: must not be empty for operator In"},
		"values too many":    {spec("selector: {matchExpressions: [{key: .a, operator: Exists, values: [x]}]}, next: {delete: true}"), "f.yaml: stage s: spec.selector.matchExpressions[0].values: must be empty for operator Exists"},
		"no key":             {spec("selector: {matchExpressions: [{operator: Exists}]}, next: {delete: true}"), "f.yaml: stage s: spec.selector.matchExpressions[0].key: is required"},
		"bad jq":             {spec("selector: {matchExpressions: [{key: '.a |', operator: Exists}]}, next: {delete: true}"), `f.yaml: stage s: spec.selector.matchExpressions[0].key: jq ".a |": unexpected EOF`},
		"unknown jq":         {spec("selector: {matchExpressions: [{key: 'frobnicate', operator: Exists}]}, next: {delete: true}"), `f.yaml: stage s: spec.selector.matchExpressions[0].key: jq "frobnicate": function not defined: frobnicate/0`},
		"jq reads the clock": {spec("selector: {matchExpressions: [{key: 'now', operator: Exists}]}, next: {delete: true}"), `f.yaml: stage s: spec.selector.matchExpressions[0].key: jq "now": now may not be used in a selector: nothing wakes the object when time passes; use a delay`},
		"jq reads the env":   {spec("selector: {matchExpressions: [{key: '.x | select($ENV.HOME)', operator: Exists}]}, next: {delete: true}"), `f.yaml: stage s: spec.selector.matchExpressions[0].key: jq ".x | select($ENV.HOME)": $ENV may not be used: it reads the environment`},
		"weight":             {spec("selector: {}, weight: -1, next: {delete: true}"), "f.yaml: stage s: spec.weight: must not be negative"},
		"weightFrom":         {spec("selector: {}, weightFrom: {jq: {expression: '.a'}}, next: {delete: true}"), "f.yaml: stage s: spec.weightFrom: not supported yet"},
		"delay cel":          {spec("selector: {}, delay: {durationFrom: {cel: {expression: '1'}}}, next: {delete: true}"), "f.yaml: stage s: spec.delay.durationFrom.cel: not supported yet: write the expression with jq"},
		"jitter cel":         {spec("selector: {}, delay: {jitterDurationFrom: {cel: {expression: '1'}}}, next: {delete: true}"), "f.yaml: stage s: spec.delay.jitterDurationFrom.cel: not supported yet: write the expression with jq"},
		"delay empty":        {spec("selector: {}, delay: {durationFrom: {}}, next: {delete: true}"), "f.yaml: stage s: spec.delay.durationFrom.expressionFrom: is empty"},
		"no next":            {spec("selector: {}"), "f.yaml: stage s: spec.steps: a stage needs steps or next"},
		"apply":              {spec("selector: {}, steps: [{delete: true}, {apply: {template: 'x'}}]"), "f.yaml: stage s: spec.steps[1].apply: not supported yet"},
		"empty step":         {spec("selector: {}, steps: [{}]"), "f.yaml: stage s: spec.steps[0]: is empty: it needs an event, finalizers, delete or patch"},
		"json patch":         {spec("selector: {}, steps: [{patch: {subresource: status, root: status, type: json, template: '[]'}}]"), "f.yaml: stage s: spec.steps[0].patch.type: not supported yet: json; merge and strategic are"},
		"patch type":         {spec("selector: {}, steps: [{patch: {subresource: status, root: status, type: x, template: '[]'}}]"), `f.yaml: stage s: spec.steps[0].patch.type: "x" is not one of json, merge, strategic`},
		"main resource":      {spec("selector: {}, next: {patches: [{root: status, template: 'a: b'}]}"), `f.yaml: stage s: spec.next.patches[0].subresource: not supported yet: ""; only status is`},
		"other root":         {spec("selector: {}, next: {patches: [{subresource: status, root: metadata, template: 'a: b'}]}"), `f.yaml: stage s: spec.next.patches[0].root: not supported yet: "metadata"; only status is`},
		"impersonation":      {spec("selector: {}, next: {patches: [{subresource: status, root: status, template: 'a: b', impersonation: {username: u}}]}"), "f.yaml: stage s: spec.next.patches[0].impersonation: not supported yet"},
		"no template":        {spec("selector: {}, next: {patches: [{subresource: status, root: status}]}"), "f.yaml: stage s: spec.next.patches[0].template: is required"},
		"patch as":           {spec("selector: {}, next: {statusTemplate: 'a: b', statusPatchAs: {username: u}}"), "f.yaml: stage s: spec.next.statusPatchAs: not supported yet"},
		"other subresource":  {spec("selector: {}, next: {statusTemplate: 'a: b', statusSubresource: ''}"), `f.yaml: stage s: spec.next.statusSubresource: not supported yet: ""; only status is`},
		"both templates":     {spec("selector: {}, next: {statusTemplate: 'a: b', patches: [{template: x}]}"), "f.yaml: stage s: spec.next.statusTemplate: is not used where there are patches; remove one of the two"},
		"bad template":       {spec("selector: {}, next: {statusTemplate: 'phase: {{ .x'}"), "f.yaml: stage s: spec.next.statusTemplate: template:1: unclosed action"},
		"unknown function":   {spec("selector: {}, next: {statusTemplate: 'phase: {{ Frob }}'}"), `f.yaml: stage s: spec.next.statusTemplate: template:1: function "Frob" not defined`},
		"impure function":    {spec("selector: {}, next: {statusTemplate: 'phase: {{ uuidv4 }}'}"), "f.yaml: stage s: spec.next.statusTemplate: function uuidv4 may not be used: it is random"},
		"event type":         {spec("selector: {}, next: {event: {type: Bad}}"), `f.yaml: stage s: spec.next.event.type: "Bad" is not Normal or Warning`},
		"finalizer":          {spec("selector: {}, next: {finalizers: {add: [{}]}}"), "f.yaml: stage s: spec.next.finalizers.add[0].value: is required"},
		"finalizer removed":  {spec("selector: {}, next: {finalizers: {remove: [{}]}}"), "f.yaml: stage s: spec.next.finalizers.remove[0].value: is required"},
	} {
		t.Run(name, func(t *testing.T) {
			stages, err := Load("f.yaml", []byte(c.yaml))
			if err == nil {
				t.Fatalf("accepted: %+v", stages)
			}
			if diff := cmp.Diff(c.want, err.Error()); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			var e *Error
			if !errors.As(err, &e) || e.File != "f.yaml" {
				t.Errorf("no *Error with the file: %#v", err)
			}
		})
	}
}

func TestLoadTellsOfEveryStage(t *testing.T) {
	bad := head + "spec: {resourceRef: {kind: Pod}, selector: {}, weight: -1, next: {delete: true}}"
	_, err := Load("f.yaml", []byte(bad+"\n---\n"+strings.Replace(bad, "name: s", "name: other", 1)))
	if err == nil || !strings.Contains(err.Error(), "stage s:") || !strings.Contains(err.Error(), "stage other:") {
		t.Errorf("got %v", err)
	}
}

// TestEveryFieldDecodes: a file that uses all of KWOK's API decodes strictly,
// so that it can be refused for what it asks and not for how it is spelled.
func TestEveryFieldDecodes(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("testdata", "every-field.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	stages, err := decode("every-field.yaml", data)
	if err != nil {
		t.Fatal(err)
	}
	if len(stages) != 2 || stages[0].Spec.Steps[0].Apply.Impersonation.Username != "me" {
		t.Errorf("got %+v", stages)
	}
	copied := stages[0].DeepCopyObject().(*v1alpha1.Stage)
	if diff := cmp.Diff(&stages[0], copied); diff != "" {
		t.Errorf("the copy differs: %s", diff)
	}
}

func TestBuiltin(t *testing.T) {
	if diff := cmp.Diff([]string{"node-fast", "node-heartbeat", "pod-fast"}, BuiltinNames()); diff != "" {
		t.Error(diff)
	}
	set := mustBuiltin(t, "builtin:node-fast", "builtin:node-heartbeat", "pod-fast")
	want := []string{"pod-complete", "pod-delete", "pod-gate-closed", "pod-ready", "pod-ready-again", "pod-terminate"}
	if diff := cmp.Diff(want, set.Names(KindPod)); diff != "" {
		t.Error(diff)
	}
	// Every selector of a built-in stage is a closure: no JSON at rest.
	for _, c := range append(append([]*compiled{}, set.pods...), set.nodes...) {
		for _, r := range c.requirements {
			if r.query.native == nil {
				t.Errorf("%s: %s runs as jq", c.name, r.text)
			}
		}
	}
	if _, err := Builtin("builtin:nope"); err == nil || err.Error() != "builtin:nope: there is no such built-in file; there are node-fast, node-heartbeat, pod-fast" {
		t.Errorf("got %v", err)
	}
}

func TestExplain(t *testing.T) {
	got := mustBuiltin(t, "pod-fast").Explain(newPod(), Scene{})
	want := []Explanation{
		{Stage: "pod-complete", Because: `.status.phase In ["Running"]`},
		{Stage: "pod-delete", Because: ".metadata.deletionTimestamp Exists"},
		{Stage: "pod-gate-closed", Because: `.status.phase In ["Running"]`},
		{Stage: "pod-ready", Matches: true},
		{Stage: "pod-ready-again", Because: "the pod's node is not Ready"},
		{Stage: "pod-terminate", Because: ".metadata.deletionTimestamp Exists"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// FuzzLoad: whatever is in a file, Load answers with stages that compile and can
// be played, or with an error that names the file; it never panics.
func FuzzLoad(f *testing.F) {
	for _, name := range BuiltinNames() {
		data, _ := BuiltinFile(name)
		f.Add(data)
	}
	data, err := os.ReadFile(filepath.Join("testdata", "every-field.yaml"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte(podStage("a", "weight: 2") + podStage("b", "delay: {jitterDurationMilliseconds: 5}")))
	f.Fuzz(func(t *testing.T, data []byte) {
		stages, err := Load("fuzz.yaml", data)
		if err != nil {
			var e *Error
			if !errors.As(err, &e) || e.File != "fuzz.yaml" {
				t.Fatalf("error without its file: %v", err)
			}
			return
		}
		if _, err := Compile(stages); err != nil {
			t.Fatalf("loaded, but does not compile: %v", err)
		}
	})
}
