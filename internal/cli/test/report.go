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
		Short: "Draw a recorded run: what was true, and what each controller believed",
		Long: `Draw recorded runs, such as the failures that tests keep under testdata/simtest.

  text   the lanes of belief on the terminal, as a failing test prints them
  html   one page that needs nothing but itself: opens from a disk, at the broken promise; ? shows its keys
  json   all of it, for programs (kind: Report)
  junit  XML for a CI server

The nearest run that held is drawn beside a failure when HASH.nearest.jsonl lies beside HASH.jsonl. With several files there is
one report of all. A directory stands for the .jsonl files in it.`,
		Example: `  rehearse report testdata/simtest/TestScaleDown/8a7e0c51d2b3f604.jsonl
  rehearse report testdata/simtest/TestScaleDown -o html --output report.html
  rehearse report run.jsonl -o json | jq '.runs[0].staleWrites'`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return console.Usagef("report needs a FILE with a recorded run, or - for standard input")
			}
			return nil
		},
		ValidArgsFunction: cobra.FixedCompletions(nil, cobra.ShellCompDirectiveDefault),
		RunE: func(_ *cobra.Command, args []string) error {
			switch {
			case o.format.Allows(o.file):
				return console.Usagef("--output %s: names a file; the format is -o %s", o.file, o.file)
			case o.width < 0:
				return console.Usagef("--width %d: must not be negative", o.width)
			case o.nearest != "" && len(args) > 1:
				return console.Usagef("--nearest belongs to one FILE, and there are %d", len(args))
			}
			return a.drawRuns(o, args)
		},
	}
	f := cmd.Flags()
	o.format.AddFlag(cmd, "format")
	f.StringVar(&o.file, "output", "", "write to this file in place of standard output")
	f.StringVar(&o.nearest, "nearest", "", "a run that held, to be drawn beside the failure")
	f.IntVar(&o.width, "width", 0, "columns of the text (default 120)")
	f.BoolVar(&o.all, "all", false, "text and junit: every step, also those that lie far from the failure and did not lead to it")
	return cmd
}

// around is how many steps before and after a failure are shown as text, beside those
// that led to it.
const around = 12

// drawRuns writes one report of all files, or none.
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
		if name == console.Stdin {
			name = ""
		}
		runs = append(runs, report.Of(name, run, nearest))
	}
	// Whole in memory first: a file that could not be finished would pass for a report.
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
		return fmt.Errorf("--output: %w", err) // a full disk is nobody's mistake
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

// recordFiles are the files that the arguments name. Nearest runs are drawn beside
// their failures, so that those in a directory are no files of their own.
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
			return nil, console.Usagef("%s: there is no recorded run (.jsonl) in this directory", arg)
		}
		files = append(files, found...)
	}
	return files, nil
}

func escapeGlob(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

// readRun reads a recorded run. What is no whole record of one allows no statement on
// the run, which is the exit code 3.
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

// nearestRun is the run to draw beside: the one that was named, or that lies beside.
func (a *app) nearestRun(o *reportOptions, name string) (*history.Run, error) {
	if o.nearest != "" {
		return a.readRun(o.nearest)
	}
	if name == console.Stdin || report.IsNearestFile(name) {
		return nil, nil
	}
	beside := report.NearestFile(name)
	if _, err := os.Stat(beside); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return a.readRun(beside)
}
