package test

import (
	"github.com/spf13/cobra"

	"github.com/rehearse-k8s/rehearse/internal/cli/console"
)

// app is the console, for the methods of this package.
type app struct{ *console.Console }

// Commands returns test, replay and report.
func Commands(c *console.Console) []*cobra.Command {
	a := &app{c}
	return []*cobra.Command{a.testCommand(), a.replayCommand(), a.reportCommand()}
}
