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

// draws is the number of decisions with different seeds, which shows all stages that may be chosen, and seldom
// the share below which a stage may be missing.
const (
	draws  = 300
	seldom = 0.05
)

// fataler is a *testing.T or a *rapid.T.
type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
	Errorf(format string, args ...any)
}

// choice contains what all draws have shown of a stage.
type choice struct {
	decision    stage.Decision
	least, most time.Duration // its delay
}

// agree compares both on one object: which stages may be chosen, their delays and their results.
func agree(t fataler, b both, o stage.Object, kind stage.Kind) {
	t.Helper()
	possible := shares(t, b, o, kind)
	chosen := map[string]*choice{}
	for seed := range uint64(draws) {
		d := b.ours.Decide(now, seed, o, stage.Past{}, stage.Scene{NodeReady: true})
		if !d.Chosen() {
			break
		}
		wait := d.Due.Sub(d.Since)
		c := chosen[d.Stage]
		if c == nil {
			c = &choice{decision: d, least: wait, most: wait}
			chosen[d.Stage] = c
		}
		c.least, c.most = min(c.least, wait), max(c.most, wait)
	}
	for name := range chosen {
		if possible[name].Stage == nil {
			t.Fatalf("%s was chosen; kwok allows %v", name, names(possible))
		}
	}
	for name, p := range possible {
		if chosen[name] == nil {
			if p.share > seldom {
				t.Fatalf("%s was not chosen in %d draws, only %v; kwok chooses it in %.0f of 100", name, draws, names(chosen), 100*p.share)
			}
			continue
		}
		within(t, p.Stage, o, chosen[name])
		same(t, b, p.Stage, o, kind, chosen[name].decision)
	}
}

// share is one of KWOK's stages and the probability of its choice.
type share struct {
	*lifecycle.Stage
	share float64
}

func shares(t fataler, b both, o stage.Object, kind stage.Kind) map[string]share {
	t.Helper()
	possible, err := b.kwok[kind].ListAllPossible(context.Background(), event(o))
	if err != nil {
		t.Fatalf("kwok: %v", err)
	}
	out, total := map[string]share{}, 0.0
	for _, s := range possible {
		w, _, err := s.Weight(context.Background(), event(o))
		if err != nil {
			t.Fatalf("kwok: %s: weight: %v", s.Name(), err)
		}
		out[s.Name()] = share{s, float64(w)}
		total += float64(w)
	}
	for name, s := range out {
		s.share /= max(total, 1)
		if total == 0 {
			s.share = 1 / float64(len(out))
		}
		out[name] = s
	}
	return out
}

// within checks the delays of package stage against the range of KWOK's.
func within(t fataler, s *lifecycle.Stage, o stage.Object, c *choice) {
	t.Helper()
	span, ok, err := s.DelayRangePossible(context.Background(), event(o), now)
	if err != nil {
		t.Fatalf("kwok: %s: delay: %v", s.Name(), err)
	}
	if !ok {
		span = []time.Duration{0}
	}
	if least, most := max(span[0], 0), max(span[len(span)-1], 0); c.least < least || c.most > most {
		t.Errorf("%s waits %s to %s; kwok waits %v", s.Name(), c.least, c.most, span)
	}
}

// same checks that both stages have the same result, or both fail.
func same(t fataler, b both, s *lifecycle.Stage, o stage.Object, kind stage.Kind, d stage.Decision) {
	t.Helper()
	want, theirs := kwokDoes(renderer(o.GetName()), s, o, kind)
	got, ours := weDo(b.ours, d, o, kind)
	if theirs != nil || ours != nil {
		if (theirs == nil) != (ours == nil) {
			t.Fatalf("%s: kwok: %v, stage: %v", s.Name(), theirs, ours)
		}
		return
	}
	if diff := cmp.Diff(typed(want, kind), typed(got, kind), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("%s: kwok -, stage +\n%s", s.Name(), diff)
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

// typed converts pods and nodes to the form in which the API stores them, where null and absent are the same.
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

// TestShippedStages runs every stage that KWOK ships on the inputs of KWOK's tests.
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
			// KWOK's tests replace functions by their names; Go's types require times.
			o, kind, err := read([]byte(strings.ReplaceAll(string(data), "<Now>", start.Format(time.RFC3339))))
			if err != nil {
				t.Fatal(err)
			}
			agree(t, b, o, kind)
		})
	}
}

// TestAllShippedLoad checks that every stage that KWOK ships loads.
func TestAllShippedLoad(t *testing.T) {
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
