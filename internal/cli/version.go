package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/rehearse-k8s/rehearse/internal/cli/console"
	"github.com/rehearse-k8s/rehearse/internal/version"
)

func (a *app) versionCommand() *cobra.Command {
	out := console.NewOutput("", "json", "yaml")
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version, and the Kubernetes version of the API",
		Example: `  rehearse version
  rehearse version -o json`,
		Args: console.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			v := version.Get()
			if out.IsMachineReadable() {
				return out.Print(a.Out, v)
			}
			fmt.Fprintf(a.Out, "rehearse %s (commit %s, %s) Kubernetes %s %s %s\n",
				v.Version, v.Commit, v.Date, v.Kubernetes, v.Go, v.Platform)
			return nil
		},
	}
	out.AddFlag(cmd, "output")
	return cmd
}
