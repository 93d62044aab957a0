package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestAllKeepsWhatIsThere: a part that fails does not end the others, an interrupt does, and the table, which is saved after
// each part, names both and what was not started.
func TestAllKeepsWhatIsThere(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	one := table{title: "test", results: []result{
		{section: "A", args: []string{"good"}}, {section: "A", args: []string{"bad"}}, {section: "B", args: []string{"ended"}}, {section: "C", args: []string{"never"}},
	}}
	dir := t.TempDir()
	saves := 0
	execute := func(_ context.Context, args []string, out *figures) error {
		out.keep("of "+args[0], "1 s")
		switch args[0] {
		case "good":
			out.ratio(ratio{"both", "speed", []float64{2}})
		case "bad":
			return errors.New("no space left\nlog of the server")
		case "ended":
			interrupt()
			return ctx.Err()
		case "never":
			t.Error("a part was started after the interrupt")
		}
		return nil
	}
	if err := one.run(ctx, execute, func() error { saves++; return one.save(dir) }); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "benchmarks.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| of good | `go run ./bench good` | 1 s |", "| of bad | `go run ./bench bad` | 1 s |", "| **failed** | the same | no space left log of the server |",
		"| of ended | `go run ./bench ended` | 1 s |", "| **interrupted** | the same |",
		"- `go run ./bench bad`: failed: no space left\n- `go run ./bench ended`: interrupted\n- `go run ./bench never`: not started\n",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the table does not contain %q:\n%s", want, text)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "ratios.svg")); err != nil || saves != 3 {
		t.Errorf("saved %d times, want 3; plot: %v", saves, err)
	}
}

// TestPartsAreCommands: every part is a command with flags that it has, in both sizes.
func TestPartsAreCommands(t *testing.T) {
	for _, quick := range []bool{false, true} {
		chosen, err := choose(nil, quick)
		if err != nil || len(chosen) != len(parts) {
			t.Fatalf("%d of %d parts: %v", len(chosen), len(parts), err)
		}
		for _, r := range chosen {
			found := false
			for _, c := range measurements(new(string), nil) {
				if c.Name() != r.args[0] {
					continue
				}
				found = true
				if err := c.ParseFlags(r.args[1:]); err != nil {
					t.Errorf("%s: %v", r.command(), err)
				}
			}
			if !found {
				t.Errorf("%s: unknown command", r.command())
			}
		}
	}
}

func TestChoose(t *testing.T) {
	chosen, err := choose([]string{"hold", "pods"}, true)
	if err != nil || len(chosen) != 5 {
		t.Errorf("%d parts, %v; want the four of pods and hold", len(chosen), err)
	}
	if _, err := choose([]string{"hodl"}, true); err == nil || !strings.Contains(err.Error(), `"hodl"`) || !strings.Contains(err.Error(), "hold") {
		t.Errorf("an unknown command: %v, want an error with its name and the known ones", err)
	}
}
