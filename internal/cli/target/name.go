package target

import (
	"slices"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/rehearse-k8s/rehearse/internal/cli/console"
	"github.com/rehearse-k8s/rehearse/internal/cli/statedir"
)

// Unnamed is the name of a cluster that was started without one.
const Unnamed = "rehearse"

// DefaultName is the value of --name where it is not given.
func DefaultName(getenv func(string) string) string {
	if n := getenv("REHEARSE_NAME"); n != "" {
		return n
	}
	return Unnamed
}

// ValidateName rejects a name that cannot be the name of a directory, a context and a host.
func ValidateName(name string) error {
	if len(validation.IsDNS1123Label(name)) > 0 {
		return console.Usagef("--name %q: must be at most 63 lower-case letters, digits and '-', and begin and end with a letter or digit", name)
	}
	return nil
}

// ContextPrefix is the prefix of the contexts of clusters that 'rehearse up' started.
const ContextPrefix = "rehearse-"

// ContextName is the name of the three kubeconfig entries (cluster, user, context) of a cluster.
func ContextName(cluster string) string { return ContextPrefix + cluster }

// Complete returns a cobra completion function for the names of running clusters.
func Complete(getenv func(string) string) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		root, err := statedir.DefaultRoot(getenv)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		entries, _ := root.List()
		var names []string
		for _, e := range entries {
			if !slices.Contains(args, e.Name) {
				names = append(names, e.Name)
			}
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

// CompleteStopped returns a cobra completion function for the names of stopped clusters.
func CompleteStopped(getenv func(string) string) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		root, err := statedir.DefaultRoot(getenv)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		names, _ := root.StoppedNames()
		return slices.DeleteFunc(names, func(n string) bool { return slices.Contains(args, n) }), cobra.ShellCompDirectiveNoFileComp
	}
}
