package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/rehearse-k8s/rehearse/internal/version"
)

func (a *app) versionCommand() *cobra.Command {
	var out output
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version, and the Kubernetes API level it serves",
		Example: `  rehearse version
  rehearse version -o json`,
		Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			v := version.Get()
			if out.machine() {
				return out.print(a.Out, v)
			}
			fmt.Fprintf(a.Out, "rehearse %s (commit %s, %s) Kubernetes %s %s %s\n",
				v.Version, v.Commit, v.Date, v.Kubernetes, v.Go, v.Platform)
			return nil
		},
	}
	out.addFlag(cmd, "json", "yaml")
	return cmd
}
