package kwok

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"sigs.k8s.io/kwok/pkg/utils/lifecycle"

	"github.com/rehearse-k8s/rehearse/stage"
)

// draws is how often we decide with another seed, to see all that may be chosen.
const draws = 400

// agree compares both on one object: which stages may come, when, and what they do.
func agree(t *testing.T, b both, o stage.Object, kind stage.Kind) {
	t.Helper()
	theirs, err := b.kwok[kind].ListAllPossible(context.Background(), event(o))
	if err != nil {
		t.Fatalf("kwok: %v", err)
	}
	possible := map[string]*lifecycle.Stage{}
	for _, s := range theirs {
		possible[s.Name()] = s
	}
	chosen := map[string]stage.Decision{}
	for seed := range uint64(draws) {
		d := b.ours.Decide(now, seed, o, stage.Past{}, stage.Scene{NodeReady: true})
		if !d.Chosen() {
			break
		}
		chosen[d.Stage] = d
		s := possible[d.Stage]
		if s == nil {
			t.Fatalf("%s was chosen; kwok allows %v", d.Stage, names(possible))
		}
		within(t, s, o, d)
	}
	if got := names(chosen); !slices.Equal(got, names(possible)) {
		t.Fatalf("chosen in %d draws: %v; kwok allows %v", draws, got, names(possible))
	}
	for name, d := range chosen {
		want, err := kwokDoes(possible[name], o, kind)
		if err != nil {
			t.Fatalf("kwok: %s: %v", name, err)
		}
		got, err := weDo(b.ours, d, o, kind)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if diff := cmp.Diff(typed(want, kind), typed(got, kind), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: kwok's - and ours +\n%s", name, diff)
		}
	}
}

// within checks our delay against the range that KWOK's may have.
func within(t *testing.T, s *lifecycle.Stage, o stage.Object, d stage.Decision) {
	t.Helper()
	span, ok, err := s.DelayRangePossible(context.Background(), event(o), now)
	if err != nil {
		t.Fatalf("kwok: %s: delay: %v", s.Name(), err)
	}
	if !ok {
		span = []time.Duration{0}
	}
	least, most := max(span[0], 0), max(span[len(span)-1], 0)
	if wait := d.Due.Sub(d.Since); wait < least || wait > most {
		t.Errorf("%s waits %s; kwok waits %v", s.Name(), wait, span)
	}
}

func names[V any](m map[string]V) []string {
	var out []string
	for name := range m {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// typed brings pods and nodes into the form in which the API keeps them, where null
// and absent are the same.
func typed(x *outcome, kind stage.Kind) *outcome {
	out := *x
	if kind == stage.KindPod || kind == stage.KindNode {
		data, err := json.Marshal(x.Object)
		if err == nil {
			if o, _, err := read(data); err == nil {
				out.Object = plain(o)
			}
		}
	}
	return &out
}

// TestShippedStages plays every stage that KWOK ships on the inputs of its own tests.
func TestShippedStages(t *testing.T) {
	root, err := shipped()
	if err != nil {
		t.Fatal(err)
	}
	inputs, err := filepath.Glob(filepath.Join(root, "*", "*", "testdata", "*.input.yaml"))
	if err != nil || len(inputs) < 16 {
		t.Fatalf("%d inputs in %s, %v", len(inputs), root, err)
	}
	for _, input := range inputs {
		name, _ := filepath.Rel(root, input)
		t.Run(strings.TrimSuffix(strings.Replace(name, "/testdata", "", 1), ".input.yaml"), func(t *testing.T) {
			b, err := load(filepath.Dir(filepath.Dir(input)))
			if err != nil {
				t.Fatal(err)
			}
			data, err := os.ReadFile(input)
			if err != nil {
				t.Fatal(err)
			}
			// KWOK's tests stand in for functions with their names; Go's types want times.
			o, kind, err := read([]byte(strings.ReplaceAll(string(data), "<Now>", start.Format(time.RFC3339))))
			if err != nil {
				t.Fatal(err)
			}
			agree(t, b, o, kind)
		})
	}
}

// TestAllShippedAreTaken: no stage that KWOK ships is refused.
func TestAllShippedAreTaken(t *testing.T) {
	root, err := shipped()
	if err != nil {
		t.Fatal(err)
	}
	dirs, _ := filepath.Glob(filepath.Join(root, "*", "*"))
	taken := 0
	for _, dir := range dirs {
		if found, _ := filepath.Glob(filepath.Join(dir, "*.yaml")); len(found) == 0 || strings.HasSuffix(dir, "rbac") {
			continue
		}
		b, err := load(dir)
		if err != nil {
			t.Errorf("%s: %v", dir, err)
			continue
		}
		for kind, stages := range b.kwok {
			if got := len(b.ours.Names(kind)); got != len(stages) {
				t.Errorf("%s: %d stages of %s, kwok has %d", dir, got, kind, len(stages))
			}
			taken += len(stages)
		}
	}
	if taken < 19 {
		t.Errorf("only %d stages were found", taken)
	}
}
