package test

import (
	"cmp"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/rehearse-k8s/rehearse/internal/cli/console"
	"github.com/rehearse-k8s/rehearse/internal/cli/target"
	"github.com/rehearse-k8s/rehearse/internal/rehearsal"
	"github.com/rehearse-k8s/rehearse/scenario"
)

// targetOptions name a cluster to rehearse in that is there already.
type targetOptions struct {
	kubeconfig, context string
	yes                 bool
	qps                 float32
}

func (o *targetOptions) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig of a cluster to rehearse in; without it and --context one is started for it")
	f.StringVar(&o.context, "context", "", "context of the kubeconfig, for a cluster to rehearse in")
	f.BoolVar(&o.yes, "yes-this-cluster", false, "allow to delete, after each run, what is in the namespaces of the scenario, which must be empty before")
	f.Float32Var(&o.qps, "qps", rehearsal.DefaultQPS, "requests a second that rehearse itself sends to a cluster to rehearse in, at most; the controller under test limits its own")
}

// given tells whether a cluster is named.
func (o *targetOptions) given() bool { return o.kubeconfig != "" || o.context != "" }

func (o *targetOptions) validate() error {
	if o.qps <= 0 {
		return console.Usagef("--qps %g: must be more than 0", o.qps)
	}
	if o.yes && !o.given() {
		return console.Usagef("--yes-this-cluster: no cluster is named: give --kubeconfig or --context, or leave it out for a cluster of its own")
	}
	return nil
}

// targetOf is the cluster to rehearse in; nil if one is to be started. One that 'rehearse
// up' has not started must be allowed in so many words.
func (a *app) targetOf(o *targetOptions, s *scenario.Scenario) (*rest.Config, error) {
	if !o.given() {
		return nil, nil
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = o.kubeconfig
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: o.context})
	config, err := loader.ClientConfig()
	if err != nil {
		return nil, console.Usagef("the cluster to rehearse in: %v", err)
	}
	if o.yes || target.IsStartedHere(config, a.Getenv) {
		a.Say("Note: %s: the nodes, kubelets and controllers are those of %s, not those of the scenario; after each run its namespaces (%s) are brought back.",
			s.Name, config.Host, strings.Join(s.Namespaces(), ", "))
		for i := range s.Clients {
			a.Say("Note: %s: rights of client %s: %s.", s.Name, s.Clients[i].Name, scenario.Rights(&s.Clients[i]))
		}
		return config, nil
	}
	raw, err := loader.RawConfig()
	if err != nil {
		return nil, console.Usagef("the cluster to rehearse in: %v", err)
	}
	return nil, console.Usagef("context %s (%s) is no cluster of rehearse: after each run everything is deleted in namespace %s there, which must be empty before. If you want that, say --yes-this-cluster",
		cmp.Or(o.context, raw.CurrentContext), config.Host, strings.Join(s.Namespaces(), ", "))
}
