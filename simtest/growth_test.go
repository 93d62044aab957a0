package simtest

import (
	"strings"
	"testing"

	"github.com/rehearse-k8s/rehearse/internal/verdict"
)

// TestGrowing: only a place whose goroutines become more in each of the last three repetitions counts.
func TestGrowing(t *testing.T) {
	for name, c := range map[string]struct {
		counts []int
		want   string
	}{
		"each repetition leaves one":      {[]int{1, 2, 3, 4}, "p has started 1, 2, 3, 4 goroutines that have not returned after the last 4 of 4 repetitions"},
		"two more at the beginning":       {[]int{1, 2, 3, 3, 3}, ""},
		"a worker that starts late":       {[]int{0, 0, 0, 0, 1}, ""},
		"it grows after some time":        {[]int{0, 0, 1, 3, 9}, "p has started 0, 1, 3, 9 goroutines that have not returned after the last 4 of 5 repetitions"},
		"one restart between two growths": {[]int{1, 2, 1, 2, 3}, ""},
	} {
		var rounds []map[string]int
		for _, n := range c.counts {
			rounds = append(rounds, map[string]int{"p": n, "other": 5})
		}
		if got := growing(rounds); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestStartedBy: goroutines are counted by the statement that has started them.
func TestStartedBy(t *testing.T) {
	stacks := []string{
		"goroutine 7 [select, synctest bubble 2]:\na.b()\n\t/x/b.go:3 +0x1\ncreated by a.(*C).start in goroutine 5\n\t/x/y/a.go:12 +0x20",
		"goroutine 8 [select, synctest bubble 2]:\na.b()\n\t/x/b.go:3 +0x1\ncreated by a.(*C).start in goroutine 6\n\t/x/y/a.go:12 +0x20\n",
		"goroutine 1 [running]:\nmain.main()\n\t/x/main.go:3 +0x1",
	}
	got := startedBy(stacks)
	if len(got) != 1 || got["a.(*C).start (a.go:12)"] != 2 {
		t.Errorf("%v", got)
	}
}

// TestRepeat: a goroutine that each repetition leaves behind is a failure which names the statement that started it.
func TestRepeat(t *testing.T) {
	for name, c := range map[string]struct {
		times  int
		leaves bool
		oracle string
		says   string
	}{
		"leaves goroutines": {4, true, verdict.GrowthOracle, "simtest.TestRepeat.func"},
		"leaves none":       {4, false, "", ""},
		"too few":           {3, false, testOracle, "Repeat(3): want at least 4 repetitions"},
	} {
		t.Run(name, func(t *testing.T) {
			r := Explore(t, Seeds(1), func(w *World) {
				w.Repeat(c.times, func() {
					if c.leaves {
						go func() { <-w.ctx.Done() }()
					}
				})
			})
			switch {
			case r.Failure == nil && c.oracle != "":
				t.Fatal("the run passed")
			case r.Failure == nil:
			case r.Failure.Run.Failure.Oracle != c.oracle || !strings.Contains(r.Failure.Run.Failure.Message, c.says):
				t.Errorf("%+v", r.Failure.Run.Failure)
			}
		})
	}
}
