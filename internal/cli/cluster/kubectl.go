package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	_ "k8s.io/client-go/plugin/pkg/client/auth" // as kubectl: kubeconfigs of other clusters may need them
	"k8s.io/client-go/rest"
	basecli "k8s.io/component-base/cli"
	"k8s.io/component-base/logs"
	kubectl "k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/plugin"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"

	"github.com/rehearse-k8s/rehearse/internal/cli/console"
	"github.com/rehearse-k8s/rehearse/internal/cli/statedir"
	"github.com/rehearse-k8s/rehearse/internal/cli/target"
)

func (a *app) kubectlCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "kubectl [ARGUMENTS...]",
		Short: "Run the built-in kubectl",
		Long: `Run the real kubectl, which is built in, with these arguments.

Unless the arguments name a cluster (--kubeconfig, --context, --cluster, --server), kubectl uses the running rehearse
cluster: the one that REHEARSE_NAME names, or the one with the name "rehearse", or the only one. Otherwise the command fails;
it never uses the kubeconfig's current context, which could be a production cluster. Before kubectl's own arguments, --name NAME
names the rehearse cluster.

Output and exit codes are those of kubectl.`,
		Example: `  rehearse kubectl get nodes
  rehearse kubectl create deployment web --image=nginx --replicas=10
  rehearse kubectl --name other get pods`,
		DisableFlagParsing: true,
		ValidArgsFunction:  a.completeKubectl,
		RunE:               func(_ *cobra.Command, args []string) error { return a.kubectl(args) },
	}
}

// kubectl does what kubectl's own main does. Errors of its commands exit the process.
func (a *app) kubectl(args []string) error {
	wanted, args, err := takeName(args)
	if err != nil {
		return err
	}
	reason, err := a.selectCluster(wanted, args)
	if err != nil {
		return err
	}
	setKubectlVersion()
	// As upstream's main: klog is used while the command is still being built.
	_, _ = logs.GlogSetter(kubectl.GetLogVerbosity(args))
	var wrap func(*rest.Config) *rest.Config
	if reason != "" {
		// kubectl creates a client only where it needs a server, so that `kubectl kustomize` works without one.
		wrap = func(*rest.Config) *rest.Config {
			a.Say("rehearse: %s", reason)
			a.Exit(console.ExitFailed)
			return nil
		}
	}
	cmd := a.buildKubectl(args, wrap)
	if err := basecli.RunNoErrOutput(cmd); err != nil {
		kubectlutil.CheckErr(err)
	}
	return nil
}

// asKubectl makes the requests those of a program named kubectl: the API server derives the field manager of some of its writes,
// such as scale, from the user agent. Otherwise they would be those of the cluster's own controllers.
func asKubectl(c *rest.Config) *rest.Config {
	_, version, _ := strings.Cut(rest.DefaultKubernetesUserAgent(), "/")
	c.UserAgent = "kubectl/" + version
	return c
}

// buildKubectl builds the command; wrap, if set, changes the configuration of each client in place of asKubectl.
func (a *app) buildKubectl(args []string, wrap func(*rest.Config) *rest.Config) *cobra.Command {
	streams := genericiooptions.IOStreams{In: a.In, Out: a.Out, ErrOut: a.Err}
	flags := genericclioptions.NewConfigFlags(true).WithDeprecatedPasswordFlag().
		WithDiscoveryBurst(300).WithDiscoveryQPS(50.0).WithWarningPrinter(streams)
	if wrap == nil {
		wrap = asKubectl
	}
	flags.WithWrapConfigFn(wrap)
	cmd := kubectl.NewDefaultKubectlCommandWithArgs(kubectl.KubectlOptions{
		PluginHandler: kubectl.NewDefaultPluginHandler(plugin.ValidPluginFilenamePrefixes),
		Arguments:     append([]string{"kubectl"}, args...),
		ConfigFlags:   flags,
		IOStreams:     streams,
	})
	cmd.SetArgs(args)
	return cmd
}

// selectCluster directs kubectl, and every plugin that it starts, to a rehearse cluster, through the
// environment. If no cluster is found, it returns the reason, which is reported when kubectl needs a server.
func (a *app) selectCluster(wanted string, args []string) (reason string, err error) {
	config := len(args) > 0 && args[0] == "config"
	if !config && namesCluster(args) {
		if wanted != "" {
			return "", console.Usagef("--name cannot be combined with --kubeconfig, --context, --cluster or --server")
		}
		return "", nil
	}
	root, err := statedir.DefaultRoot(a.Getenv)
	if err != nil {
		return "", err
	}
	if wanted != "" {
		if _, err := target.Choose(root, wanted, a.Getenv); err != nil {
			return "", err
		}
		return "", os.Setenv("KUBECONFIG", root.KubeconfigPath(wanted))
	}
	name, missing, err := target.Default(root, a.Getenv)
	if err != nil {
		return "", err
	}
	if missing == "" {
		return "", os.Setenv("KUBECONFIG", root.KubeconfigPath(name))
	}
	if config {
		return "", nil // kubectl config needs no server; it edits the user's own kubeconfig
	}
	return missing, os.Setenv("KUBECONFIG", root.KubeconfigPath("-")) // a name that no cluster can have
}

// takeName takes --name off the start of the arguments. Later it is a flag of kubectl's own commands, such as expose.
func takeName(args []string) (name string, rest []string, err error) {
	if len(args) == 0 {
		return "", args, nil
	}
	flag, value, ok := strings.Cut(args[0], "=")
	if flag != "--name" {
		return "", args, nil
	}
	rest = args[1:]
	if !ok {
		if len(rest) == 0 {
			return "", nil, console.Usagef("--name requires a value")
		}
		value, rest = rest[0], rest[1:]
	}
	return value, rest, target.ValidateName(value)
}

// namesCluster reports whether kubectl's arguments name a cluster. Arguments after "--" are for a command in a
// container.
func namesCluster(args []string) bool {
	for _, arg := range args {
		if arg == "--" {
			return false
		}
		flag, _, _ := strings.Cut(arg, "=")
		switch flag {
		case "--kubeconfig", "--context", "--cluster", "--server", "-s":
			return true
		}
		if strings.HasPrefix(arg, "-s") && strings.Contains(arg, "://") {
			return true // -shttps://...
		}
	}
	return false
}

// unreachable makes every request of a client fail: without a kubeconfig it would use kubectl's default server,
// localhost:8080.
func unreachable(c *rest.Config) *rest.Config {
	c.Dial = func(context.Context, string, string) (net.Conn, error) {
		return nil, errors.New("no cluster is selected")
	}
	return c
}

// completeKubectl completes arguments with kubectl's own completion.
func (a *app) completeKubectl(_ *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
	wanted, args, err := takeName(args)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	reason, err := a.selectCluster(wanted, args)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var wrap func(*rest.Config) *rest.Config
	if reason != "" {
		wrap = unreachable // commands and flags need no server
	}
	var out strings.Builder
	quiet := *a
	quiet.Streams = console.Streams{In: a.In, Out: &out, Err: &strings.Builder{}}
	complete := append([]string{cobra.ShellCompRequestCmd}, append(args, toComplete)...)
	cmd := quiet.buildKubectl(complete, wrap)
	cmd.SetOut(&out)
	cmd.SetErr(quiet.Err)
	if err := cmd.Execute(); err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	lines := strings.Split(strings.TrimRight(out.String(), "\n"), "\n")
	var directive cobra.ShellCompDirective
	last := len(lines) - 1
	if _, err := fmt.Sscanf(lines[last], ":%d", &directive); err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return lines[:last], directive
}
