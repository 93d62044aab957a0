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
	"github.com/rehearse-k8s/rehearse/internal/cli/stage"
	"github.com/rehearse-k8s/rehearse/internal/cli/test"
	"github.com/rehearse-k8s/rehearse/internal/gcpace"
	"github.com/rehearse-k8s/rehearse/internal/version"
)

// app is one run of the program with everything it touches outside itself.
type app struct {
	*console.Console
	start clustercmd.Start

	ran bool // a command's own code was reached: before that, every error is a usage error
}

// init drops the flags that the Kubernetes packages put into the process's global set, from where cobra would add them to
// our root command: they would not work there, and one of them takes the name --version.
func init() { pflag.CommandLine = pflag.NewFlagSet("rehearse", pflag.ContinueOnError) }

func newApp(streams Streams) *app {
	return &app{
		Console: console.New(streams),
		start: func(ctx context.Context, o cluster.Options) (clustercmd.Running, error) {
			go gcpace.Run(ctx) // this process is a cluster from here on
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
		Long: `rehearse runs a real Kubernetes API with simulated nodes and pods in one process.

Start a cluster, use it with the kubectl that is built in or with your own, and stop it with Ctrl-C.`,
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
	add("cluster", scale.Command(a.Console), simulate.Command(a.Console))
	add("tools", test.Commands(a.Console)...)
	add("tools", stage.Command(a.Console), a.versionCommand())
	root.AddCommand(test.ControllerCommand(a.Console))
	root.AddCommand(topics()...)
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		if c.Name() == "completion" { // with something to run, cobra looks at its arguments
			c.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		}
	}
	return root
}

// wrap notes that the command line was understood, for the command and those below it.
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
