package cluster

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"

	"github.com/rehearse-k8s/rehearse/cluster"
	"github.com/rehearse-k8s/rehearse/internal/cli/config"
	"github.com/rehearse-k8s/rehearse/internal/cli/console"
	"github.com/rehearse-k8s/rehearse/internal/cli/kubeconfig"
	"github.com/rehearse-k8s/rehearse/internal/cli/snapshot"
	"github.com/rehearse-k8s/rehearse/internal/cli/target"
	"github.com/rehearse-k8s/rehearse/internal/probes"
	"github.com/rehearse-k8s/rehearse/internal/version"
)

// upOptions are the flags of up.
type upOptions struct {
	cluster    cluster.Options
	kubeconfig string
	from       string
	detach     bool
	readyFD    int
	log        console.LogOptions

	config      string // --config
	printConfig bool
	timeout     time.Duration // of the start in the background
	resume      int           // the port that the cluster had before it was stopped, 0 if unknown; notStopped for a new cluster
	effective   []byte        // the configuration, as --print-config prints it
}

// notStopped is the value of upOptions.resume for a cluster that was not stopped.
const notStopped = -1

// defaultNodeLease is the duration of a kubelet's lease.
const defaultNodeLease = 40 * time.Second

func (a *app) upCommand() *cobra.Command {
	cmd, _ := a.newUp()
	return cmd
}

// newUp returns the command up and the options that its flags set.
func (a *app) newUp() (*cobra.Command, *upOptions) {
	o := &upOptions{}
	var places config.Places
	cmd := &cobra.Command{
		Use:        "up",
		SuggestFor: []string{"create"}, // as with kind and kwokctl
		Short:      "Start a cluster",
		Long: `Start a cluster and run it until Ctrl-C, or in the background with --detach.

up adds the context rehearse-NAME to the kubeconfig and sets it as the current context. When the cluster stops, up removes the
context and restores the previous one. The cluster stores objects in memory, unless --data-dir or --etcd-servers is given.

With --from, the objects of a snapshot exist before the controllers run, so that these find a state that they know. If an object
cannot be restored, up fails; start without --from then, and use 'rehearse snapshot restore'.

With --config, a file contains the values of flags (kind Cluster of rehearse-k8s.github.io/v1alpha1), and may contain stages; a flag on
the command line overrides the file. --print-config prints the effective configuration in this form.

Ctrl-C, SIGTERM and SIGHUP stop the cluster cleanly. A second signal kills the process at once; the next up, list or down
of that name then cleans up its files and kubeconfig entries.`,
		Example: `  rehearse up
  rehearse up --nodes 100 --detach
  rehearse up --name other --data-dir ./other --port 6443
  rehearse up --from cluster.yaml
  rehearse up --nodes 10 --print-config > cluster.yaml
  rehearse up --config cluster.yaml`,
		Args: console.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if places, err = a.readConfig(cmd, o); err != nil {
				return err
			}
			if err := o.validate(cmd); err != nil {
				return places.Explain(err)
			}
			if o.effective, err = config.Marshal(cmd.Flags()); err != nil {
				return err
			}
			if o.printConfig {
				_, err := a.Out.Write(o.effective)
				return err
			}
			if o.detach {
				return places.Explain(a.detach(cmd.Context(), o, childArgs(cmd)))
			}
			return places.Explain(a.upForeground(cmd.Context(), o))
		},
	}
	o.addFlags(cmd, a)
	return cmd, o
}

func (o *upOptions) addFlags(cmd *cobra.Command, a *app) {
	f, c := cmd.Flags(), &o.cluster
	f.StringVar(&c.Name, "name", target.DefaultName(a.Getenv), "name of the cluster")
	f.IntVar(&c.Nodes, "nodes", 3, "number of simulated nodes (node-0, node-1, ...); missing ones are created")
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig to write to (default: the one that kubectl uses)")
	f.StringVar(&o.from, "from", "", "begin with the objects of this file, which 'rehearse snapshot' wrote; its nodes are simulated, except those of a .store file, which stay as they are; --nodes is 0 by default")
	f.StringVar(&c.DataDir, "data-dir", "", "store objects in this directory; they survive kill -9 (default: in memory)")
	f.StringSliceVar(&c.EtcdServers, "etcd-servers", nil, "store objects in this etcd cluster (URLs)")
	f.StringVar(&c.EtcdCAFile, "etcd-cafile", "", "certificate authority of --etcd-servers")
	f.StringVar(&c.EtcdCertFile, "etcd-certfile", "", "client certificate for --etcd-servers")
	f.StringVar(&c.EtcdKeyFile, "etcd-keyfile", "", "client key for --etcd-servers")
	f.StringVar(&c.BindAddress, "bind-address", "127.0.0.1", "IP address to listen on")
	f.IntVar(&c.Port, "port", 0, "port to listen on (0: a free one)")
	f.StringSliceVar(&c.Controllers, "controllers", []string{"*"},
		"controllers to run: '*' stands for all that are on by default, 'foo' enables foo, '-foo' disables it")
	f.StringSliceVar(&c.StageFiles, "stages", nil, "stages to play instead of the built-in ones: files, directories or builtin:NAME")
	f.StringVar(&c.MetricsAddress, "metrics-address", probes.Off, "address for the stage engine's /metrics, /healthz and /readyz, such as 127.0.0.1:8080 (0: none)")
	f.StringSliceVar(&c.FeatureGates, "feature-gates", nil, "feature gates of Kubernetes, such as 'Name=true'")
	f.StringSliceVar(&c.RuntimeConfig, "runtime-config", nil, "API groups and versions to switch on or off, such as 'resource.k8s.io/v1beta1=true'")
	f.StringSliceVar(&c.AdmissionPlugins, "admission-plugins", nil, "admission plugins: 'Foo' enables Foo, '-Foo' disables it")
	f.StringVar(&c.AuditPolicyFile, "audit-policy", "", "file of an audit policy")
	f.StringVar(&c.AuditLogFile, "audit-log", "", "file to append the audit events to")
	f.StringVar(&c.ServiceCIDR, "service-cidr", "", "range of the cluster IPs of Services (default 10.96.0.0/16)")
	f.DurationVar(&c.HPASyncPeriod, "hpa-sync-period", 15*time.Second, "how often the horizontal pod autoscaler scales")
	f.StringVar(&c.SchedulerConfigFile, "scheduler-config", "", "file of a KubeSchedulerConfiguration (profiles, extenders)")
	f.DurationVar(&c.NodeLeaseDuration, "node-lease-duration", defaultNodeLease, "duration of the leases of nodes (0: no leases)")
	f.BoolVar(&o.detach, "detach", false, "run in the background; 'rehearse down' stops it")
	f.DurationVar(&o.timeout, "timeout", startTimeout, "with --detach: how long the start may take; with --from, 1h by default")
	f.StringVar(&o.config, "config", "", "file with the values of flags (kind Cluster), '-' for standard input; flags on the command line override it")
	f.BoolVar(&o.printConfig, "print-config", false, "print the effective configuration as YAML, and exit")
	f.IntVar(&o.readyFD, "ready-fd", 0, "file descriptor to report to (used by --detach)")
	f.IntVar(&o.resume, "resume", notStopped, "start a stopped cluster, which had this port (used by start)")
	_ = f.MarkHidden("ready-fd")
	_ = f.MarkHidden("resume")
	o.log.AddFlags(cmd, "show the logs of the Kubernetes code on stderr, up to this level")
	_ = cmd.RegisterFlagCompletionFunc("name", cobra.NoFileCompletions)
}

// validate rejects invalid flags before anything is started. The public package cluster checks the names of controllers
// and the stages, because it knows them.
func (o *upOptions) validate(cmd *cobra.Command) error {
	c := &o.cluster
	if err := target.ValidateName(c.Name); err != nil {
		return err
	}
	err := console.RejectEmpty(cmd, "config", "kubeconfig", "from", "data-dir", "etcd-servers", "etcd-cafile", "etcd-certfile", "etcd-keyfile", "stages",
		"feature-gates", "runtime-config", "admission-plugins", "audit-policy", "audit-log", "service-cidr", "scheduler-config")
	if err != nil {
		return err
	}
	switch {
	case c.Nodes < 0:
		return console.Usagef("--nodes %d: must not be negative", c.Nodes)
	case c.Port < 0 || c.Port > 65535:
		return console.Usagef("--port %d: must be 0 to 65535", c.Port)
	case net.ParseIP(c.BindAddress) == nil:
		return console.Usagef("--bind-address %q: must be an IP address", c.BindAddress)
	case c.DataDir != "" && len(c.EtcdServers) > 0:
		return console.Usagef("--data-dir and --etcd-servers are mutually exclusive")
	}
	if o.timeout <= 0 {
		return console.Usagef("--timeout %s: must be more than 0", o.timeout)
	}
	if c.NodeLeaseDuration < 0 {
		return console.Usagef("--node-lease-duration %s: must not be negative", c.NodeLeaseDuration)
	}
	if err := probes.CheckAddress(c.MetricsAddress); err != nil {
		return console.Usagef("--metrics-address %v", err)
	}
	if err := o.validateEtcd(); err != nil {
		return err
	}
	if o.from != "" {
		if err := o.validateFrom(cmd); err != nil {
			return err
		}
	}
	return o.log.Validate()
}

// validateFrom checks that the cluster of --from is a new one.
func (o *upOptions) validateFrom(cmd *cobra.Command) error {
	c := &o.cluster
	if !cmd.Flags().Changed("nodes") {
		c.Nodes = 0 // the file has its nodes
	}
	if !cmd.Flags().Changed("timeout") {
		o.timeout = restoreTimeout
	}
	switch {
	case len(c.EtcdServers) > 0:
		return console.Usagef("--from and --etcd-servers are mutually exclusive")
	case o.from == console.Stdin && o.detach:
		return console.Usagef("--from -: --detach starts a process without standard input")
	case o.from == console.Stdin:
	default:
		isStore, err := snapshot.CheckFrom(o.from)
		if err != nil {
			return err
		}
		if isStore {
			c.StoreFile = o.from
		}
	}
	if c.DataDir == "" {
		return nil
	}
	if files, _ := os.ReadDir(c.DataDir); len(files) > 0 {
		return console.Usagef("--from: the data directory %s is not empty; choose another one, remove it, or start its cluster without --from", c.DataDir)
	}
	return nil
}

func (o *upOptions) validateEtcd() error {
	c := &o.cluster
	for _, s := range c.EtcdServers {
		u, err := url.Parse(s)
		if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
			return console.Usagef("--etcd-servers %q: must be a URL such as https://10.0.0.1:2379", s)
		}
	}
	for _, f := range []struct{ flag, file string }{
		{"etcd-cafile", c.EtcdCAFile}, {"etcd-certfile", c.EtcdCertFile}, {"etcd-keyfile", c.EtcdKeyFile},
	} {
		if f.file == "" {
			continue
		}
		if len(c.EtcdServers) == 0 {
			return console.Usagef("--%s requires --etcd-servers", f.flag)
		}
		if _, err := os.Stat(f.file); err != nil {
			return console.Usagef("--%s: %v", f.flag, err)
		}
	}
	if (c.EtcdCertFile == "") != (c.EtcdKeyFile == "") {
		return console.Usagef("--etcd-certfile and --etcd-keyfile must be given together")
	}
	return nil
}

// upForeground runs a cluster until it is interrupted, which is its normal end, or fails.
func (a *app) upForeground(outer context.Context, o *upOptions) (err error) {
	parent := newReporter(o.readyFD)
	defer func() { parent.failed(err) }()
	ctx, stop := a.Interruptible(outer)
	defer stop()
	files, err := kubeconfig.Find(o.kubeconfig, a.Getenv)
	if err != nil {
		return err
	}
	// Errors that can be found before the start are found here. The record names the files of a directory, so that
	// stage explain can report which of them changed.
	if o.cluster.StageFiles, err = cluster.StageFiles(o.cluster.StageFiles); err != nil {
		return console.Usagef("--stages: %v", err)
	}
	if err := files.Check(target.ContextName(o.cluster.Name)); err != nil {
		return err
	}
	if err := a.checkStopped(o); err != nil {
		return err
	}
	s, err := a.openSession(o, files)
	if err != nil {
		return err
	}
	defer func() { s.close(err) }()
	if err := checkContext(ctx, files, o.cluster.Name, ""); err != nil {
		return err
	}
	begin := a.Now()
	if err := s.launch(ctx); err != nil {
		return err
	}
	defer s.withdraw()
	if err := s.publish(ctx); err != nil {
		return err
	}
	a.announce(s.record.Name, fmt.Sprintf("ready in %.1f s", a.Now().Sub(begin).Seconds()), "Ctrl-C stops it")
	parent.ready()
	return s.wait(ctx)
}

// announce prints the one line of a ready cluster: its name, its context and the next command to type.
func (a *app) announce(name, state, stop string) {
	next := "rehearse kubectl get nodes"
	if name != target.DefaultName(a.Getenv) {
		next = fmt.Sprintf("kubectl --context %s get nodes", target.ContextName(name))
	}
	a.Say("Cluster %q is %s, context %q; try: %s (%s)", name, state, target.ContextName(name), next, stop)
}

// clusterOptions are the options for the public package cluster.
func (s *session) clusterOptions() cluster.Options {
	c := s.o.cluster
	c.StateDir = s.dir.Path
	if c.Port == 0 && s.o.resume > 0 {
		c.Port = s.o.resume
	}
	c.Version = version.Get().Version
	if c.NodeLeaseDuration == 0 { // in cluster.Options, that is the default
		c.NodeLeaseDuration = -1
	}
	if s.o.from != "" && c.StoreFile == "" {
		c.BeforeControllers = func(ctx context.Context, config *rest.Config) error {
			s.restoring = true
			return snapshot.Restore(ctx, s.a.Console, config, s.o.from)
		}
	}
	return c
}
