package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestBuildsTable: each build is compared with the first one, round by round; a round that not all have does not count.
func TestBuildsTable(t *testing.T) {
	phases := func(speed float64) []phaseCost {
		return []phaseCost{{perSecond: speed, cpu: 1000 / speed, memory: 1 << 30}, {perSecond: 2 * speed, cpu: 500 / speed}}
	}
	got := buildsTable([]string{"old", "new"}, [][][]phaseCost{{phases(100), phases(200), phases(400), phases(7)}, {phases(110), phases(180), phases(600)}})
	for _, want := range []string{
		"pods Ready per second:\n  old: median 200\n  new: median 180, difference +10.0 %, more in 2 of 3 rounds\n",
		"pods deleted per second:\n  old: median 400\n",
		"CPU per pod until Ready, ms:\n  old: median 5\n  new: median 5.556, difference -9.1 %, more in 1 of 3 rounds\n",
		"memory when all are Ready, MB:\n  old: median 1024\n  new: median 1024, difference +0.0 %, more in 0 of 3 rounds\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in\n%s", want, got)
		}
	}
}

// TestBuildsArguments: wrong arguments are errors that say what is wanted, before a server starts.
func TestBuildsArguments(t *testing.T) {
	for want, args := range map[string][]string{
		"0 files":              {},
		"1 files":              {"a", "--", "--nodes", "3"},
		"--rounds 0":           {"a", "b", "--rounds", "0"},
		"--starts -1":          {"a", "b", "--starts", "-1"},
		"--kubeconfig":         {"a", "b", "--kubeconfig", "k"},
		"absent: no such file": {os.Args[0], filepath.Join(t.TempDir(), "absent")},
	} {
		cmd := buildsCommand()
		cmd.SetArgs(args)
		cmd.SetOut(io.Discard)
		cmd.SetErr(io.Discard)
		if err := cmd.ExecuteContext(context.Background()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", args, err, want)
		}
	}
}
