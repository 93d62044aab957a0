package cluster

import (
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"
	kcm "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	"k8s.io/kubernetes/cmd/kube-controller-manager/names"

	"github.com/rehearse-k8s/rehearse/internal/nearest"
	"github.com/rehearse-k8s/rehearse/internal/probes"
)

// Names of the parts that are not controllers of kube-controller-manager. Options.Controllers can enable and disable them
// too.
const (
	// StageController is the stage engine, which simulates nodes and pods.
	StageController = "stage"
	// Scheduler is the kube-scheduler. Authors of schedulers disable it and run their own.
	Scheduler = "scheduler"
)

// Options are the options of Start. Only StateDir is required: the defaults are a cluster named rehearse, without nodes, with
// an in-memory store and all controllers.
type Options struct {
	// Name of the cluster (a DNS label); default rehearse.
	Name string
	// Nodes is the number of simulated nodes (node-0, node-1, ...). Start creates missing ones and does not change
	// existing ones.
	Nodes int
	// StateDir is the directory for certificates if there is no DataDir. It is created with mode 0700. Required.
	StateDir string
	// DataDir stores the objects in an embedded etcd in this directory, which syncs every write to disk. Empty: in memory.
	DataDir string
	// EtcdServers are the URLs of an external etcd cluster to store the objects in.
	EtcdServers []string
	// EtcdCAFile, EtcdCertFile and EtcdKeyFile are the TLS files for EtcdServers.
	EtcdCAFile, EtcdCertFile, EtcdKeyFile string
	// BindAddress is the IP address that the API server listens on. Default: 127.0.0.1.
	BindAddress string
	// Port is the port that the API server listens on. 0: a free one.
	Port int
	// Controllers selects controllers like the flag of kube-controller-manager: "*" stands for all that are on by
	// default, "name" enables and "-name" disables one; the first match counts. Default: "*". Additional names are
	// stage, scheduler, cloneset-controller (short: cloneset) and upstream-job; job-controller (short: job) is our Job
	// controller.
	Controllers []string
	// StageFiles are the files of stages to play instead of the built-in ones; "builtin:NAME" is a built-in file. The files may also
	// contain the objects of kwok.x-k8s.io that configure kubelet endpoints (Logs, ClusterLogs and so on) and resource usage. Objects
	// of other groups have no effect.
	StageFiles []string
	// MetricsAddress is the address for the stage engine's /metrics, /healthz and /readyz. Empty or "0": none.
	MetricsAddress string
	// FeatureGates are feature gates of Kubernetes, each as in "Name=true". They apply to the whole process, and only to the
	// first cluster that it starts.
	FeatureGates []string
	// RuntimeConfig switches API groups, versions and resources on and off, as in "resource.k8s.io/v1beta1=true".
	RuntimeConfig []string
	// AdmissionPlugins enables ("NAME") and disables ("-NAME") admission plugins of kube-apiserver.
	AdmissionPlugins []string
	// AuditPolicyFile is the file of an audit policy. AuditLogFile is the file that the audit events are appended to; it
	// requires an AuditPolicyFile.
	AuditPolicyFile, AuditLogFile string
	// ServiceCIDR is the range of the cluster IPs of Services. Default: 10.96.0.0/16.
	ServiceCIDR string
	// SchedulerConfigFile is the file of a KubeSchedulerConfiguration, with its profiles and extenders.
	SchedulerConfigFile string
	// NodeLeaseDuration is the duration of the leases of nodes; they are renewed four times as often. 0: 40 s. Negative: no
	// leases.
	NodeLeaseDuration time.Duration
	// HPASyncPeriod is how often the horizontal pod autoscaler reads metrics and scales. 0: 15 s.
	HPASyncPeriod time.Duration
	// StoreFile is a file that "rehearse snapshot save NAME.store" has written. The cluster begins with the content of that store: the same
	// objects with the same UIDs. The new cluster's store must be empty. Empty: none.
	StoreFile string
	// BeforeControllers, if set, is called when the API server is ready and before controllers, scheduler and stage engine run
	// and nodes are created, with the administrator's client configuration. Its error ends the start.
	BeforeControllers func(context.Context, *rest.Config) error
	// Version is appended to the API server's version at /version.
	Version string
}

// UsageError reports an invalid value of an option. A retry with the same options fails again.
type UsageError struct{ Message string }

func (e *UsageError) Error() string { return e.Message }

func usage(format string, args ...any) error { return &UsageError{fmt.Sprintf(format, args...)} }

func (o *Options) complete() error {
	if o.Name == "" {
		o.Name = "rehearse"
	}
	if errs := validation.IsDNS1123Label(o.Name); len(errs) > 0 {
		return usage("cluster name %q: %s", o.Name, errs[0])
	}
	if o.Nodes < 0 {
		return usage("--nodes %d: must not be negative", o.Nodes)
	}
	if o.StateDir == "" {
		return usage("StateDir is required")
	}
	if o.DataDir != "" && len(o.EtcdServers) > 0 {
		return usage("--data-dir and --etcd-servers are mutually exclusive")
	}
	if (o.EtcdCertFile == "") != (o.EtcdKeyFile == "") {
		return usage("--etcd-certfile and --etcd-keyfile must be given together")
	}
	if len(o.EtcdServers) == 0 && (o.EtcdCAFile != "" || o.EtcdCertFile != "") {
		return usage("--etcd-cafile, --etcd-certfile and --etcd-keyfile require --etcd-servers")
	}
	if err := o.checkSettings(); err != nil {
		return err
	}
	if o.BindAddress == "" {
		o.BindAddress = "127.0.0.1"
	}
	if net.ParseIP(o.BindAddress) == nil {
		return usage("--bind-address %q: must be an IP address", o.BindAddress)
	}
	if o.Port < 0 || o.Port > 65535 {
		return usage("--port %d: must be 0 to 65535", o.Port)
	}
	if err := probes.CheckAddress(o.MetricsAddress); err != nil {
		return usage("--metrics-address %v", err)
	}
	if len(o.Controllers) == 0 {
		o.Controllers = []string{"*"}
	}
	if err := CheckControllers(o.Controllers); err != nil {
		return usage("--controllers: %v", err)
	}
	return nil
}

// suggestions is how many names the error about an unknown controller lists.
const suggestions = 5

// CheckControllers rejects unknown names of controllers. Its error, a *UsageError, contains the most similar known ones.
func CheckControllers(list []string) error {
	known := append(kcm.KnownControllers(), StageController, Scheduler, UpstreamJob, CloneSet, cloneSetAlias)
	known = slices.AppendSeq(known, maps.Keys(kcm.ControllerAliases()))
	for _, c := range list {
		name := strings.TrimPrefix(c, "-")
		if c == "*" || slices.Contains(known, name) {
			continue
		}
		return usage("unknown controller %q; nearest names: %s", name, strings.Join(nearest.Names(name, known, suggestions), ", "))
	}
	return nil
}

// picked reports whether one of our own names is enabled: NAME or -NAME decides, whichever comes first, otherwise *, as in
// kube-controller-manager.
func picked(list []string, name string) bool {
	star := false
	for _, c := range list {
		switch c {
		case name:
			return true
		case "-" + name:
			return false
		case "*":
			star = true
		}
	}
	return star
}

// upstreamOnly is the list for kube-controller-manager: without our own names, and with its Job controller only if the list has
// upstream-job.
func upstreamOnly(list []string) []string {
	var out []string
	for _, c := range withoutAlias(list) {
		switch strings.TrimPrefix(c, "-") {
		case StageController, Scheduler, Job, UpstreamJob, CloneSet:
		default:
			out = append(out, c)
		}
	}
	switch {
	case upstreamJobPicked(list):
		out = append([]string{names.JobController}, out...)
	case slices.Contains(out, "*"):
		out = append([]string{"-" + names.JobController}, out...)
	}
	return out
}
