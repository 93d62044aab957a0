package snapshot

import (
	"github.com/spf13/cobra"

	"github.com/rehearse-k8s/rehearse/internal/cli/console"
)

// Command returns snapshot with its subcommands.
func Command(c *console.Console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "snapshot",
		Short: "Save the objects of a cluster to a file, and create them in another cluster",
		Long: `Save the objects of a cluster to a file, and create them in another cluster.

The file is YAML with one document per object. FILE.gz is compressed, and FILE.jsonl has one line of JSON per object, which is faster
for tens of thousands of objects. FILE can be '-' for standard output or input.`,
		Args: console.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(saveCommand(c), exportCommand(c), restoreCommand(c), recordCommand(c), replayCommand(c))
	return cmd
}

// oneFile checks that there is one argument.
func oneFile(cmd *cobra.Command, args []string) error {
	if len(args) != 1 || args[0] == "" {
		return console.Usagef("%s requires one FILE", cmd.CommandPath())
	}
	return nil
}
