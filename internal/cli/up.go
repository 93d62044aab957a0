package cli

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/rehearse-k8s/rehearse/cluster"
	"github.com/rehearse-k8s/rehearse/internal/cli/kubeconfig"
	"github.com/rehearse-k8s/rehearse/internal/probes"
	"github.com/rehearse-k8s/rehearse/internal/version"
)

// defaultName is the name of a cluster that got none.
const defaultName = "rehearse"

// upOptions are the flags of up.
type upOptions struct {
	cluster    cluster.Options
	kubeconfig string
	detach     bool
	readyFD    int
	log        logOptions
}

func (a *app) upCommand() *cobra.Command {
	o := &upOptions{}
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Start a cluster",
		Long: `Start a cluster and run it until Ctrl-C, or in the background with --detach.

The context rehearse-NAME is merged into the kubeconfig and becomes the current one; at the end it is removed, and the
current context is again what it was. Objects are kept in memory unless --data-dir or --etcd-servers says otherwise.

Ctrl-C, SIGTERM and SIGHUP end the cluster in order; a second one ends the process at once, and the next up, list or
down of that name clears up behind it.`,
		Example: `  rehearse up
  rehearse up --nodes 100 --detach
  rehearse up --name other --data-dir ./other --port 6443`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.validate(cmd); err != nil {
				return err
			}
			if o.detach {
				return a.detach(cmd.Context(), o, childArgs(cmd))
			}
			return a.upForeground(cmd.Context(), o)
		},
	}
	o.addFlags(cmd, a)
	return cmd
}

func (o *upOptions) addFlags(cmd *cobra.Command, a *app) {
	f, c := cmd.Flags(), &o.cluster
	f.StringVar(&c.Name, "name", a.defaultName(), "name of the cluster")
	f.IntVar(&c.Nodes, "nodes", 3, "simulated nodes (node-0, node-1, ...) to make where they are not there yet")
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig to write to (default: the one kubectl uses)")
	f.StringVar(&c.DataDir, "data-dir", "", "keep the objects in this directory, safe against kill -9 (default: in memory)")
	f.StringSliceVar(&c.EtcdServers, "etcd-servers", nil, "keep the objects in this etcd cluster (URLs)")
	f.StringVar(&c.EtcdCAFile, "etcd-cafile", "", "certificate authority of --etcd-servers")
	f.StringVar(&c.EtcdCertFile, "etcd-certfile", "", "client certificate for --etcd-servers")
	f.StringVar(&c.EtcdKeyFile, "etcd-keyfile", "", "client key for --etcd-servers")
	f.StringVar(&c.BindAddress, "bind-address", "127.0.0.1", "IP address to listen on")
	f.IntVar(&c.Port, "port", 0, "port to listen on (0: a free one)")
	f.StringSliceVar(&c.Controllers, "controllers", []string{"*"},
		"controllers to run: '*' is all that are on by default, 'foo' adds foo, '-foo' leaves it out")
	f.StringSliceVar(&c.StageFiles, "stages", nil, "files of stages, directories or builtin:NAME, to play in place of the built-in ones")
	f.StringVar(&c.MetricsAddress, "metrics-address", probes.Off, "serve the stage engine's /metrics, /healthz and /readyz here, as in 127.0.0.1:8080 (0: nowhere)")
	f.BoolVar(&o.detach, "detach", false, "run in the background; 'rehearse down' ends it")
	f.IntVar(&o.readyFD, "ready-fd", 0, "file descriptor to report to (used by --detach)")
	_ = f.MarkHidden("ready-fd")
	f.IntVarP(&o.log.verbosity, "verbosity", "v", 0, "show the logs of Kubernetes on stderr, up to this level")
	f.StringVar(&o.log.format, "log-format", "text", "format of the logs: text|json")
	_ = cmd.RegisterFlagCompletionFunc("log-format", cobra.FixedCompletions([]string{"text", "json"}, cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("name", cobra.NoFileCompletions)
}

// defaultName is the value of --name where it is not given.
func (a *app) defaultName() string {
	if n := a.getenv("REHEARSE_NAME"); n != "" {
		return n
	}
	return defaultName
}

// validateName refuses what cannot be a directory, a context or a host name.
func validateName(name string) error {
	if len(validation.IsDNS1123Label(name)) > 0 {
		return usagef("--name %q: must be at most 63 lower-case letters, digits and '-', and begin and end with a letter or digit", name)
	}
	return nil
}

// validate finds what cannot be right before anything is started; names of controllers and stages are checked by
// package cluster, which knows them.
func (o *upOptions) validate(cmd *cobra.Command) error {
	c := &o.cluster
	if err := validateName(c.Name); err != nil {
		return err
	}
	for _, f := range []string{"kubeconfig", "data-dir", "etcd-servers", "etcd-cafile", "etcd-certfile", "etcd-keyfile", "stages"} {
		if v := cmd.Flags().Lookup(f); v.Changed && (v.Value.String() == "" || v.Value.String() == "[]") {
			return usagef("--%s is empty", f)
		}
	}
	switch {
	case c.Nodes < 0:
		return usagef("--nodes %d: must not be negative", c.Nodes)
	case c.Port < 0 || c.Port > 65535:
		return usagef("--port %d: must be 0 to 65535", c.Port)
	case net.ParseIP(c.BindAddress) == nil:
		return usagef("--bind-address %q: must be an IP address", c.BindAddress)
	case c.DataDir != "" && len(c.EtcdServers) > 0:
		return usagef("--data-dir and --etcd-servers exclude each other")
	}
	if err := probes.CheckAddress(c.MetricsAddress); err != nil {
		return usagef("--metrics-address %v", err)
	}
	if err := o.validateEtcd(); err != nil {
		return err
	}
	return o.log.validate()
}

func (o *upOptions) validateEtcd() error {
	c := &o.cluster
	for _, s := range c.EtcdServers {
		u, err := url.Parse(s)
		if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
			return usagef("--etcd-servers %q: must be a URL like https://10.0.0.1:2379", s)
		}
	}
	for _, f := range []struct{ flag, file string }{
		{"etcd-cafile", c.EtcdCAFile}, {"etcd-certfile", c.EtcdCertFile}, {"etcd-keyfile", c.EtcdKeyFile},
	} {
		if f.file == "" {
			continue
		}
		if len(c.EtcdServers) == 0 {
			return usagef("--%s needs --etcd-servers", f.flag)
		}
		if _, err := os.Stat(f.file); err != nil {
			return usagef("--%s: %v", f.flag, err)
		}
	}
	if (c.EtcdCertFile == "") != (c.EtcdKeyFile == "") {
		return usagef("--etcd-certfile and --etcd-keyfile belong together")
	}
	return nil
}

// contextName is the name of the kubeconfig's three entries.
func contextName(cluster string) string { return "rehearse-" + cluster }

// upForeground runs a cluster until it is interrupted, which is its normal end, or breaks.
func (a *app) upForeground(parent context.Context, o *upOptions) (err error) {
	tell := newReporter(o.readyFD)
	defer func() { tell.ended(err) }()
	ctx, stop := a.interruptible(parent)
	defer stop()
	target, err := kubeconfig.Find(o.kubeconfig, a.getenv)
	if err != nil {
		return err
	}
	// Whatever can be known before the start is found before the start. The record names the files of a
	// directory, so that who changes one of them is told later on.
	if o.cluster.StageFiles, err = cluster.StageFiles(o.cluster.StageFiles); err != nil {
		return usagef("--stages: %v", err)
	}
	if err := target.Check(contextName(o.cluster.Name)); err != nil {
		return err
	}
	s, err := a.openSession(o, target)
	if err != nil {
		return err
	}
	defer func() { s.close(err) }()
	begin := a.now()
	if err := s.launch(ctx); err != nil {
		return err
	}
	defer s.withdraw()
	if err := s.publish(); err != nil {
		return err
	}
	a.announce(s.record.Name, fmt.Sprintf("ready in %.1f s", a.now().Sub(begin).Seconds()), "Ctrl-C ends it")
	tell.ready()
	return s.wait(ctx)
}

// announce is the one line that a ready cluster prints: what there is and what to type next.
func (a *app) announce(name, state, end string) {
	next := "rehearse kubectl get nodes"
	if name != a.defaultName() {
		next = fmt.Sprintf("kubectl --context %s get nodes", contextName(name))
	}
	a.say("Cluster %q is %s, context %q; try: %s (%s)", name, state, contextName(name), next, end)
}

// clusterOptions are the options as package cluster wants them.
func (s *session) clusterOptions() cluster.Options {
	c := s.o.cluster
	c.StateDir = s.dir.Path
	c.Version = version.Get().Version
	return c
}
