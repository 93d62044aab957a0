package test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/cli/console"
	"github.com/rehearse-k8s/rehearse/internal/coverage"
	"github.com/rehearse-k8s/rehearse/internal/report"
	"github.com/rehearse-k8s/rehearse/internal/report/html"
)

// reportOptions are the flags of report.
type reportOptions struct {
	format  console.Output
	file    string
	nearest string
	width   int
	all     bool
}

func (a *app) reportCommand() *cobra.Command {
	o := &reportOptions{format: console.NewOutput("text", "text", "html", "json", "junit")}
	cmd := &cobra.Command{
		Use:   "report FILE...",
		Short: "Show a recorded run: the state of the API, and each controller's view of it",
		Long: `Show recorded runs, such as the failures that tests store under testdata/simtest.

  text   the lanes (the API's state, each controller's view) on the terminal, as a failing test prints them
  html   one self-contained page that opens at the violated invariant; ? shows its keys
  json   everything, for programs (kind: Report)
  junit  XML for a CI server

report shows a failure together with the nearest passing run, if HASH.nearest.jsonl exists next to HASH.jsonl. Several files
give one report. A directory means the .jsonl files in it.`,
		Example: `  rehearse report testdata/simtest/TestScaleDown/8a7e0c51d2b3f604.jsonl
  rehearse report testdata/simtest/TestScaleDown -o html --output report.html
  rehearse report run.jsonl -o json | jq '.runs[0].staleWrites'`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return console.Usagef("report requires a FILE with a recorded run, or - for standard input")
			}
			return nil
		},
		ValidArgsFunction: cobra.FixedCompletions(nil, cobra.ShellCompDirectiveDefault),
		RunE: func(_ *cobra.Command, args []string) error {
			switch {
			case o.format.Allows(o.file):
				return console.Usagef("--output %s: expects a file name; for the format use -o %s", o.file, o.file)
			case o.width < 0:
				return console.Usagef("--width %d: must not be negative", o.width)
			case o.nearest != "" && len(args) > 1:
				return console.Usagef("--nearest applies to one FILE, got %d", len(args))
			}
			return a.drawRuns(o, args)
		},
	}
	f := cmd.Flags()
	o.format.AddFlag(cmd, "format")
	f.StringVar(&o.file, "output", "", "write to this file instead of standard output")
	f.StringVar(&o.nearest, "nearest", "", "a passing run to show alongside the failure")
	f.IntVar(&o.width, "width", 0, "width of the text in columns (default 120)")
	f.BoolVar(&o.all, "all", false, "text and junit: show every step, not only those that are near the failure or led to it")
	return cmd
}

// around is the number of steps before and after a failure that are shown as text, in addition to those that led to it.
const around = 12

// drawRuns writes one report of all files; on an error it writes nothing.
func (a *app) drawRuns(o *reportOptions, args []string) error {
	files, err := recordFiles(args)
	if err != nil {
		return err
	}
	var runs []*report.Run
	for _, name := range files {
		run, err := a.readRun(name)
		if err != nil {
			return err
		}
		nearest, err := a.nearestRun(o, name)
		if err != nil {
			return err
		}
		var covered []coverage.Row
		if name == console.Stdin {
			name = ""
		} else if covered, err = report.ReadCoverage(name); err != nil {
			return console.Usagef("%v", err)
		}
		one := report.Of(name, run, nearest)
		one.Coverage = covered
		runs = append(runs, one)
	}
	// The report is built in memory first: an incomplete file would look like a report.
	var b bytes.Buffer
	if err := a.writeReport(&b, o, report.New(runs...)); err != nil {
		return err
	}
	if o.file == "" {
		_, err = a.Out.Write(b.Bytes())
		return err
	}
	if err := os.WriteFile(o.file, b.Bytes(), 0o600); err != nil {
		if pathErr := (*fs.PathError)(nil); errors.As(err, &pathErr) && pathErr.Op == "open" {
			return console.Usagef("--output: %v", err)
		}
		return fmt.Errorf("--output: %w", err) // a full disk is not a usage error
	}
	a.Say("%s: %s", o.file, console.Count(len(runs), "run"))
	return nil
}

func (a *app) writeReport(w io.Writer, o *reportOptions, r *report.Report) error {
	lanes := report.LaneOptions{Width: o.width, Around: around}
	if o.all {
		lanes.Around = 0
	}
	switch o.format.String() {
	case "html":
		return html.Write(w, r)
	case "json":
		return report.WriteJSON(w, r)
	case "junit":
		return report.WriteJUnit(w, r, lanes)
	}
	lanes.Colour = o.file == "" && a.Colour()
	for i, run := range r.Runs {
		if i > 0 {
			fmt.Fprintln(w)
		}
		if err := report.WriteText(w, run, lanes); err != nil {
			return err
		}
	}
	return nil
}

// recordFiles are the files that the arguments name. The nearest runs in a directory are shown with their failures, not on
// their own.
func recordFiles(args []string) (files []string, err error) {
	for _, arg := range args {
		info, err := os.Stat(arg)
		if err != nil || !info.IsDir() {
			files = append(files, arg)
			continue
		}
		found, err := filepath.Glob(filepath.Join(escapeGlob(arg), "*.jsonl"))
		if err != nil {
			return nil, console.Usagef("%s: %v", arg, err)
		}
		found = slices.DeleteFunc(found, report.IsNearestFile)
		if len(found) == 0 {
			return nil, console.Usagef("%s: the directory contains no recorded run (.jsonl)", arg)
		}
		files = append(files, found...)
	}
	return files, nil
}

func escapeGlob(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

// readRun reads a recorded run. An incomplete record is an InconclusiveError.
func (a *app) readRun(name string) (*history.Run, error) {
	from, err := a.Open(name)
	if err != nil {
		return nil, err
	}
	defer from.Close()
	run, err := history.Read(from)
	if err == nil {
		return run, nil
	}
	if pathErr := (*fs.PathError)(nil); errors.As(err, &pathErr) {
		return nil, console.Usagef("%v", pathErr)
	}
	return nil, &console.InconclusiveError{Message: fmt.Sprintf("%s: %s", name, strings.TrimPrefix(console.Message(err), "history: "))}
}

// nearestRun is the passing run to show with a failure: the one of --nearest, or the file next to the failure.
func (a *app) nearestRun(o *reportOptions, name string) (*history.Run, error) {
	if o.nearest != "" {
		return a.readRun(o.nearest)
	}
	if name == console.Stdin || report.IsNearestFile(name) {
		return nil, nil
	}
	nearest := report.NearestFile(name)
	if _, err := os.Stat(nearest); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return a.readRun(nearest)
}
