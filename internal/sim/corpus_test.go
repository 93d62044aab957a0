package sim_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/sim"
)

// TestCorpus: a search starts from the plans of an earlier one, after they were written and read, and extends them.
func TestCorpus(t *testing.T) {
	first := search(t, &toy{}, sim.Options{Seed: 1, Runs: 200})
	if len(first.Corpus) < 20 {
		t.Fatalf("a corpus of %d plans", len(first.Corpus))
	}
	var file bytes.Buffer
	if err := sim.WriteCorpus(&file, first.Corpus); err != nil {
		t.Fatal(err)
	}
	plans, err := sim.ReadCorpus(&file)
	if err != nil || len(plans) != len(first.Corpus) {
		t.Fatalf("%d plans of %d, %v", len(plans), len(first.Corpus), err)
	}
	w := &toy{}
	second := search(t, w, sim.Options{Seed: 1, Runs: 100, Corpus: plans})
	for n, p := range w.played[3:28] {
		if p.Seed != plans[n].Seed || !slices.Equal(p.Faults, plans[n].Faults) {
			t.Fatalf("run %d: %v, want %v", n+4, p.Faults, plans[n].Faults)
		}
	}
	if second.Runs != 100 || second.Systematic < 30 {
		t.Errorf("%s", second.Tried())
	}
}

// TestCorpusFile: a file keeps the plans of earlier searches after those of the last one; a file that does not exist is empty.
func TestCorpusFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "corpora", "a.jsonl")
	if plans, err := sim.LoadCorpus(file); err != nil || len(plans) != 0 {
		t.Errorf("%v, %v", plans, err)
	}
	one, two := sim.Plan{Seed: 1, Faults: []fault.Fault{fault.Lag("pods")}}, sim.Plan{Seed: 1, Faults: []fault.Fault{fault.Relist("pods")}}
	for _, plans := range [][]sim.Plan{{one}, {two, one}} {
		earlier, err := sim.LoadCorpus(file)
		if err == nil {
			err = sim.SaveCorpus(file, plans[:1], earlier)
		}
		if err != nil {
			t.Fatal(err)
		}
		if have, err := sim.LoadCorpus(file); err != nil || len(have) != len(plans) || have[0].Faults[0] != plans[0].Faults[0] {
			t.Errorf("%+v, %v", have, err)
		}
	}
	if err := os.WriteFile(file, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := sim.LoadCorpus(file); err == nil || !strings.Contains(err.Error(), "a.jsonl: line 1: ") {
		t.Error(err)
	}
}

// TestReadCorpus: schedules are kept, and a damaged line is reported with its number.
func TestReadCorpus(t *testing.T) {
	plan := sim.Plan{Seed: 3, Faults: []fault.Fault{fault.Lag("pods")}, Schedule: history.Schedule{Seed: 5, Depth: 2, Choices: 30}}
	var file strings.Builder
	if err := sim.WriteCorpus(&file, []sim.Plan{plan}); err != nil {
		t.Fatal(err)
	}
	back, err := sim.ReadCorpus(strings.NewReader(file.String()))
	if err != nil || len(back) != 1 || back[0].Seed != 3 || back[0].Schedule != plan.Schedule || !slices.Equal(back[0].Faults, plan.Faults) {
		t.Errorf("%+v, %v", back, err)
	}
	for text, want := range map[string]string{
		"{":                         "line 1: ",
		file.String() + `{"sed":1}`: `line 2: json: unknown field "sed"`,
		`{"faults":["lagg"]}`:       "line 1: ",
	} {
		if _, err := sim.ReadCorpus(strings.NewReader(text)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}
