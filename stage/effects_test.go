package stage

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rehearse-k8s/rehearse/api/kwok/v1alpha1"
	"github.com/rehearse-k8s/rehearse/internal/stage/stagetest"
	"pgregory.net/rapid"
)

// TestEffectsThatSendNothing checks which effects an engine may drop.
func TestEffectsThatSendNothing(t *testing.T) {
	for name, c := range map[string]struct {
		effects       Effects
		writes, empty bool
	}{
		"nothing":   {Effects{Stage: "s", UID: "u", ResourceVersion: "1"}, false, true},
		"an event":  {Effects{Events: []Event{{Reason: "r"}}}, false, false},
		"a status":  {Effects{Write: WriteStatus}, true, false},
		"an object": {Effects{Write: WriteObject}, true, false},
		"a request": {Effects{Requests: []Request{{}}}, true, false},
		"a delete":  {Effects{Delete: true}, true, false},
	} {
		if c.effects.Writes() != c.writes || c.effects.Empty() != c.empty {
			t.Errorf("%s: writes %v, empty %v", name, c.effects.Writes(), c.effects.Empty())
		}
	}
}

// TestPayloadIsBoundToTheVersion checks the preconditions in the body of each kind of request. Without them a stage
// could overwrite what another client wrote.
func TestPayloadIsBoundToTheVersion(t *testing.T) {
	for name, c := range map[string]struct {
		own  bool
		body any
		want string
	}{
		"merge": {true, map[string]any{"status": map[string]any{"a": "b"}}, `{"metadata":{"resourceVersion":"7","uid":"u"},"status":{"a":"b"}}`},
		"merge with metadata": {
			true, map[string]any{"metadata": map[string]any{"labels": map[string]any{"a": "b"}}}, `{"metadata":{"labels":{"a":"b"},"resourceVersion":"7","uid":"u"}}`,
		},
		"empty merge": {true, map[string]any{}, `{"metadata":{"resourceVersion":"7","uid":"u"}}`},
		"JSON patch": {
			true, []any{map[string]any{"op": "remove", "path": "/a"}},
			`[{"op":"test","path":"/metadata/uid","value":"u"},{"op":"test","path":"/metadata/resourceVersion","value":"7"},{"op":"remove","path":"/a"}]`,
		},
		"another object":             {false, map[string]any{"kind": "ConfigMap"}, `{"kind":"ConfigMap"}`},
		"a list for another object":  {false, []any{map[string]any{"op": "remove"}}, `[{"op":"remove"}]`},
		"neither mapping nor a list": {true, "text", `"text"`},
	} {
		before, _ := json.Marshal(c.body)
		r := &Request{Own: c.own, UID: "u", Body: c.body}
		got, err := r.Payload("7")
		if err != nil || string(got) != c.want {
			t.Errorf("%s: %v\n got %s\nwant %s", name, err, got, c.want)
		}
		if after, _ := json.Marshal(c.body); string(after) != string(before) {
			t.Errorf("%s: the body became %s", name, after)
		}
	}
}

// TestFinalizersAreASet checks every change of finalizers: it is idempotent, what is removed and not added is gone,
// what is added is there once, and the order of the others stays.
func TestFinalizersAreASet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom([]string{"a", "b", "c", "d"})
		now := rapid.SliceOfNDistinct(name, 0, 4, rapid.ID[string]).Draw(t, "now")
		items := func(label string) (out []v1alpha1.FinalizerItem) {
			for _, value := range rapid.SliceOfN(name, 0, 3).Draw(t, label) {
				out = append(out, v1alpha1.FinalizerItem{Value: value})
			}
			return out
		}
		change := &v1alpha1.StageFinalizers{Add: items("add"), Remove: items("remove"), Empty: rapid.Bool().Draw(t, "empty")}
		before := slices.Clone(now)
		got := changedFinalizers(now, change)
		if !slices.Equal(now, before) {
			t.Fatalf("the list became %v", now)
		}
		if again := changedFinalizers(got, change); !slices.Equal(slices.Sorted(slices.Values(again)), slices.Sorted(slices.Values(got))) {
			t.Fatalf("%v, and changed again %v", got, again)
		}
		has := func(list []v1alpha1.FinalizerItem, f string) bool {
			return slices.Contains(list, v1alpha1.FinalizerItem{Value: f})
		}
		var kept []string
		for _, f := range before {
			if !change.Empty && !has(change.Remove, f) {
				kept = append(kept, f)
			}
		}
		if len(got) < len(kept) || !slices.Equal(got[:len(kept)], kept) {
			t.Fatalf("%v of %v after %+v", got, before, change)
		}
		for _, f := range got[len(kept):] {
			if !has(change.Add, f) {
				t.Fatalf("%s was not to be added", f)
			}
		}
		for _, item := range change.Add {
			if n := len(slices.DeleteFunc(slices.Clone(got), func(f string) bool { return f != item.Value })); n != 1 {
				t.Fatalf("%s is there %d times", item.Value, n)
			}
		}
	})
}

// TestEffectsOfPods checks how the operations of a pod's stage become one update, requests, a delete and events, and
// in which step each stands.
func TestEffectsOfPods(t *testing.T) {
	const phase = `patch: {subresource: status, root: status, template: "phase: Running"}`
	for name, c := range map[string]struct {
		spec   string
		write  Write
		kinds  int // of requests
		delete int // step; -1 for none
		events []int
	}{
		"status":                        {`next: {statusTemplate: "phase: Running"}`, WriteStatus, 0, -1, nil},
		"status that is so":             {`next: {statusTemplate: "phase: Pending"}`, WriteNothing, 0, -1, nil},
		"template that renders nothing": {`next: {statusTemplate: "{{ if false }}x{{ end }}"}`, WriteNothing, 0, -1, nil},
		"finalizer":                     {`next: {finalizers: {add: [{value: f}]}}`, WriteObject, 0, -1, nil},
		"finalizer that is absent":      {`next: {finalizers: {remove: [{value: f}]}}`, WriteNothing, 0, -1, nil},
		"status and finalizer":          {`next: {statusTemplate: "phase: Running", finalizers: {add: [{value: f}]}}`, WriteStatus, 0, -1, nil},
		"event":                         {`next: {event: {type: Normal, reason: r, message: m}}`, WriteNothing, 0, -1, []int{0}},
		"delete":                        {`next: {delete: true}`, WriteNothing, 0, 0, nil},
		"steps": {`steps: [{event: {reason: first}}, {` + phase + `}, {event: {reason: second}}, {delete: true}, {event: {reason: third}}]`,
			WriteStatus, 0, 3, []int{0, 2, 4}},
		"a write after the delete": {`steps: [{delete: true}, {` + phase + `}]`, WriteNothing, 0, 0, nil},
		"metadata":                 {`steps: [{patch: {root: metadata, template: "labels: {a: b}"}}, {` + phase + `}]`, WriteNothing, 2, -1, nil},
		"as another user":          {`next: {statusTemplate: "phase: Running", statusPatchAs: {username: u}}`, WriteNothing, 1, -1, nil},
		"JSON patch": {`steps: [{patch: {type: json, subresource: status, root: status, template: '[{op: replace, path: /phase, value: Running}]'}}]`,
			WriteNothing, 1, -1, nil},
		"merge that removes": {`steps: [{patch: {type: merge, subresource: status, root: status, template: "conditions: null"}}]`, WriteStatus, 0, -1, nil},
	} {
		t.Run(name, func(t *testing.T) {
			set := mustCompile(t, head+"spec: {resourceRef: {kind: Pod}, selector: {}, "+c.spec+"}")
			p := stagetest.NewPod()
			before := p.DeepCopy()
			d := set.Decide(stagetest.Start, 1, p, Past{}, Scene{})
			e, err := set.Play(stagetest.Start, p, d, stagetest.Facts{})
			if err != nil {
				t.Fatal(err)
			}
			if e.Write != c.write || (e.Object != nil) != (c.write != WriteNothing) || len(e.Requests) != c.kinds {
				t.Errorf("write %d with object %v, %d requests", e.Write, e.Object != nil, len(e.Requests))
			}
			if e.Delete != (c.delete >= 0) || e.Delete && e.DeleteStep != c.delete {
				t.Errorf("delete %v in step %d", e.Delete, e.DeleteStep)
			}
			var steps []int
			for _, event := range e.Events {
				steps = append(steps, event.Step)
			}
			if !slices.Equal(steps, c.events) {
				t.Errorf("events in steps %v, want %v", steps, c.events)
			}
			if e.Stage != "s" || e.UID != p.UID || e.ResourceVersion != "10" {
				t.Errorf("effects of %s on %s at version %s", e.Stage, e.UID, e.ResourceVersion)
			}
			if diff := cmp.Diff(before, p); diff != "" {
				t.Errorf("the pod that was decided on has changed: %s", diff)
			}
		})
	}
}

// TestPlayerKeepsNothingBetweenSets checks that a Player that is used for another set, and for another object, plays
// what a new one does.
func TestPlayerKeepsNothingBetweenSets(t *testing.T) {
	stageFor := func(message string) *Set {
		return mustCompile(t, head+`spec: {resourceRef: {kind: Pod}, selector: {}, next: {statusTemplate: "message: `+message+`"}}`)
	}
	sets := []*Set{stageFor("{{ .metadata.name }}"), stageFor("{{ Now }} {{ NodeIPWith .spec.nodeName }}"), stageFor("{{ .metadata.uid }}")}
	var player Player
	rapid.Check(t, func(t *rapid.T) {
		set := sets[rapid.IntRange(0, len(sets)-1).Draw(t, "set")]
		p := stagetest.DrawPod(t)
		d := set.Decide(stagetest.Start, 1, p, Past{}, Scene{})
		want, wantErr := set.Play(stagetest.Start, p, d, stagetest.Facts{})
		got, err := player.Play(set, stagetest.Start, p, d, stagetest.Facts{})
		if (err == nil) != (wantErr == nil) || err != nil && err.Error() != wantErr.Error() {
			t.Fatalf("%v, want %v", err, wantErr)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("(-new player +used player)\n%s", diff)
		}
	})
}
