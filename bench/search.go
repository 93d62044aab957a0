package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/rehearse-k8s/rehearse/test/seeded"
)

func searchCommand(out *figures) *cobra.Command {
	s := seededSearches{out: out}
	c := &cobra.Command{
		Use:   "search",
		Short: "Measure how soon a search finds the seeded bugs of test/seeded",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("process-budget") {
				if s.processBudget <= 0 {
					return fmt.Errorf("--process-budget %s: want a duration above zero", s.processBudget)
				}
				for _, flag := range []string{"strategy", "runs", "parallel"} {
					if cmd.Flags().Changed(flag) {
						return fmt.Errorf("--process-budget and --%s are mutually exclusive: a search with real processes is guided, limited by its time, and uses all processors", flag)
					}
				}
				s.parallel = 1
			}
			return s.run(cmd.Context(), cmd.OutOrStdout())
		},
	}
	c.Flags().DurationVar(&s.processBudget, "process-budget", 0, "search with real processes (rehearse test) for at most this time each, instead of simtest")
	c.Flags().StringSliceVar(&s.bugs, "bugs", nil, "the bugs to search for; empty: all")
	c.Flags().StringSliceVar(&s.strategies, "strategy", []string{"guided"}, "the strategies to compare: guided, systematic, random, schedules")
	c.Flags().IntVar(&s.seeds, "seeds", 20, "searches of each bug with each strategy, with the seeds from 1")
	c.Flags().IntVar(&s.runs, "runs", 1000, "maximum number of runs of a search")
	c.Flags().IntVar(&s.parallel, "parallel", 2, "processes that search at the same time; each uses one processor")
	return c
}

// seededSearches are searches for seeded bugs with several strategies and seeds.
type seededSearches struct {
	bugs, strategies      []string
	seeds, runs, parallel int
	processBudget         time.Duration
	out                   *figures
}

// searched is the line that TestSearch of test/seeded prints for each search.
type searched struct {
	Bug, Other string
	Found      bool
	Runs       int
	Seconds    float64
}

// run searches and prints the table.
func (s seededSearches) run(ctx context.Context, out io.Writer) error {
	if s.seeds < 1 || s.runs < 1 || s.parallel < 1 {
		return fmt.Errorf("flags --seeds, --runs and --parallel: want numbers from 1")
	}
	if len(s.bugs) == 0 {
		s.bugs = slices.Sorted(maps.Keys(seeded.Bugs))
	}
	dir, err := os.MkdirTemp("", "rehearse-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	binary := filepath.Join(dir, "seeded.test")
	build := exec.CommandContext(ctx, "go", "test", "-c", "-o", binary, "./test/seeded")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return fmt.Errorf("build the tests of test/seeded: %w", err)
	}
	results := make([][]searched, len(s.bugs)*len(s.strategies))
	workers, ctx := errgroup.WithContext(ctx)
	workers.SetLimit(s.parallel)
	for n := range results {
		bug, strategy := s.bugs[n/len(s.strategies)], s.strategies[n%len(s.strategies)]
		workers.Go(func() (err error) {
			results[n], err = s.search(ctx, binary, bug, strategy)
			if err == nil {
				fmt.Fprintf(os.Stderr, "%s, %s: found in %d of %d searches", bug, strategy, foundIn(results[n]), s.seeds)
				if s.processBudget > 0 {
					for _, one := range results[n] {
						fmt.Fprintf(os.Stderr, "; run %d, %.0f s", one.Runs, one.Seconds)
					}
				}
				fmt.Fprintln(os.Stderr)
			}
			return err
		})
	}
	err = workers.Wait()
	return errors.Join(err, s.print(out, results)) // after an interrupt: what is complete
}

// search searches for one bug with one strategy and all seeds, in a process of its own.
func (s seededSearches) search(ctx context.Context, binary, bug, strategy string) (all []searched, err error) {
	args := []string{"-test.run=^TestSearch$", "-seeded.bugs=" + bug, "-simtest.strategy=" + strategy, "-seeded.search-runs=" + strconv.Itoa(s.runs)}
	if s.processBudget > 0 {
		args = []string{"-test.run=^TestProcessSearch$", "-seeded.process-bugs=" + bug, "-seeded.process-budget=" + s.processBudget.String(), "-test.v"}
	}
	cmd := exec.CommandContext(ctx, binary, append(args, "-test.timeout=0", "-seeded.seeds="+strconv.Itoa(s.seeds))...)
	output, err := cmd.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("search for %s with strategy %s: %w\n%s", bug, strategy, err, output)
	}
	lines := bufio.NewScanner(bytes.NewReader(output))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var one searched
		if strings.HasPrefix(lines.Text(), "{") && json.Unmarshal(lines.Bytes(), &one) == nil && one.Bug == bug {
			all = append(all, one)
		}
	}
	if len(all) != s.seeds {
		return nil, fmt.Errorf("search for %s with strategy %s: want %d results, got %d\n%s", bug, strategy, s.seeds, len(all), output)
	}
	return all, lines.Err()
}

func foundIn(all []searched) (n int) {
	for _, one := range all {
		if one.Found {
			n++
		}
	}
	return n
}

// print prints a row for each bug and strategy, and the number of searches of each strategy that found their bug.
func (s seededSearches) print(out io.Writer, results [][]searched) error {
	w := tabwriter.NewWriter(out, 0, 0, 1, ' ', 0)
	if s.processBudget > 0 {
		fmt.Fprintln(out, "Seconds are those of the whole search, with the repeats of the failure and with shrinking.")
	}
	fmt.Fprintln(w, "| Bug\t| Strategy\t| Found\t| Runs: median\t| 90th percentile\t| Seconds: median\t| 90th percentile\t|")
	fmt.Fprintln(w, "|---\t|---\t|---\t|---\t|---\t|---\t|---\t|")
	total, searches, others := map[string]int{}, map[string]int{}, map[string][]string{}
	for n, all := range results {
		if len(all) == 0 {
			continue
		}
		bug, strategy := s.bugs[n/len(s.strategies)], s.strategies[n%len(s.strategies)]
		searches[strategy] += len(all)
		var runs, seconds []float64
		for _, one := range all {
			if !one.Found {
				one.Runs, one.Seconds = math.MaxInt32, math.Inf(1)
			}
			if one.Other != "" {
				others[strategy] = append(others[strategy], bug+": "+one.Other)
			}
			runs, seconds = append(runs, float64(one.Runs)), append(seconds, one.Seconds)
		}
		total[strategy] += foundIn(all)
		value := func(values []float64, percent int, format string) string {
			if v := percentile(values, percent); v < math.MaxInt32 {
				return fmt.Sprintf(format, v)
			}
			return "not found"
		}
		fmt.Fprintf(w, "| %s\t| %s\t| %d of %d\t| %s\t| %s\t| %s\t| %s\t|\n", bug, strategy, foundIn(all), s.seeds,
			value(runs, 50, "%.0f"), value(runs, 90, "%.0f"), value(seconds, 50, "%.1f"), value(seconds, 90, "%.1f"))
		s.out.keep(bug+", "+strategy, fmt.Sprintf("%d of %d found; runs: median %s, 90th percentile %s; seconds: 90th percentile %s", foundIn(all), s.seeds,
			value(runs, 50, "%.0f"), value(runs, 90, "%.0f"), value(seconds, 90, "%.1f")))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, strategy := range s.strategies {
		text := fmt.Sprintf("%d of %d searches found their bug; %d ended at a failure of another invariant %q",
			total[strategy], searches[strategy], len(others[strategy]), others[strategy])
		fmt.Fprintf(out, "%s: %s\n", strategy, text)
		s.out.keep("all bugs, "+strategy, text)
	}
	return nil
}

// percentile returns the smallest value that is not less than percent of the values.
func percentile(values []float64, percent int) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[max(0, (len(sorted)*percent+99)/100-1)]
}
