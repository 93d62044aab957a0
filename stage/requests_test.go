package stage

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rehearse-k8s/rehearse/internal/stage/stagetest"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// widget is a custom resource.
func widget(t testing.TB, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	data, err := yaml.YAMLToJSON([]byte(`
apiVersion: example.com/v1
kind: Widget
metadata: {name: w, namespace: team, uid: uid-w, resourceVersion: "7"}
` + text))
	if err != nil {
		t.Fatal(err)
	}
	if err := u.UnmarshalJSON(data); err != nil {
		t.Fatal(err)
	}
	return u
}

func widgetStage(spec string) string {
	return head + "spec:\n  resourceRef: {apiGroup: example.com/v1, kind: Widget}\n  selector: {}\n" + spec
}

// formatEffects writes effects in lines.
func describe(t testing.TB, e Effects) string {
	t.Helper()
	var out strings.Builder
	if e.Write != WriteNothing {
		fmt.Fprintf(&out, "update\n")
	}
	for i := range e.Requests {
		r := &e.Requests[i]
		data, err := r.Payload("7")
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&out, "%d %s %s %s/%s", r.Step, map[Verb]string{VerbPatch: "patch", VerbApply: "apply"}[r.Verb], r.Kind, r.Namespace, r.Name)
		if r.Subresource != "" {
			fmt.Fprintf(&out, " %s", r.Subresource)
		}
		if r.As != "" {
			fmt.Fprintf(&out, " as %s", r.As)
		}
		kind := strings.TrimSuffix(strings.TrimPrefix(string(r.Type), "application/"), "-patch+json")
		fmt.Fprintf(&out, " %s %s\n", kind, data)
	}
	if e.Delete {
		fmt.Fprintf(&out, "%d delete\n", e.DeleteStep)
	}
	for _, event := range e.Events {
		fmt.Fprintf(&out, "%d event %s\n", event.Step, event.Reason)
	}
	return out.String()
}

const bound = `"resourceVersion":"7","uid":"uid-w"}`

func TestRequests(t *testing.T) {
	for name, c := range map[string]struct{ object, spec, want string }{
		"status by merge": {``, `  next: {statusTemplate: "phase: Up"}`,
			`0 patch Widget.example.com/v1 team/w status merge {"metadata":{` + bound + `,"status":{"phase":"Up"}}` + "\n"},
		"nothing to change": {`status: {phase: Up}`, `  next: {statusTemplate: "phase: Up"}`, ``},
		"status of the main resource": {``, `  next: {statusSubresource: "", statusTemplate: "phase: Up"}`,
			`0 patch Widget.example.com/v1 team/w merge {"metadata":{` + bound + `,"status":{"phase":"Up"}}` + "\n"},
		"another user": {``, `  next: {statusTemplate: "phase: Up", statusPatchAs: {username: carol}}`,
			`0 patch Widget.example.com/v1 team/w status as carol merge {"metadata":{` + bound + `,"status":{"phase":"Up"}}` + "\n"},
		"later steps see earlier ones": {`spec: {num: 1}`, `
  steps:
  - patch: {template: "spec: {num: 2}"}
  - patch: {subresource: status, root: status, template: "saw: {{ .spec.num }}"}
  - patch: {template: "spec: {num: 1}"}`,
			`0 patch Widget.example.com/v1 team/w merge {"metadata":{` + bound + `,"spec":{"num":2}}
1 patch Widget.example.com/v1 team/w status merge {"metadata":{` + bound + `,"status":{"saw":2}}
2 patch Widget.example.com/v1 team/w merge {"metadata":{` + bound + `,"spec":{"num":1}}
`},
		"json": {`spec: {list: [a, b]}`, `
  steps:
  - patch: {type: json, template: '[{"op": "replace", "path": "/spec/list/0", "value": "c"}]'}
  - patch: {type: json, root: spec, template: '[{op: move, path: /other, from: /list}]'}`,
			`0 patch Widget.example.com/v1 team/w json [{"op":"test","path":"/metadata/uid","value":"uid-w"},{"op":"test","path":"/metadata/resourceVersion","value":"7"},{"op":"replace","path":"/spec/list/0","value":"c"}]
1 patch Widget.example.com/v1 team/w json [{"op":"test","path":"/metadata/uid","value":"uid-w"},{"op":"test","path":"/metadata/resourceVersion","value":"7"},{"from":"/spec/list","op":"move","path":"/spec/other"}]
`},
		"scale": {`spec: {replicas: 1}`, `
  steps:
  - patch: {subresource: scale, root: spec, template: "replicas: 3"}
  - patch: {subresource: scale, root: spec, template: "replicas: 3"}`,
			`0 patch Widget.example.com/v1 team/w scale merge {"metadata":{` + bound + `,"spec":{"replicas":3}}` + "\n"},
		"finalizers, then gone": {`metadata: {name: w, namespace: team, uid: uid-w, resourceVersion: "7", finalizers: [a, b]}`, `
  next:
    event: {type: Normal, reason: Bye, message: m}
    finalizers: {remove: [{value: a}], add: [{value: c}]}
    delete: true`,
			`1 patch Widget.example.com/v1 team/w merge {"metadata":{"finalizers":["b","c"],` + bound + `}
2 delete
0 event Bye
`},
		"no finalizers left": {`metadata: {name: w, namespace: team, uid: uid-w, resourceVersion: "7", finalizers: [a]}`, `
  next: {finalizers: {empty: true}}`,
			`0 patch Widget.example.com/v1 team/w merge {"metadata":{"finalizers":null,` + bound + `}` + "\n"},
		"apply another object": {`spec: {size: 5Gi}`, `
  steps:
  - apply:
      impersonation: {username: carol}
      template: |
        apiVersion: v1
        kind: ConfigMap
        metadata: {name: {{ .metadata.name }}-cm}
        data: {size: {{ .spec.size | Quote }}}`,
			`0 apply ConfigMap team/w-cm as carol apply-patch+yaml {"apiVersion":"v1","data":{"size":"5Gi"},"kind":"ConfigMap","metadata":{"name":"w-cm"}}` + "\n"},
		"apply itself": {``, `
  steps:
  - apply:
      type: merge
      subresource: status
      template: "{apiVersion: example.com/v1, kind: Widget, metadata: {name: w}, status: {a: b}}"`,
			`0 apply Widget.example.com/v1 team/w status merge {"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w",` + bound + `,"status":{"a":"b"}}` + "\n"},
		"apply itself as it is": {`status: {a: b}`, `
  steps:
  - apply:
      type: merge
      template: "{apiVersion: example.com/v1, kind: Widget, metadata: {name: w}, status: {a: b}}"`, ``},
		"whole numbers stay whole": {``, `  next: {statusTemplate: "num: 9007199254740993"}`,
			`0 patch Widget.example.com/v1 team/w status merge {"metadata":{` + bound + `,"status":{"num":9007199254740993}}` + "\n"},
		"nothing rendered": {``, `  next: {statusTemplate: "{{ if .status.x }}a: b{{ end }}"}`, ``},
		"empty template of a step": {``, `
  steps:
  - patch: {template: "# only a comment"}
  - delete: true`, "1 delete\n"},
	} {
		t.Run(name, func(t *testing.T) {
			set := mustCompile(t, widgetStage(c.spec))
			w := widget(t, c.object)
			before := w.DeepCopy()
			d := set.Decide(stagetest.Start, 1, w, Past{}, Scene{})
			e, err := set.Play(stagetest.Start, w, d, stagetest.Facts{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, describe(t, e)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if diff := cmp.Diff(before, w); diff != "" {
				t.Errorf("the object was changed:\n%s", diff)
			}
		})
	}
}

// TestRequestsOfPods checks a pod whose stage does more than patch its status: it also has
// requests, with strategic merge patches.
func TestRequestsOfPods(t *testing.T) {
	set := mustCompile(t, head+`
spec:
  resourceRef: {kind: Pod}
  selector: {}
  steps:
  - patch: {root: metadata, template: "labels: {a: b}"}
  - patch: {subresource: status, root: status, template: "conditions: [{type: Ready, status: {{ .metadata.labels.a | Quote }}}]"}
  - patch: {subresource: status, root: status, template: "conditions: [{type: PodScheduled, status: 'True'}]"}`)
	p := stagetest.NewPod()
	e, err := set.Play(stagetest.Start, p, set.Decide(stagetest.Start, 1, p, Past{}, Scene{}), stagetest.Facts{})
	if err != nil {
		t.Fatal(err)
	}
	want := `0 patch Pod default/web strategic-merge {"metadata":{"labels":{"a":"b"},"resourceVersion":"7","uid":"uid-web"}}
1 patch Pod default/web status strategic-merge {"metadata":{"resourceVersion":"7","uid":"uid-web"},"status":{"conditions":[{"status":"b","type":"Ready"}]}}
`
	if diff := cmp.Diff(want, describe(t, e)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestResume checks that an interrupted stage continues where it stopped, on the newest version,
// although its selector no longer matches.
func TestResume(t *testing.T) {
	set := mustCompile(t, head+`
spec:
  resourceRef: {apiGroup: example.com/v1, kind: Widget}
  selector: {matchExpressions: [{key: .spec.done, operator: DoesNotExist}]}
  steps:
  - patch: {template: "spec: {done: true}"}
  - patch: {subresource: status, root: status, template: "phase: Done"}
  - delete: true`)
	w := widget(t, `spec: {done: true}`)
	if d := set.Decide(stagetest.Start, 1, w, Past{}, Scene{}); d.Chosen() {
		t.Fatal("chosen without having been begun")
	}
	past := Past{Resume: Resume{Stage: "s", Step: 1}}
	d := set.Decide(stagetest.Start, 1, w, past, Scene{})
	if !d.Chosen() || d.Reason.Code != Resumed || d.String() != "s goes on" {
		t.Fatalf("got %s", d.String())
	}
	e, err := set.Play(stagetest.Start, w, d, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := describe(t, e); !strings.HasPrefix(got, "1 patch") || !strings.HasSuffix(got, "2 delete\n") {
		t.Errorf("got %s", got)
	}
	done := widget(t, "spec: {done: true}\nstatus: {phase: Done}")
	if e, err = set.Play(stagetest.Start, done, set.Decide(stagetest.Start, 1, done, past, Scene{}), nil); err != nil || describe(t, e) != "2 delete\n" {
		t.Errorf("what is done is done again: %s %v", describe(t, e), err)
	}
	past.Resume.Stage = "gone"
	if d := set.Decide(stagetest.Start, 1, w, past, Scene{}); d.Chosen() {
		t.Error("a stage that is no more goes on")
	}
}

func TestPlayRejects(t *testing.T) {
	for name, c := range map[string]struct{ spec, want string }{
		"version": {`  next: {patches: [{template: "metadata: {resourceVersion: '1'}"}]}`,
			"stage s: spec.next.patches[0].template: a patch must not set metadata.resourceVersion: every write contains it as a precondition"},
		"invalid json patch": {`  next: {patches: [{type: json, template: "a: b"}]}`,
			"stage s: spec.next.patches[0].template: the template of a JSON patch does not render a list of operations"},
		"json patch that fails": {`  next: {patches: [{type: json, template: "[{op: remove, path: /spec/x}]"}]}`,
			`stage s: spec.next.patches[0].template: JSON patch: operation 0: "spec" does not exist`},
		"apply without a name": {`  steps: [{apply: {template: "{apiVersion: v1, kind: Pod, metadata: {generateName: a}}"}}]`,
			"stage s: spec.steps[0].apply.template: the object has no metadata.name: a generated name could not be repeated without creating a second object"},
		"apply without a kind": {`  steps: [{apply: {template: "{apiVersion: v1, metadata: {name: a}}"}}]`, "stage s: spec.steps[0].apply.template: the object has no kind"},
		"invalid UTF-8": {`  next: {statusTemplate: '{{ "gIA=" | b64dec }}'}`,
			"stage s: spec.next.statusTemplate: the template does not render YAML: yaml: invalid leading UTF-8 octet"},
	} {
		t.Run(name, func(t *testing.T) {
			set := mustCompile(t, widgetStage(c.spec))
			w := widget(t, ``)
			_, err := set.Play(stagetest.Start, w, set.Decide(stagetest.Start, 1, w, Past{}, Scene{}), nil)
			if err == nil || err.Error() != c.want {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
		})
	}
}

// TestKinds checks that every kind has its own stages, and that pods and nodes are Go structs.
func TestKinds(t *testing.T) {
	other := strings.Replace(widgetStage("  next: {delete: true}"), "name: s", "name: other", 1)
	other = strings.Replace(other, "example.com/v1", "example.com/v2", 1)
	set := mustCompile(t, widgetStage("  next: {delete: true}")+"\n---\n"+other+"\n---\n"+podStage("p", ""))
	var kinds []string
	for _, k := range set.Kinds() {
		kinds = append(kinds, k.String())
	}
	if diff := cmp.Diff([]string{"Pod", "Widget.example.com/v1", "Widget.example.com/v2"}, kinds); diff != "" {
		t.Error(diff)
	}
	w := widget(t, ``)
	if d := set.Decide(stagetest.Start, 1, w, Past{}, Scene{}); d.Stage != "s" {
		t.Errorf("chose %q", d.Stage)
	}
	w.SetAPIVersion("v1")
	w.SetKind("Pod")
	w.SetLabels(map[string]string{"go": "yes"})
	if d := set.Decide(stagetest.Start, 1, w, Past{}, Scene{}); d.Chosen() {
		t.Error("an unstructured pod is played")
	}
}

// TestCompileLeavesStagesAlone checks that Compile reads next as steps and does not modify the
// stage, which may belong to an informer.
func TestCompileLeavesStagesAlone(t *testing.T) {
	stages, err := Load("f", []byte(podStage("a", "")))
	if err != nil {
		t.Fatal(err)
	}
	before := stages[0].DeepCopy()
	if _, err := Compile(stages); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, &stages[0]); diff != "" {
		t.Error(diff)
	}
}

func TestJSONPatch(t *testing.T) {
	for name, c := range map[string]struct{ doc, ops, want string }{
		"add to object":    {`{"a":1}`, `[{"op":"add","path":"/b","value":{"c":2}}]`, `{"a":1,"b":{"c":2}}`},
		"add to list":      {`{"a":[1,3]}`, `[{"op":"add","path":"/a/1","value":2},{"op":"add","path":"/a/-","value":4}]`, `{"a":[1,2,3,4]}`},
		"remove":           {`{"a":[1,2,3],"b":1}`, `[{"op":"remove","path":"/a/1"},{"op":"remove","path":"/b"}]`, `{"a":[1,3]}`},
		"replace":          {`{"a":{"b":1}}`, `[{"op":"replace","path":"/a/b","value":null}]`, `{"a":{"b":null}}`},
		"copy":             {`{"a":[1]}`, `[{"op":"copy","from":"/a","path":"/b"},{"op":"add","path":"/b/-","value":2}]`, `{"a":[1],"b":[1,2]}`},
		"move":             {`{"a":{"b":1}}`, `[{"op":"move","from":"/a/b","path":"/c"}]`, `{"a":{},"c":1}`},
		"test":             {`{"a":[{"b":1}]}`, `[{"op":"test","path":"/a","value":[{"b":1}]}]`, `{"a":[{"b":1}]}`},
		"escapes":          {`{"a/b":{"~":1}}`, `[{"op":"replace","path":"/a~1b/~0","value":2}]`, `{"a/b":{"~":2}}`},
		"whole document":   {`{"a":1}`, `[{"op":"replace","path":"","value":{"b":1}}]`, `{"b":1}`},
		"test fails":       {`{"a":1}`, `[{"op":"test","path":"/a","value":2}]`, `operation 0: /a does not have the tested value`},
		"replace absent":   {`{}`, `[{"op":"replace","path":"/a","value":2}]`, `operation 0: "a" does not exist`},
		"remove absent":    {`{}`, `[{"op":"remove","path":"/a"}]`, `operation 0: "a" does not exist`},
		"index too large":  {`{"a":[]}`, `[{"op":"add","path":"/a/1","value":2}]`, `operation 0: "1" is not an index of the list`},
		"index with zero":  {`{"a":[1]}`, `[{"op":"replace","path":"/a/00","value":2}]`, `operation 0: "00" is not an index of the list`},
		"no pointer":       {`{}`, `[{"op":"add","path":"a","value":2}]`, `operation 0: path is not a JSON pointer such as /status/phase`},
		"no value":         {`{}`, `[{"op":"add","path":"/a"}]`, `operation 0: add requires a value`},
		"unknown":          {`{}`, `[{"op":"frob","path":"/a"}]`, `operation 0: op "frob" is not one of add, remove, replace, move, copy, test`},
		"operation is not": {`{}`, `[7]`, `operation 0 is not a mapping`},
	} {
		t.Run(name, func(t *testing.T) {
			var doc, want any
			var ops []any
			if json.Unmarshal([]byte(c.doc), &doc) != nil || json.Unmarshal([]byte(c.ops), &ops) != nil {
				t.Fatal("the case is no JSON")
			}
			got, err := applyJSONPatch(doc, ops)
			if err != nil {
				if err.Error() != c.want {
					t.Errorf("got %v, want %s", err, c.want)
				}
				return
			}
			if json.Unmarshal([]byte(c.want), &want) != nil || !cmp.Equal(want, got) {
				t.Errorf("got %v, want %s", got, c.want)
			}
		})
	}
}

var _ Object = (*corev1.Pod)(nil)

func TestPlayErrors(t *testing.T) {
	for name, c := range map[string]struct{ template, want string }{
		"the template fails": {`{{ fail "no" }}`, "no"},
		"no mapping":         {`- a`, "does not render a YAML mapping"},
		"does not fit":       {`phase: [1]`, "does not fit its type"},
		"not a list":         {`conditions: x`, "does not fit its type"},
		"a number too large": {`containerStatuses: [{name: a, restartCount: 99999999999}]`, "does not fit its type"},
		"no whole number":    {`containerStatuses: [{name: a, restartCount: 1.5}]`, "does not fit its type"},
	} {
		t.Run(name, func(t *testing.T) {
			set := mustCompile(t, head+"spec: {resourceRef: {kind: Pod}, selector: {}, next: {statusTemplate: '"+c.template+"'}}")
			p := stagetest.NewPod()
			_, err := set.Play(stagetest.Start, p, set.Decide(stagetest.Start, 1, p, Past{}, Scene{}), stagetest.Facts{})
			if err == nil || !strings.HasPrefix(err.Error(), "stage s: spec.next.statusTemplate: ") || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestMergePatch(t *testing.T) {
	// RFC 7386, appendix A: the rows whose patch is an object.
	obj := func(kv ...any) map[string]any {
		out := map[string]any{}
		for i := 0; i < len(kv); i += 2 {
			out[kv[i].(string)] = kv[i+1]
		}
		return out
	}
	for _, c := range []struct{ target, patch, want map[string]any }{
		{obj("a", "b"), obj("a", "c"), obj("a", "c")},
		{obj("a", "b"), obj("b", "c"), obj("a", "b", "b", "c")},
		{obj("a", "b"), obj("a", nil), obj()},
		{obj("a", "b", "b", "c"), obj("a", nil), obj("b", "c")},
		{obj("a", []any{"b"}), obj("a", "c"), obj("a", "c")},
		{obj("a", "c"), obj("a", []any{"b"}), obj("a", []any{"b"})},
		{obj("a", obj("b", "c")), obj("a", obj("b", "d", "c", nil)), obj("a", obj("b", "d"))},
		{obj("a", "foo"), obj("a", obj("b", nil)), obj("a", obj())},
		{obj(), obj("a", obj("bb", obj("ccc", nil))), obj("a", obj("bb", obj()))},
	} {
		if diff := cmp.Diff(c.want, mergePatch(c.target, c.patch)); diff != "" {
			t.Errorf("%v with %v (-want +got)\n%s", c.target, c.patch, diff)
		}
	}
}
