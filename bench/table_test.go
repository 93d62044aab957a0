package main

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// example is a table with every kind of result.
var example = table{
	title: "quick sizes", machine: "2026-11-25, 2 cores, 23 GiB, linux/amd64, go1.26.8",
	results: []result{
		{
			section: "Compared", args: []string{"compare", "--rounds", "3"}, state: complete, took: time.Minute, loads: [2]string{"1.0 1.0 1.0", "2.0 1.5 1.0"},
			figures: figures{
				rows: []figure{{"ready", "389 pods/s"}},
				ratios: []ratio{
					{"Both", "pods Ready per second", []float64{2.4, 3.1, 2.8}}, {"Both", "pods deleted per second", []float64{3.1, 4.4, 4.6}},
					{"<One & other>", "memory <all & Ready>", []float64{0.4, 0.45, 0.5}}, {"<One & other>", "CPU without /proc", []float64{math.NaN(), math.NaN(), math.NaN()}},
				},
			},
		},
		{section: "Start", args: []string{"startup"}, state: complete, figures: figures{rows: []figure{{"idle", "300 MB"}, {"a | b", "two\nlines"}}}},
		{section: "Start", args: []string{"pods"}, state: failed, reason: "up ended: exit status 1\n" + strings.Repeat("log ", 200)},
		{section: "Many", args: []string{"hold"}, state: interrupted, took: 90 * time.Second, figures: figures{rows: []figure{{"Running", "after 3 s"}}}},
		{section: "Many", args: []string{"churn"}},
	},
}

// TestGolden compares the table and the plot with those in testdata. UPDATE_GOLDEN=1 writes them.
func TestGolden(t *testing.T) {
	for name, got := range map[string]string{"benchmarks.md": example.markdown(), "ratios.svg": plot(example.ratios())} {
		file := filepath.Join("testdata", name)
		if os.Getenv("UPDATE_GOLDEN") != "" {
			if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(string(want), got); d != "" {
			t.Errorf("%s (UPDATE_GOLDEN=1 writes it):\n%s", file, d)
		}
	}
}

// TestTableWithoutResults: before the first part, and without a comparison, there is neither a heading without rows nor a plot.
func TestTableWithoutResults(t *testing.T) {
	text := table{title: "test", results: []result{{section: "A", args: []string{"pods"}}}}.markdown()
	if strings.Contains(text, "## A") || strings.Contains(text, "ratios.svg") || !strings.Contains(text, "`go run ./bench pods`: not started") {
		t.Error(text)
	}
}

// TestPlotIsXML: any ratios give a well-formed document whose coordinates are numbers.
func TestPlotIsXML(t *testing.T) {
	for name, ratios := range map[string][]ratio{
		"none":        nil,
		"no rounds":   {{"", "a", nil}},
		"no numbers":  {{"", "<a>", []float64{math.NaN(), math.Inf(1), 0, -1}}},
		"wide":        {{"", "a", []float64{0.01, 500}}, {"b & c", "d", []float64{1}}},
		"no ordinary": example.ratios(),
	} {
		t.Run(name, func(t *testing.T) {
			text := plot(ratios)
			if strings.Contains(text, "NaN\"") || strings.Contains(text, "Inf\"") {
				t.Errorf("a coordinate is not a number:\n%s", text)
			}
			d := xml.NewDecoder(strings.NewReader(text))
			for {
				if _, err := d.Token(); errors.Is(err, io.EOF) {
					return
				} else if err != nil {
					t.Fatalf("%v:\n%s", err, text)
				}
			}
		})
	}
}

func TestPlotRange(t *testing.T) {
	for _, c := range []struct {
		values    []float64
		low, high int
	}{
		{nil, -1, 1},
		{[]float64{1, 1.9}, -1, 1},
		{[]float64{2.1, 0.3}, -2, 2},
		{[]float64{4, 0.5}, -1, 2},
		{[]float64{math.NaN(), 0, math.Inf(1)}, -1, 1},
	} {
		if low, high := plotRange([]ratio{{"", "a", c.values}}); low != c.low || high != c.high {
			t.Errorf("%v: 2^%d to 2^%d, want 2^%d to 2^%d", c.values, low, high, c.low, c.high)
		}
	}
}

func TestMedian(t *testing.T) {
	for want, rounds := range map[float64][]float64{0: nil, 2: {2}, 2.5: {3, 2}, 3: {9, 1, 3}} {
		if got := (ratio{rounds: rounds}).median(); got != want {
			t.Errorf("%v: median %v, want %v", rounds, got, want)
		}
	}
}
