package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// part is one measurement of bench all: a command, its flags for the sizes of docs/benchmarks.md, and those that make it short.
type part struct {
	section, command string
	full, quick      string
	up               string // flags of `up`; DIR stands for a directory that exists as long as the part runs
}

// parts are the measurements of docs/benchmarks.md in the order of the page. The comparison is the first, because it is the
// one whose figures hold on other machines.
var parts = []part{
	{section: "Rounds of the comparison", command: "compare", quick: "--nodes 100 --pods 1000 --rounds 3"},
	{section: "Start", command: "startup", quick: "--runs 2"},
	{section: "Start", command: "startup", quick: "--runs 2", up: "--data-dir DIR"},
	{section: "Pods created by one external client", command: "pods", quick: "--nodes 100 --pods 1000"},
	{section: "Pods created by one external client", command: "pods --scheduler", quick: "--nodes 100 --pods 1000"},
	{section: "Pods created by one external client", command: "pods --no-engine", quick: "--nodes 100 --pods 1000"},
	{section: "Pods created by one external client", command: "pods --bare", quick: "--nodes 100 --pods 1000"},
	{section: "Many pods, and long runs", command: "hold", quick: "--nodes 100 --pods 2000 --rest 6s"},
	{section: "Many pods, and long runs", command: "sizing", quick: "--nodes 100 --pods 1000 --rest 3s"},
	{section: "Many pods, and long runs", command: "churn", full: "--for 2m", quick: "--for 12s --pods 200"},
	{section: "Watches", command: "watches", quick: "--nodes 100 --pods 1000 --watchers 100 --objects 2000 --for 5s"},
	{section: "Resource metrics", command: "top", quick: "--nodes 100 --pods 1000 --runs 2"},
	{section: "Resource metrics", command: "hpa", quick: "--nodes 10 --pods 100 --autoscalers 10 --rest 4s"},
	{section: "Snapshots", command: "snapshot", quick: "--pods 1000 --formats yaml"},
	{section: "Snapshots", command: "replay", quick: "--for 5s"},
	{section: "The stage engine", command: "stage --bare", quick: "--pods 1000"},
	{section: "The stage engine", command: "leases", quick: "--nodes 500 --rest 5s"},
	{section: "The stage engine", command: "shards", quick: "--nodes 1000 --processes 2 --rest 25s"},
	{section: "The Job controller", command: "job", quick: "--pods 500 --jobs 200"},
	{section: "The CloneSet controller", command: "cloneset", quick: "--pods 500 --updates 200"},
	{section: "The proxy", command: "proxy", quick: "--nodes 100 --pods 1000"},
	{section: "Package benchmarks", command: "packages", quick: "--benchtime 5x"},
	{section: "simtest", command: "simtest", quick: "--seeds 100 --repeats 20 --benchtime 50x"},
	{section: "Search", command: "search", full: "--strategy guided,systematic --seeds 2", quick: "--strategy guided --seeds 1 --runs 300 --bugs wide,migration"},
}

// args returns the arguments of the command.
func (p part) args(quick bool) []string {
	line := p.command + " " + p.full
	if quick {
		line = p.command + " " + p.quick
	}
	if p.up != "" {
		line += " -- " + p.up
	}
	return strings.Fields(line)
}

func allCommand(binary *string) *cobra.Command {
	var quick bool
	var only []string
	var dir string
	c := &cobra.Command{
		Use:   "all",
		Short: "Run the measurements of docs/benchmarks.md, and write a table and a plot",
		Long: `Run the measurements of docs/benchmarks.md one after the other, and write DIR/benchmarks.md (the table) and
DIR/ratios.svg (rehearse compared with kube-apiserver, etcd and KWOK, round by round). The files are written after each part:
a part that fails is named in the table, and Ctrl-C keeps what is measured and lists what is missing.

The full sizes take hours on a small machine; --quick takes minutes, and its figures are comparable only with each other.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			chosen, err := choose(only, quick)
			if err != nil {
				return err
			}
			if err := os.MkdirAll(dir, 0o755); err != nil {
				return err
			}
			t := table{title: "full sizes", machine: describeMachine(time.Now()), results: chosen}
			if quick {
				t.title = "quick sizes, comparable only with each other"
			}
			run := func(ctx context.Context, args []string, out *figures) error { return execute(ctx, binary, args, out) }
			if err := t.run(cmd.Context(), run, func() error { return t.save(dir) }); err != nil {
				return err
			}
			fmt.Printf("\nwritten: %s, %s\n", filepath.Join(dir, "benchmarks.md"), filepath.Join(dir, "ratios.svg"))
			if missing := t.missing(); len(missing) > 0 {
				return fmt.Errorf("%d of %d parts have no complete result:\n%s", len(missing), len(t.results), strings.Join(missing, "\n"))
			}
			return nil
		},
	}
	c.Flags().BoolVar(&quick, "quick", false, "small sizes")
	c.Flags().StringVar(&dir, "out", filepath.Join(os.TempDir(), "rehearse-bench-results"), "directory of the table and the plot")
	c.Flags().StringSliceVar(&only, "only", nil, "the commands to run, for example compare,hold; empty: all")
	return c
}

// choose returns the parts to run, none of them started.
func choose(only []string, quick bool) (chosen []result, err error) {
	var names []string
	for _, p := range parts {
		args := p.args(quick)
		names = append(names, args[0])
		if len(only) == 0 || slices.Contains(only, args[0]) {
			chosen = append(chosen, result{section: p.section, args: args})
		}
	}
	for _, name := range only {
		if !slices.Contains(names, name) {
			return nil, fmt.Errorf("flag --only: unknown command %q: want some of %s", name, strings.Join(slices.Compact(names), ", "))
		}
	}
	return chosen, nil
}

// run runs the parts one after the other and saves the table after each. A part that fails does not end the others; the end of
// ctx does.
func (t *table) run(ctx context.Context, execute func(context.Context, []string, *figures) error, save func() error) error {
	for n := range t.results {
		if ctx.Err() != nil {
			break
		}
		r := &t.results[n]
		fmt.Printf("\n[%d of %d] %s\n", n+1, len(t.results), r.command())
		start := time.Now()
		r.loads[0] = machineLoad()
		err := execute(ctx, r.args, &r.figures)
		r.took, r.loads[1] = time.Since(start), machineLoad()
		switch {
		case err == nil:
			r.state = complete
		case ctx.Err() != nil:
			r.state = interrupted
		default:
			r.state, r.reason = failed, err.Error()
			fmt.Printf("failed: %s\n", err)
		}
		if err := save(); err != nil {
			return err
		}
		debug.FreeOSMemory() // the garbage of one part is no cost of the next
	}
	return nil
}

// save writes the table and the plot. Each file is replaced as a whole, so an interrupt leaves no half file.
func (t *table) save(dir string) error {
	files := map[string]string{"benchmarks.md": t.markdown()}
	if ratios := t.ratios(); len(ratios) > 0 {
		files["ratios.svg"] = plot(ratios)
	}
	for name, text := range files {
		file := filepath.Join(dir, name)
		err := os.WriteFile(file+".tmp", []byte(text), 0o644)
		if err == nil {
			err = os.Rename(file+".tmp", file)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// execute runs a command as `go run ./bench ARGS` does, and collects its figures.
func execute(ctx context.Context, binary *string, args []string, out *figures) error {
	root := &cobra.Command{Use: "bench", SilenceUsage: true, SilenceErrors: true}
	root.AddCommand(measurements(binary, out)...)
	dir, err := os.MkdirTemp("", "rehearse-bench-part-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	args = slices.Clone(args)
	for n, arg := range args {
		if arg == "DIR" {
			args[n] = filepath.Join(dir, "data")
		}
	}
	root.SetArgs(args)
	ctx, cancel := context.WithCancel(ctx) // a watch that a command left open does not run into the next part
	defer cancel()
	if err := root.ExecuteContext(ctx); err != nil {
		return err
	}
	if len(out.rows)+len(out.ratios) == 0 {
		return errors.New("the command measured nothing")
	}
	return nil
}

// describeMachine names what the figures depend on.
func describeMachine(now time.Time) string {
	text := fmt.Sprintf("%s, %d cores, ", now.Format(time.DateOnly), runtime.NumCPU())
	if memory := machineMemory(); memory > 0 {
		text += fmt.Sprintf("%d GiB, ", memory>>30)
	}
	return text + fmt.Sprintf("%s/%s, %s", runtime.GOOS, runtime.GOARCH, runtime.Version())
}

// machineMemory returns the bytes of memory of the machine; 0 on systems without /proc.
func machineMemory() (bytes int64) {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0
	}
	var kb int64
	if _, err := fmt.Sscanf(string(text), "MemTotal: %d kB", &kb); err != nil {
		return 0
	}
	return kb << 10
}
