package stage

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rehearse-k8s/rehearse/api/kwok/v1alpha1"
	"github.com/rehearse-k8s/rehearse/internal/stage/stagetest"
)

const head = "apiVersion: kwok.x-k8s.io/v1alpha1\nkind: Stage\nmetadata: {name: s}\n"

// fileLine matches a file and its line, which TestLines checks.
var fileLine = regexp.MustCompile(`^f\.yaml(:\d+)?:`)

func TestLoadRejects(t *testing.T) {
	spec := func(text string) string { return head + "spec: {resourceRef: {kind: Pod}, " + text + "}" }
	for name, c := range map[string]struct{ yaml, want string }{
		"no yaml":             {"a: [", "f.yaml: yaml: did not find expected node content"},
		"nothing":             {"# only a comment\n---\n", "f.yaml: no Stage in this file"},
		"other kind":          {"apiVersion: v1\nkind: Pod\nmetadata: {name: p}", `f.yaml: stage p: kind: this is kind "Pod" of apiVersion "v1"; want kind Stage of apiVersion kwok.x-k8s.io/v1alpha1`},
		"other version":       {"apiVersion: kwok.x-k8s.io/v1beta1\nkind: Stage\nmetadata: {name: p}", `f.yaml: stage p: kind: this is kind "Stage" of apiVersion "kwok.x-k8s.io/v1beta1"; want kind Stage of apiVersion kwok.x-k8s.io/v1alpha1`},
		"unknown field":       {spec("selector: {}, nxt: {delete: true}"), `f.yaml: stage s: spec.nxt: unknown field`},
		"doubled field":       {spec("selector: {}, selector: {}, next: {delete: true}"), `f.yaml: yaml: key "selector" already set in map`},
		"wrong type":          {spec("selector: {}, weight: heavy, next: {delete: true}"), "f.yaml: stage s: spec.weight: is a string and must be of type int"},
		"second document":     {spec("selector: {}, next: {delete: true}") + "\n---\nkind: Stage", `f.yaml: kind: document 2: this is kind "Stage" of apiVersion ""; want kind Stage of apiVersion kwok.x-k8s.io/v1alpha1`},
		"no name":             {strings.Replace(spec("selector: {}, next: {delete: true}"), "name: s", "name: ''", 1), "f.yaml: metadata.name: is required"},
		"doubled name":        {spec("selector: {}, next: {delete: true}") + "\n---\n" + spec("selector: {}, next: {delete: true}"), "f.yaml: stage s: metadata.name: another stage has this name"},
		"no kind":             {head + "spec: {selector: {}, next: {delete: true}}", "f.yaml: stage s: spec.resourceRef.kind: is required"},
		"no group":            {head + "spec: {resourceRef: {apiGroup: v2, kind: Deployment}, selector: {}, next: {delete: true}}", `f.yaml: stage s: spec.resourceRef.apiGroup: "v2" has no group; write group and version, such as apps/v1`},
		"no group version":    {head + "spec: {resourceRef: {apiGroup: a/b/c, kind: Deployment}, selector: {}, next: {delete: true}}", `f.yaml: stage s: spec.resourceRef.apiGroup: "a/b/c" is not a group and version such as apps/v1`},
		"no name of a kind":   {head + "spec: {resourceRef: {kind: Pod/x}, selector: {}, next: {delete: true}}", `f.yaml: stage s: spec.resourceRef.kind: "Pod/x" is not the name of a kind`},
		"cel":                 {spec("selector: {matchExpressions: [{cel: {expression: 'self.'}}]}, next: {delete: true}"), `f.yaml: stage s: spec.selector.matchExpressions[0].cel.expression: cel "self.": Syntax error: no viable alternative at input '.'`},
		"cel reads the clock": {spec("selector: {matchExpressions: [{cel: {expression: 'self.SinceSecond() > 5.0'}}]}, next: {delete: true}"), `f.yaml: stage s: spec.selector.matchExpressions[0].cel.expression: cel "self.SinceSecond() > 5.0": the time may not be read in a selector: nothing wakes the object when time passes; use a delay`},
		"cel empty":           {spec("selector: {matchExpressions: [{cel: {}}]}, next: {delete: true}"), "f.yaml: stage s: spec.selector.matchExpressions[0].cel.expression: is empty"},
		"weight cel":          {spec("selector: {}, weightFrom: {cel: {expression: 'nope'}}, next: {delete: true}"), `f.yaml: stage s: spec.weightFrom.cel.expression: cel "nope": undeclared reference to 'nope' (in container '')`},
		"apply type":          {spec("selector: {}, steps: [{apply: {template: 'x', type: json}}]"), `f.yaml: stage s: spec.steps[0].apply.type: "json" is not one of apply, merge, strategic`},
		"apply template":      {spec("selector: {}, steps: [{apply: {}}]"), `f.yaml: stage s: spec.steps[0].apply.template: is required`},
		"strategic":           {head + "spec: {resourceRef: {apiGroup: example.com/v1, kind: W}, selector: {}, steps: [{patch: {type: strategic, template: 'a: b'}}]}", `f.yaml: stage s: spec.steps[0].patch.type: the API does not support strategic merge patches of W.example.com/v1, a custom resource; use type merge`},
		"root":                {spec("selector: {}, steps: [{patch: {root: a/b, template: 'a: b'}}]"), `f.yaml: stage s: spec.steps[0].patch.root: "a/b" has characters other than letters, digits, - and _`},
		"user":                {spec("selector: {}, steps: [{patch: {template: 'a: b', impersonation: {username: ''}}}]"), `f.yaml: stage s: spec.steps[0].patch.impersonation.username: is required`},
		"empty user name":     {spec("selector: {}, next: {statusTemplate: 'a: b', statusPatchAs: {username: ''}}"), `f.yaml: stage s: spec.next.statusPatchAs.username: is required`},
		"environment":         {spec("selector: {}, next: {statusTemplate: 'phase: {{ env \"HOME\" }}'}"), "f.yaml: stage s: spec.next.statusTemplate: function env may not be used: it reads the environment"},
		"empty expression":    {spec("selector: {matchExpressions: [{}]}, next: {delete: true}"), "f.yaml: stage s: spec.selector.matchExpressions[0]: is empty: it needs jq or cel"},
		"operator":            {spec("selector: {matchExpressions: [{key: .a, operator: Intersection, values: [x]}]}, next: {delete: true}"), `f.yaml: stage s: spec.selector.matchExpressions[0].operator: "Intersection" is not one of In, NotIn, Exists, DoesNotExist`},
		"values missing":      {spec("selector: {matchExpressions: [{key: .a, operator: In}]}, next: {delete: true}"), "f.yaml: stage s: spec.selector.matchExpressions[0].values: must not be empty for operator In"},
		"values too many":     {spec("selector: {matchExpressions: [{key: .a, operator: Exists, values: [x]}]}, next: {delete: true}"), "f.yaml: stage s: spec.selector.matchExpressions[0].values: must be empty for operator Exists"},
		"no key":              {spec("selector: {matchExpressions: [{operator: Exists}]}, next: {delete: true}"), "f.yaml: stage s: spec.selector.matchExpressions[0].key: is required"},
		"bad jq":              {spec("selector: {matchExpressions: [{key: '.a |', operator: Exists}]}, next: {delete: true}"), `f.yaml: stage s: spec.selector.matchExpressions[0].key: jq ".a |": unexpected EOF`},
		"unknown jq":          {spec("selector: {matchExpressions: [{key: 'frobnicate', operator: Exists}]}, next: {delete: true}"), `f.yaml: stage s: spec.selector.matchExpressions[0].key: jq "frobnicate": function not defined: frobnicate/0`},
		"jq reads the clock":  {spec("selector: {matchExpressions: [{key: 'now', operator: Exists}]}, next: {delete: true}"), `f.yaml: stage s: spec.selector.matchExpressions[0].key: jq "now": now may not be used in a selector: nothing wakes the object when time passes; use a delay`},
		"jq reads the env":    {spec("selector: {matchExpressions: [{key: '.x | select($ENV.HOME)', operator: Exists}]}, next: {delete: true}"), `f.yaml: stage s: spec.selector.matchExpressions[0].key: jq ".x | select($ENV.HOME)": $ENV may not be used: it reads the environment`},
		"weight":              {spec("selector: {}, weight: -1, next: {delete: true}"), "f.yaml: stage s: spec.weight: must not be negative"},
		"delay empty":         {spec("selector: {}, delay: {durationFrom: {}}, next: {delete: true}"), "f.yaml: stage s: spec.delay.durationFrom: is empty: it needs jq or cel"},
		"no next":             {spec("selector: {}"), "f.yaml: stage s: spec.steps: a stage needs steps or next"},
		"empty step":          {spec("selector: {}, steps: [{}]"), "f.yaml: stage s: spec.steps[0]: is empty: it needs an event, finalizers, delete, patch or apply"},
		"patch type":          {spec("selector: {}, steps: [{patch: {subresource: status, root: status, type: x, template: '[]'}}]"), `f.yaml: stage s: spec.steps[0].patch.type: "x" is not one of json, merge, strategic`},
		"no template":         {spec("selector: {}, next: {patches: [{subresource: status, root: status}]}"), "f.yaml: stage s: spec.next.patches[0].template: is required"},
		"bad template":        {spec("selector: {}, next: {statusTemplate: 'phase: {{ .x'}"), "f.yaml: stage s: spec.next.statusTemplate: template:1: unclosed action"},
		"unknown function":    {spec("selector: {}, next: {statusTemplate: 'phase: {{ Frob }}'}"), `f.yaml: stage s: spec.next.statusTemplate: template:1: function "Frob" not defined`},
		"event type":          {spec("selector: {}, next: {event: {type: Bad}}"), `f.yaml: stage s: spec.next.event.type: "Bad" is not Normal or Warning`},
		"finalizer":           {spec("selector: {}, next: {finalizers: {add: [{}]}}"), "f.yaml: stage s: spec.next.finalizers.add[0].value: is required"},
		"finalizer removed":   {spec("selector: {}, next: {finalizers: {remove: [{}]}}"), "f.yaml: stage s: spec.next.finalizers.remove[0].value: is required"},
	} {
		t.Run(name, func(t *testing.T) {
			stages, err := Load("f.yaml", []byte(c.yaml))
			if err == nil {
				t.Fatalf("accepted: %+v", stages)
			}
			if diff := cmp.Diff(c.want, fileLine.ReplaceAllString(err.Error(), "f.yaml:")); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			var e *Error
			if !errors.As(err, &e) || e.File != "f.yaml" {
				t.Errorf("no *Error with the file: %#v", err)
			}
		})
	}
}

func TestLoadReportsEveryStage(t *testing.T) {
	bad := head + "spec: {resourceRef: {kind: Pod}, selector: {}, weight: -1, next: {delete: true}}"
	_, err := Load("f.yaml", []byte(bad+"\n---\n"+strings.Replace(bad, "name: s", "name: other", 1)))
	if err == nil || !strings.Contains(err.Error(), "stage s:") || !strings.Contains(err.Error(), "stage other:") {
		t.Errorf("got %v", err)
	}
}

// TestEveryFieldDecodes checks that a file with every field of KWOK's API decodes strictly, so that
// the file can only be rejected for its values.
func TestEveryFieldDecodes(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("testdata", "every-field.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	stages, bad := decode("every-field.yaml", data)
	if bad != nil {
		t.Fatal(bad)
	}
	if len(stages) != 2 || stages[0].Stage.Spec.Steps[0].Apply.Impersonation.Username != "me" {
		t.Errorf("got %+v", stages)
	}
	copied := stages[0].Stage.DeepCopyObject().(*v1alpha1.Stage)
	if diff := cmp.Diff(stages[0].Stage, copied); diff != "" {
		t.Errorf("the copy differs: %s", diff)
	}
}

func TestBuiltin(t *testing.T) {
	if diff := cmp.Diff([]string{
		"node-chaos", "node-devices", "node-fast", "node-heartbeat", "pod-chaos", "pod-fast", "pod-general", "volume-attach", "volume-fast",
	}, BuiltinNames()); diff != "" {
		t.Error(diff)
	}
	set := mustBuiltin(t, "builtin:node-fast", "builtin:node-heartbeat", "pod-fast")
	want := []string{"pod-complete", "pod-delete", "pod-gate-closed", "pod-observed", "pod-ready", "pod-ready-again", "pod-terminate"}
	if diff := cmp.Diff(want, set.Names(KindPod)); diff != "" {
		t.Error(diff)
	}
	// Every program of a built-in stage is compiled to a closure and needs no JSON.
	for _, set := range builtinSets(t) {
		for _, kind := range set.Kinds() {
			for _, c := range set.stages(kind) {
				for _, r := range c.Requirements {
					if r.Query.Interpreted() {
						t.Errorf("%s: %s runs as jq", c.Name, r.Text)
					}
				}
				from := []*Expression{c.weightFrom}
				if c.delay != nil {
					from = append(from, c.delay.baseFrom, c.delay.jitterFrom)
				}
				for _, x := range from {
					if x != nil && x.JQ.Interpreted() {
						t.Errorf("%s: %s runs as jq", c.Name, x.Field)
					}
				}
			}
		}
	}
	if _, err := Builtin("builtin:nope"); err == nil || err.Error() != "builtin:nope: unknown built-in file; known: node-chaos, node-devices, node-fast, node-heartbeat, pod-chaos, pod-fast, pod-general, volume-attach, volume-fast" {
		t.Errorf("got %v", err)
	}
}

func TestExplain(t *testing.T) {
	got := mustBuiltin(t, "pod-fast").Explain(stagetest.NewPod(), Scene{})
	want := []Explanation{
		{Stage: "pod-complete", Because: `.status.phase In ["Running"]`, Got: "Pending"},
		{Stage: "pod-delete", Because: ".metadata.deletionTimestamp Exists", Got: "nothing"},
		{Stage: "pod-gate-closed", Because: `.status.phase In ["Running"]`, Got: "Pending"},
		{Stage: "pod-observed", Because: `.status.phase In ["Running"]`, Got: "Pending"},
		{Stage: "pod-ready", Matches: true},
		{Stage: "pod-ready-again", Because: "the pod's node is not Ready"},
		{Stage: "pod-terminate", Because: ".metadata.deletionTimestamp Exists", Got: "nothing"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// FuzzLoad checks that Load returns stages that can be compiled and played, or an error that names
// the file, and never panics.
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
		set, err := Compile(stages)
		if err != nil {
			t.Fatalf("loaded, but does not compile: %v", err)
		}
		for _, o := range []Object{stagetest.NewPod(stagetest.Running), stagetest.NewNode(), widget(t, ``)} {
			d := set.Decide(stagetest.Start, 1, o, Past{}, Scene{NodeReady: true})
			if _, err := set.Play(stagetest.Start, o, d, stagetest.Facts{}); err != nil && !errors.As(err, new(*Error)) {
				t.Fatalf("an error without its stage: %v", err)
			}
		}
	})
}

// TestList checks that stages in a List, as kubectl prints them, equal separate ones, and that
// errors name the item and its line.
func TestList(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("..", "internal", "stage", "lint", "testdata", "list.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	_, _, bad := LoadGood(File{Name: "f", Data: data})
	var got []string
	for _, e := range bad {
		got = append(got, e.Error())
	}
	want := []string{
		"f:21: stage first: spec.next.retries: unknown field",
		`f:32: stage none: kind: this is kind "Pod" of apiVersion "v1"; want kind Stage of apiVersion kwok.x-k8s.io/v1alpha1`,
		"f:34: item 4: " + noStage,
		"f:29: stage second: spec.weight: must not be negative",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	one := podStage("a", "weight: 2")
	alone, err := Load("f", []byte(one))
	if err != nil {
		t.Fatal(err)
	}
	listed, err := Load("f", []byte("kind: StageList\napiVersion: kwok.x-k8s.io/v1alpha1\nitems:\n- "+strings.ReplaceAll(strings.Trim(one, "\n-"), "\n", "\n  ")))
	if err != nil || !reflect.DeepEqual(listed, alone) {
		t.Errorf("%v\n%s", err, cmp.Diff(alone, listed))
	}
}

// TestLines checks that an error names the line of the invalid field.
func TestLines(t *testing.T) {
	text := `# a comment
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata:
  name: first
spec:
  resourceRef: {kind: Pod}
  selector: {}
  next:
    patches:
    - subresource: status
      template: "a: b"
    - subresource: status
      template: "{{ nothing }}"
--- # the second
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata:
  name: second
spec:
  resourceRef:
    kind: Pod
  selector: {}
  weight: -1
  next: {delete: true}
---
a: [
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: third}
spec:
  resourceRef: {kind: Pod}
  wait: 5
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: good}
spec:
  resourceRef: {kind: Pod}
  selector: {}
  next: {delete: true}
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: dropped}
spec:
  resourceRef: {kind: Pod}
  next: {delete: true}
`
	set, stages, bad := LoadGood(File{Name: "f.yaml", Data: []byte(text)})
	var got []string
	for _, e := range bad {
		got = append(got, e.Error())
	}
	want := []string{
		"f.yaml:27: document 3: yaml: did not find expected node content",
		"f.yaml:34: stage third: spec.wait: unknown field",
		`f.yaml:14: stage first: spec.next.patches[1].template: template:1: function "nothing" not defined`,
		"f.yaml:24: stage second: spec.weight: must not be negative",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if len(stages) != 2 || stages[0].Name != "good" {
		t.Errorf("the good ones: %v", stages)
	}
	if diff := cmp.Diff([]string{"good"}, set.Names(KindPod)); diff != "" {
		t.Error(diff)
	}
	if w := set.Warnings(); len(w) != 1 || w[0].Error() != "f.yaml:47: stage dropped: spec.selector: a stage without a selector matches nothing; write {} to match every object" {
		t.Errorf("warnings: %v", w)
	}
}

// TestWarnings checks that Load reports fields that another field makes ineffective, and that the
// stage works as in KWOK.
func TestWarnings(t *testing.T) {
	spec := func(text string) string { return head + "spec: {resourceRef: {kind: Pod}, " + text + "}" }
	for want, yaml := range map[string]string{
		"spec.selector":                         spec("next: {delete: true}"),
		"spec.selector.matchExpressions[0]":     spec("selector: {matchExpressions: [{key: .a, jq: {key: .a, operator: Exists}}]}, next: {delete: true}"),
		"spec.selector.matchExpressions[0].cel": spec("selector: {matchExpressions: [{cel: {expression: 'true'}, jq: {key: .a, operator: Exists}}]}, next: {delete: true}"),
		"spec.weightFrom.cel":                   spec("selector: {}, weightFrom: {jq: {expression: .a}, cel: {expression: 'self.a'}}, next: {delete: true}"),
		"spec.next.statusTemplate":              spec("selector: {}, next: {statusTemplate: 'a: b', patches: [{template: 'a: b'}]}"),
		"spec.next":                             spec("selector: {}, next: {delete: true}, steps: [{delete: true}]"),
		"spec.delay.jitterDurationMilliseconds": spec("selector: {}, delay: {durationMilliseconds: 10000, jitterDurationMilliseconds: 5000}, next: {delete: true}"),
	} {
		set, _, bad := LoadGood(File{Name: "f", Data: []byte(yaml)})
		if len(bad) > 0 || len(set.Warnings()) != 1 || set.Warnings()[0].Field != want || set.Warnings()[0].Line == 0 {
			t.Errorf("%s: %v %v", want, bad, set.Warnings())
		}
	}
}

func TestCompileGood(t *testing.T) {
	stages, err := Load("f", []byte(podStage("a", "")+podStage("b", "")))
	if err != nil {
		t.Fatal(err)
	}
	stages[0].Spec.Weight = -1
	stages = append(stages, stages[1])
	set, bad := CompileGood(stages)
	if diff := cmp.Diff([]string{"b"}, set.Names(KindPod)); diff != "" || len(bad) != 2 || bad[0].Error() != "stage a: spec.weight: must not be negative" {
		t.Errorf("%s %v", diff, bad)
	}
	if _, err := Compile(stages); err == nil {
		t.Error("the strict form takes bad stages")
	}
}
