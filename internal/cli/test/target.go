package test

import (
	"cmp"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/rehearse-k8s/rehearse/internal/cli/console"
	"github.com/rehearse-k8s/rehearse/internal/cli/statedir"
	"github.com/rehearse-k8s/rehearse/internal/cli/target"
	"github.com/rehearse-k8s/rehearse/internal/rehearsal"
	"github.com/rehearse-k8s/rehearse/scenario"
)

// targetOptions name an existing cluster to test in.
type targetOptions struct {
	name, kubeconfig, context string
	yes                       bool
	qps                       float32
}

func (o *targetOptions) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.name, "name", "", "name of a cluster that 'rehearse up' started, to test in (default: start a cluster)")
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig of an existing cluster to test in (default: start a cluster)")
	f.StringVar(&o.context, "context", "", "context of the kubeconfig of an existing cluster to test in")
	f.BoolVar(&o.yes, "yes-this-cluster", false, "allow the deletion, after each run, of everything in the namespaces of the scenario, which must be empty before")
	f.Float32Var(&o.qps, "qps", rehearsal.DefaultQPS, "maximum requests per second that rehearse sends to an existing cluster, not counting those of the controller under test")
}

// given reports whether a cluster is named.
func (o *targetOptions) given() bool { return o.name != "" || o.kubeconfig != "" || o.context != "" }

func (o *targetOptions) validate() error {
	if o.qps <= 0 {
		return console.Usagef("--qps %g: must be more than 0", o.qps)
	}
	if o.name != "" && (o.kubeconfig != "" || o.context != "") {
		return console.Usagef("--name cannot be combined with --kubeconfig or --context")
	}
	if o.yes && !o.given() {
		return console.Usagef("--yes-this-cluster requires --name, --kubeconfig or --context")
	}
	return nil
}

// targetOf is the existing cluster to test in, nil if none is named. One that 'rehearse up' did not start requires
// --yes-this-cluster.
func (a *app) targetOf(o *targetOptions, s *scenario.Scenario) (*rest.Config, error) {
	if !o.given() {
		return nil, nil
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = o.kubeconfig
	if o.name != "" {
		root, err := statedir.DefaultRoot(a.Getenv)
		if err != nil {
			return nil, err
		}
		if _, err := target.Choose(root, o.name, a.Getenv); err != nil {
			return nil, err
		}
		rules.ExplicitPath = root.KubeconfigPath(o.name)
	}
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: o.context})
	config, err := loader.ClientConfig()
	if err != nil {
		return nil, console.Usagef("load the kubeconfig of the cluster: %v", err)
	}
	if o.yes || target.IsStartedHere(config, a.Getenv) {
		a.Say("Note: %s: the nodes, kubelets and controllers are those of %s, not those of the scenario; after each run its namespaces (%s) are reset.",
			s.Name, config.Host, strings.Join(s.Namespaces(), ", "))
		for i := range s.Clients {
			a.Say("Note: %s: permissions of client %s: %s.", s.Name, s.Clients[i].Name, scenario.Rights(&s.Clients[i]))
		}
		return config, nil
	}
	raw, err := loader.RawConfig()
	if err != nil {
		return nil, console.Usagef("load the kubeconfig of the cluster: %v", err)
	}
	return nil, console.Usagef("context %s (%s) is not a cluster that 'rehearse up' started: after each run everything in namespace %s is deleted, which must be empty before; to allow that, pass --yes-this-cluster",
		cmp.Or(o.context, raw.CurrentContext), config.Host, strings.Join(s.Namespaces(), ", "))
}
