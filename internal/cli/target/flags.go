package target

import (
	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/rehearse-k8s/rehearse/internal/cli/console"
	"github.com/rehearse-k8s/rehearse/internal/cli/statedir"
)

// Flags name a cluster on a command line: one that 'rehearse up' started, or any other by its kubeconfig or context.
type Flags struct{ Name, Kubeconfig, Context string }

// AddFlags adds --name, --kubeconfig and --context to a command.
func (f *Flags) AddFlags(cmd *cobra.Command, getenv func(string) string) {
	cmd.Flags().StringVar(&f.Name, "name", "", "name of a cluster that 'rehearse up' started (default: the running one)")
	cmd.Flags().StringVar(&f.Kubeconfig, "kubeconfig", "", "kubeconfig of another cluster")
	cmd.Flags().StringVar(&f.Context, "context", "", "context of another cluster in the kubeconfig")
	_ = cmd.RegisterFlagCompletionFunc("name", Complete(getenv))
}

// Config returns the client configuration of the cluster that --kubeconfig or --context names, else of a running rehearse cluster.
func (f *Flags) Config(cmd *cobra.Command, getenv func(string) string) (*rest.Config, error) {
	if err := console.RejectEmpty(cmd, "name", "kubeconfig", "context"); err != nil {
		return nil, err
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = f.Kubeconfig
	if f.Kubeconfig == "" && f.Context == "" {
		root, err := statedir.DefaultRoot(getenv)
		if err != nil {
			return nil, err
		}
		name, err := Choose(root, f.Name, getenv)
		if err != nil {
			return nil, err
		}
		rules.ExplicitPath = root.KubeconfigPath(name)
	} else if f.Name != "" {
		return nil, console.Usagef("--name cannot be combined with --kubeconfig or --context")
	}
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: f.Context})
	config, err := loader.ClientConfig()
	if err != nil {
		return nil, console.Usagef("load the kubeconfig of the cluster: %v", err)
	}
	config.UserAgent = console.UserAgent
	return config, nil
}
