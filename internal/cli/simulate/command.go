package simulate

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/rehearse-k8s/rehearse/cluster"
	"github.com/rehearse-k8s/rehearse/internal/cli/console"
	"github.com/rehearse-k8s/rehearse/internal/cli/statedir"
	"github.com/rehearse-k8s/rehearse/internal/cli/target"
	"github.com/rehearse-k8s/rehearse/internal/controller/clonesets"
	"github.com/rehearse-k8s/rehearse/internal/controller/jobs"
	"github.com/rehearse-k8s/rehearse/internal/controller/stages"
	"github.com/rehearse-k8s/rehearse/internal/probes"
	"github.com/rehearse-k8s/rehearse/internal/stagefiles"
)

// simulators are the controllers that simulate can run.
var simulators = []string{cluster.StageController, jobController, cloneSetController}

// The names of our workload controllers for --controllers.
const (
	jobController      = "job"
	cloneSetController = "cloneset"
)

// flags are the flags of simulate.
type flags struct {
	name, kubeconfig, context string
	controllers               []string
	stageFiles                []string
	files                     *stagefiles.Contents // of stageFiles
	manage, shard             string
	stage                     stages.StageOptions
	allJobs                   bool
	elect                     bool
	election                  Election
	metricsAddress            string
	kubelet                   KubeletOptions
	log                       console.LogOptions
}

// Command returns simulate.
func Command(c *console.Console) *cobra.Command {
	o := &flags{}
	cmd := &cobra.Command{
		Use:   "simulate",
		Short: "Simulate nodes and pods in an existing cluster",
		Long: `Play stages on the nodes of an existing cluster and on their pods: kind, a managed cluster, another rehearse cluster.

The cluster is the one that kubectl uses (--kubeconfig, KUBECONFIG, ~/.kube/config), or, in a pod without any of these, the
pod's own cluster. simulate changes only nodes with the annotation kwok.x-k8s.io/node=fake and their pods, unless --manage
selects other nodes.

With job in --controllers, simulate manages Jobs with spec.managedBy rehearse-k8s.github.io/job-controller; with --all-jobs it
manages all Jobs, for clusters whose own Job controller does not run. With cloneset in --controllers, it manages CloneSets
(apps.kruise.io); OpenKruise's own controller must not run, and the cluster must have the CustomResourceDefinition (deploy/).

With --leader-elect, only one of several replicas writes, and the others are standbys. With --shard I/N, this process simulates
one of N parts of the nodes; start one process per part. If the API server does not answer, simulate retries.

With --kubelet-address, simulate answers kubectl logs, exec, attach and port-forward for the pods of the nodes, and serves their
resource usage, as the Logs, Exec, Attach, PortForward and ResourceUsage objects say. The API server must reach --node-ip. Each
request is authenticated and authorized as by a kubelet.

It runs until Ctrl-C, SIGTERM or SIGHUP; a second signal exits the process at once.`,
		Example: `  rehearse simulate
  rehearse simulate --context kind-kind --stages builtin:node-fast,my-pods.yaml
  rehearse simulate --controllers=stage,job
  rehearse simulate --leader-elect --shard 0/3 --metrics-address :8080
  rehearse simulate --kubelet-address :10250 --node-ip 192.0.2.7 --stages builtin:node-fast,builtin:pod-fast,logs.yaml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.validate(cmd); err != nil {
				return err
			}
			o.reportFiles(c)
			return o.run(cmd.Context(), c)
		},
	}
	o.addFlags(cmd, c)
	return cmd
}

func (o *flags) addFlags(cmd *cobra.Command, c *console.Console) {
	f, s, e := cmd.Flags(), &o.stage, &o.election
	f.StringVar(&o.name, "name", "", "name of a cluster that 'rehearse up' started")
	_ = cmd.RegisterFlagCompletionFunc("name", target.Complete(c.Getenv))
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig of the cluster (default: the one that kubectl uses; in a pod, its own cluster)")
	f.StringVar(&o.context, "context", "", "context of the kubeconfig (default: its current one)")
	f.StringSliceVar(&o.controllers, "controllers", []string{cluster.StageController}, "controllers to run, from: "+strings.Join(simulators, ", "))
	f.BoolVar(&o.allJobs, "all-jobs", false, "with the job controller: manage all Jobs, not only those with spec.managedBy "+jobs.ManagedBy+"; the upstream controller must not run")
	f.StringSliceVar(&o.stageFiles, "stages", nil, "stages to play instead of the built-in ones: files, directories or builtin:NAME")
	f.StringVar(&o.manage, "manage", stages.NodeFilter{}.String(), "nodes to simulate: annotation:SELECTOR, label:SELECTOR (such as env=test,!real), or all (includes nodes that have a kubelet)")
	f.StringVar(&o.shard, "shard", "0/1", "part of the nodes that this process simulates: INDEX/COUNT, the index from 0")
	f.Uint64Var(&s.Seed, "seed", 0, "seed of all randomness: stages, delays, addresses")
	f.IntVar(&s.Workers, "workers", 16, "maximum number of concurrent writes, not counting leases")
	f.DurationVar(&s.LeaseDuration, "node-lease-duration", 40*time.Second, "duration of the nodes' leases, renewed after a quarter of it; 0: no leases")
	f.StringVar(&s.NodeIP, "node-ip", "", "address of all nodes that have none (default: one address per node from --node-cidr)")
	f.IntVar(&s.NodePort, "node-port", 0, "result of the template function NodePort: the port of the nodes' kubelet endpoint (0: none)")
	f.StringVar(&s.NodeCIDR, "node-cidr", "10.16.0.0/12", "range for the addresses of nodes")
	f.StringVar(&s.PodCIDR, "pod-cidr", "10.128.0.0/9", "range for the addresses of pods on nodes without a spec.podCIDR")
	f.BoolVar(&o.elect, "leader-elect", false, "elect a leader among several replicas; only the leader writes")
	f.StringVar(&e.Namespace, "leader-elect-namespace", "", "namespace of the lease (default: the namespace of the context, or of the pod)")
	f.StringVar(&e.Name, "leader-elect-name", "rehearse-simulate", "name of the lease; with --shard, -INDEX-of-COUNT is added")
	f.DurationVar(&e.LeaseDuration, "leader-elect-lease-duration", 15*time.Second, "how long a standby waits after the last renewal before it takes over")
	f.DurationVar(&e.RenewDeadline, "leader-elect-renew-deadline", 10*time.Second, "how long a leader retries a renewal before it stops writing")
	f.DurationVar(&e.RetryPeriod, "leader-elect-retry-period", 2*time.Second, "time between attempts to acquire or renew the lease")
	f.StringVar(&o.metricsAddress, "metrics-address", probes.Off, "address for /metrics, /healthz and /readyz, such as :8080 (0: none)")
	k := &o.kubelet
	f.StringVar(&k.Address, "kubelet-address", probes.Off, "address at which to serve the kubelet API of the nodes, such as :10250 (0: none)")
	f.StringVar(&k.CertFile, "kubelet-cert-file", "", "file with the serving certificate of the kubelet API (default: a self-signed one)")
	f.StringVar(&k.KeyFile, "kubelet-key-file", "", "file with the key of --kubelet-cert-file")
	f.BoolVar(&k.EnableExec, "enable-exec", false, "with --kubelet-address: run the commands and open the connections that Exec and PortForward objects name, on this machine")
	o.log.AddFlags(cmd, "show the logs of the Kubernetes code on stderr, up to this level; 0: only warnings of rehearse")
	_ = cmd.RegisterFlagCompletionFunc("controllers", cobra.FixedCompletions(simulators, cobra.ShellCompDirectiveNoFileComp))
}

// validate parses and checks the flags before anything is sent.
func (o *flags) validate(cmd *cobra.Command) (err error) {
	err = console.RejectEmpty(cmd, "name", "kubeconfig", "context", "controllers", "stages", "leader-elect-namespace", "leader-elect-name")
	if err != nil {
		return err
	}
	if o.name != "" && (o.kubeconfig != "" || o.context != "") {
		return console.Usagef("--name cannot be combined with --kubeconfig or --context")
	}
	for _, c := range o.controllers {
		if !slices.Contains(simulators, c) {
			return console.Usagef("--controllers: unknown controller %q; known: %s", c, strings.Join(simulators, ", "))
		}
	}
	runsJobs := slices.Contains(o.controllers, jobController)
	runsWorkloads := runsJobs || slices.Contains(o.controllers, cloneSetController)
	if o.allJobs && !runsJobs {
		return console.Usagef("--all-jobs requires --controllers=job")
	}
	s := &o.stage
	if s.Manage, err = stages.ParseNodeFilter(o.manage); err != nil {
		return console.Usagef("--manage: %v", err)
	}
	if s.Shard, err = stages.ParseShard(o.shard); err != nil {
		return console.Usagef("--shard: %v", err)
	}
	switch {
	case runsWorkloads && s.Shard.Count > 1:
		return console.Usagef("--shard %s: only nodes are sharded; run --controllers=job,cloneset in a separate process", o.shard)
	case s.Workers < 1:
		return console.Usagef("--workers %d: must be 1 or more", s.Workers)
	case s.LeaseDuration != 0 && s.LeaseDuration < time.Second:
		return console.Usagef("--node-lease-duration %s: must be 0 or at least 1s", s.LeaseDuration)
	case s.LeaseDuration == 0:
		s.LeaseDuration = -1 // 0 is the engine's default
	}
	if err := probes.CheckAddress(o.metricsAddress); err != nil {
		return console.Usagef("--metrics-address %v", err)
	}
	if err := o.validateElection(cmd); err != nil {
		return err
	}
	if s.Stages, o.files, err = stagefiles.Load(o.stageFiles); err != nil {
		return console.Usagef("--stages: %v", err)
	}
	o.kubelet.Rules = o.files.Rules
	if err := o.validateAddresses(); err != nil {
		return err
	}
	if err := o.validateKubelet(); err != nil {
		return err
	}
	if err := s.Validate(); err != nil {
		return console.Usagef("%v", err)
	}
	return o.log.Validate()
}

// reportFiles reports the objects of --stages that have no effect.
func (o *flags) reportFiles(c *console.Console) {
	for _, k := range o.files.Ignored {
		c.Say("rehearse: warning: %s", k.Warning())
	}
	for _, k := range o.files.RuleKinds {
		if !o.kubelet.on() {
			c.Say("rehearse: warning: %s: has no effect without --kubelet-address", k.Place())
		}
	}
}

func (o *flags) validateAddresses() error {
	s := &o.stage
	if _, err := netip.ParseAddr(s.NodeIP); err != nil && s.NodeIP != "" {
		return console.Usagef("--node-ip %s: must be an address such as 10.16.0.1", s.NodeIP)
	}
	if s.NodePort < 0 || s.NodePort > 65535 {
		return console.Usagef("--node-port %d: must be 0 to 65535", s.NodePort)
	}
	for _, f := range []struct{ name, value, example string }{{"node-cidr", s.NodeCIDR, "10.16.0.0/12"}, {"pod-cidr", s.PodCIDR, "10.128.0.0/9"}} {
		if _, err := netip.ParsePrefix(f.value); err != nil && f.value != "" {
			return console.Usagef("--%s %s: must be a range of addresses such as %s", f.name, f.value, f.example)
		}
	}
	return nil
}

func (o *flags) validateKubelet() error {
	k, s := &o.kubelet, &o.stage
	if err := probes.CheckAddress(k.Address); err != nil {
		return console.Usagef("--kubelet-address %v", err)
	}
	if !k.on() {
		for name, set := range map[string]bool{"enable-exec": k.EnableExec, "kubelet-cert-file": k.CertFile != "", "kubelet-key-file": k.KeyFile != ""} {
			if set {
				return console.Usagef("--%s requires --kubelet-address", name)
			}
		}
		return nil
	}
	if !slices.Contains(o.controllers, cluster.StageController) {
		return console.Usagef("--kubelet-address requires --controllers=%s", cluster.StageController)
	}
	if (k.CertFile == "") != (k.KeyFile == "") {
		return console.Usagef("--kubelet-cert-file and --kubelet-key-file must be used together")
	}
	if host, _, err := net.SplitHostPort(k.Address); err == nil && s.NodeIP == "" {
		if ip, err := netip.ParseAddr(host); err == nil && !ip.IsUnspecified() {
			s.NodeIP = host
		}
	}
	if s.NodeIP == "" {
		return console.Usagef("--kubelet-address %s requires --node-ip: the address of this process that the API server can reach", k.Address)
	}
	return nil
}

func (o *flags) validateElection(cmd *cobra.Command) error {
	for _, f := range []string{"namespace", "name", "lease-duration", "renew-deadline", "retry-period"} {
		if !o.elect && cmd.Flags().Changed("leader-elect-"+f) {
			return console.Usagef("--leader-elect-%s requires --leader-elect", f)
		}
	}
	if err := o.election.Validate(); err != nil {
		return console.Usagef("%v", err)
	}
	return nil
}

// run simulates until it is interrupted, which is its normal end, or returns an error if it cannot start.
func (o *flags) run(parent context.Context, c *console.Console) error {
	ctx, stop := c.Interruptible(parent)
	defer stop()
	config, namespace, err := o.target(c)
	if err != nil {
		return err
	}
	config.UserAgent = console.UserAgent
	o.log.SetUp(io.Discard, c.Err)
	options := Options{
		Config: config, MetricsAddress: o.metricsAddress,
		Log: o.log.StderrHandler(c.Err), Verbose: o.log.Verbosity > 0, Say: c.Say, Now: c.Now,
	}
	if slices.Contains(o.controllers, cluster.StageController) {
		options.Stage = &o.stage
	}
	if o.kubelet.on() {
		options.Kubelet = &o.kubelet
	}
	if slices.Contains(o.controllers, jobController) {
		options.Jobs = &jobs.Options{All: o.allJobs}
	}
	if slices.Contains(o.controllers, cloneSetController) {
		options.CloneSets = &clonesets.Options{}
	}
	if o.elect {
		e := o.election
		if e.Namespace == "" {
			e.Namespace = namespace
		}
		options.Election = e.ForShard(o.stage.Shard)
	}
	err = Run(ctx, options)
	if ctx.Err() != nil {
		c.Say("The simulation has stopped.")
		return console.ErrInterrupted
	}
	return err
}

// target finds the cluster as kubectl does, and the namespace of the context.
func (o *flags) target(c *console.Console) (*rest.Config, string, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = o.kubeconfig
	rules.WarnIfAllMissing = false
	if o.name != "" {
		root, err := statedir.DefaultRoot(c.Getenv)
		if err != nil {
			return nil, "", err
		}
		if _, err := target.Choose(root, o.name, c.Getenv); err != nil {
			return nil, "", err
		}
		rules.ExplicitPath = root.KubeconfigPath(o.name)
	}
	if o.kubeconfig != "" {
		if _, err := os.Stat(o.kubeconfig); err != nil {
			return nil, "", console.Usagef("--kubeconfig: %v", err)
		}
	}
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: o.context})
	config, err := loader.ClientConfig()
	switch {
	case clientcmd.IsEmptyConfig(err):
		return nil, "", fmt.Errorf("no cluster: there is no kubeconfig with a current context, and this process does not run in a pod; use --kubeconfig or --context")
	case err != nil:
		return nil, "", fmt.Errorf("load the kubeconfig: %w", err)
	}
	namespace, _, err := loader.Namespace()
	if err != nil {
		return nil, "", fmt.Errorf("load the kubeconfig: %w", err)
	}
	return config, namespace, nil
}
