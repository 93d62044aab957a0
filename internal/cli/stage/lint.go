package stage

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/rehearse-k8s/rehearse/internal/cli/console"
	"github.com/rehearse-k8s/rehearse/internal/stage/lint"
	"github.com/rehearse-k8s/rehearse/internal/stagefiles"
)

// app is the console, for the methods of this package.
type app struct{ *console.Console }

// Command returns stage with its subcommands lint, explain and play.
func Command(c *console.Console) *cobra.Command {
	a := &app{c}
	cmd := &cobra.Command{
		Use:   "stage",
		Short: "Check stages, explain an object's next stage, simulate a lifecycle without a cluster",
		Long: `Tools for authors of stages (kind Stage of kwok.x-k8s.io/v1alpha1).

  lint     reports errors in files of stages, and stages that will not work as intended
  explain  reports which stage an object is in, why, when it is due and what it will write
  play     simulates the lifecycle of an object in virtual time`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.stageLintCommand(), a.stageExplainCommand(), a.stagePlayCommand())
	return cmd
}

// lintOptions are the flags of stage lint.
type lintOptions struct {
	out      console.Output
	strict   bool
	severity string
}

func (a *app) stageLintCommand() *cobra.Command {
	o := &lintOptions{out: console.NewOutput("", "json", "yaml")}
	cmd := &cobra.Command{
		Use:   "lint FILE|DIR|builtin:NAME|-...",
		Short: "Report errors in stages",
		Long: `Report all findings in stages, one per line: FILE:LINE:COLUMN: SEVERITY: stage NAME: FIELD: finding.

lint treats all arguments together as one set of stages. In addition to the errors that prevent loading, it finds contradictory
requirements, fields and values that the API does not have, templates that fail on sample objects or whose output does not
match the API's types, stages that no other stage leads to, loops without a delay, and fields without effect.

The exit code is 1 if there are errors, and with --strict also if there are warnings. --severity info also shows deprecated
forms and similar findings.

Objects that configure kubelet endpoints (Logs, Exec and so on) are checked as 'rehearse up' checks them. Objects of other groups,
such as a StorageClass in a directory of KWOK's stages, have no effect; a warning names them.`,
		Example: `  rehearse stage lint stages.yaml
  rehearse stage lint builtin:pod-fast my-pods.yaml --strict
  kubectl get stages -o yaml | yq '.items[] | split_doc' | rehearse stage lint -`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return console.Usagef("stage lint requires files, directories, builtin:NAME or -")
			}
			return nil
		},
		ValidArgsFunction: completeStages,
		RunE:              func(_ *cobra.Command, args []string) error { return a.stageLint(o, args) },
	}
	o.out.AddFlag(cmd, "output")
	cmd.Flags().BoolVar(&o.strict, "strict", false, "treat warnings as errors")
	cmd.Flags().StringVar(&o.severity, "severity", string(lint.Warning), "lowest severity to show: info|warning|error")
	_ = cmd.RegisterFlagCompletionFunc("severity", cobra.FixedCompletions([]string{"info", "warning", "error"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// lintReport is the output of `stage lint -o json`.
type lintReport struct {
	APIVersion string         `json:"apiVersion"`
	Kind       string         `json:"kind"`
	Stages     int            `json:"stages"`
	Errors     int            `json:"errors"`
	Warnings   int            `json:"warnings"`
	Findings   []lint.Finding `json:"findings"`
}

func (a *app) stageLint(o *lintOptions, args []string) error {
	levels := map[lint.Severity]int{lint.Info: 0, lint.Warning: 1, lint.Error: 2}
	least, ok := levels[lint.Severity(o.severity)]
	if !ok {
		return console.Usagef("--severity %q: must be info, warning or error", o.severity)
	}
	files, err := a.stageFiles(args)
	if err != nil {
		return err
	}
	separated := stagefiles.Split(files...)
	a.warnIgnored(separated)
	found := lint.Files(separated.Stages...)
	for _, e := range separated.Errors {
		found.Findings = append(found.Findings, lint.Finding{File: e.File, Line: e.Line, Severity: lint.Error, Message: e.Message})
	}
	report := lintReport{APIVersion: console.APIVersion, Kind: "StageLintReport", Stages: found.Stages, Findings: []lint.Finding{}}
	hidden := 0
	for _, f := range found.Findings {
		if o.strict && f.Severity == lint.Warning {
			f.Severity = lint.Error
		}
		switch f.Severity {
		case lint.Error:
			report.Errors++
		case lint.Warning:
			report.Warnings++
		}
		if levels[f.Severity] < least {
			hidden++
			continue
		}
		report.Findings = append(report.Findings, f)
	}
	if o.out.IsMachineReadable() {
		err = o.out.Print(a.Out, report)
	} else {
		for _, f := range report.Findings {
			fmt.Fprintln(a.Out, f)
		}
	}
	if err != nil {
		return err
	}
	sum := fmt.Sprintf("%s in %s, %s", console.Count(report.Errors, "error"), console.Count(report.Stages, "stage"), console.Count(report.Warnings, "warning"))
	if hidden > 0 {
		sum += fmt.Sprintf("; %d more with --severity info", hidden)
	}
	if report.Errors > 0 {
		return errors.New(sum)
	}
	a.Say("%s", sum)
	return nil
}
