package cli

import (
	"context"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rehearse-k8s/rehearse/cluster"
	clustercmd "github.com/rehearse-k8s/rehearse/internal/cli/cluster"
	"github.com/rehearse-k8s/rehearse/internal/cli/console"
	"github.com/rehearse-k8s/rehearse/internal/cli/scale"
	"github.com/rehearse-k8s/rehearse/internal/cli/simulate"
	"github.com/rehearse-k8s/rehearse/internal/cli/snapshot"
	"github.com/rehearse-k8s/rehearse/internal/cli/stage"
	"github.com/rehearse-k8s/rehearse/internal/cli/test"
	"github.com/rehearse-k8s/rehearse/internal/gcpace"
	"github.com/rehearse-k8s/rehearse/internal/version"
)

// app is one run of the program.
type app struct {
	*console.Console
	start clustercmd.Start

	ran bool // the code of a command has started; until then, every error is a usage error
}

// init removes the flags that the Kubernetes packages add to the global flag set: cobra would add them to our root command,
// where they have no effect and one of them takes the name --version.
func init() { pflag.CommandLine = pflag.NewFlagSet("rehearse", pflag.ContinueOnError) }

func newApp(streams Streams) *app {
	return &app{
		Console: console.New(streams),
		start: func(ctx context.Context, o cluster.Options) (clustercmd.Running, error) {
			go gcpace.Run(ctx) // from now on this process runs a cluster
			c, err := cluster.Start(ctx, o)
			if err != nil {
				return nil, err // not a nil *Cluster in an interface
			}
			return c, nil
		},
	}
}

// Streams are the three standard streams of a run.
type Streams = console.Streams

// StdStreams returns the streams of the process.
func StdStreams() Streams { return console.StdStreams() }

// Main runs the program with these arguments (without the program's name) and returns its exit code.
func Main(ctx context.Context, args []string, streams Streams) int {
	return newApp(streams).run(ctx, args)
}

func (a *app) run(ctx context.Context, args []string) int {
	root := a.rootCommand()
	root.SetArgs(args)
	root.SetIn(a.In)
	root.SetOut(a.Out)
	root.SetErr(a.Err)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return console.ExitOK
	}
	if !a.ran && console.ExitCode(err) == console.ExitFailed {
		err = console.ParserError(err)
	}
	a.Report(err, cmd.CommandPath())
	return console.ExitCode(err)
}

func (a *app) rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "rehearse",
		Short: "Test Kubernetes controllers before they meet a real cluster",
		Long: `rehearse runs a real Kubernetes API with simulated nodes and pods in one process, and tests controllers against late, lost
and reordered events.

Start a cluster, use it with the built-in kubectl or your own, and stop it with Ctrl-C.`,
		Example: `  rehearse up
  rehearse kubectl get nodes`,
		Version:       version.Get().Version,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.AddGroup(&cobra.Group{ID: "cluster", Title: "Clusters:"}, &cobra.Group{ID: "tools", Title: "Tools:"})
	root.SetHelpCommandGroupID("tools")
	root.SetCompletionCommandGroupID("tools")
	add := func(group string, commands ...*cobra.Command) {
		for _, c := range commands {
			c.GroupID = group
			a.wrap(c)
			root.AddCommand(c)
		}
	}
	add("cluster", clustercmd.Commands(a.Console, a.start)...)
	add("cluster", scale.Command(a.Console), simulate.Command(a.Console), snapshot.Command(a.Console))
	add("tools", test.Commands(a.Console)...)
	add("tools", stage.Command(a.Console), a.versionCommand())
	root.AddCommand(test.ControllerCommand(a.Console))
	root.AddCommand(topics()...)
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		if c.Name() == "completion" { // with a RunE, cobra rejects unknown arguments
			c.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		}
	}
	return root
}

// wrap sets ran when the code of a command or of one of its subcommands starts.
func (a *app) wrap(c *cobra.Command) {
	if run := c.RunE; run != nil {
		c.RunE = func(cmd *cobra.Command, args []string) error {
			a.ran = true
			return run(cmd, args)
		}
	}
	for _, sub := range c.Commands() {
		a.wrap(sub)
	}
}
