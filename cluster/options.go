package cluster

import (
	"fmt"
	"net"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	kcm "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	"k8s.io/kubernetes/cmd/kube-controller-manager/names"

	"github.com/rehearse-k8s/rehearse/internal/probes"
)

// Names of what runs here beside kube-controller-manager's controllers; they can
// be picked and left out with Options.Controllers too.
const (
	// StageController plays the life of nodes and pods.
	StageController = "stage"
	// Scheduler is the kube-scheduler, so that authors of schedulers can leave it
	// out and run their own.
	Scheduler = "scheduler"
)

// Options says what cluster to start. The zero value is a cluster named
// rehearse, without nodes, on the memory store.
type Options struct {
	// Name of the cluster (a DNS label); default rehearse.
	Name string
	// Nodes is how many simulated nodes, node-0 and on, exist at the start. Nodes
	// that are there already are left alone.
	Nodes int
	// StateDir is where certificates are written when there is no DataDir (made
	// with mode 0700). It must be given.
	StateDir string
	// DataDir keeps the objects in an embedded etcd that syncs every write to
	// disk; empty: in memory.
	DataDir string
	// EtcdServers are the URLs of an etcd cluster to use in place of both.
	EtcdServers []string
	// EtcdCAFile, EtcdCertFile and EtcdKeyFile secure the connection to it.
	EtcdCAFile, EtcdCertFile, EtcdKeyFile string
	// BindAddress is the IP the API listens on; default 127.0.0.1.
	BindAddress string
	// Port the API listens on; 0: a free one.
	Port int
	// Controllers picks controllers as kube-controller-manager's flag does: "*"
	// is every one that is on by default, "name" and "-name" add and leave out;
	// the first match counts. Default: all. Beside upstream's names there are
	// stage, scheduler, cloneset-controller (cloneset) and upstream-job; job-controller
	// (job) is ours.
	Controllers []string
	// StageFiles are files of stages to use in place of the built-in ones;
	// "builtin:NAME" names one of those.
	StageFiles []string
	// MetricsAddress serves the stage engine's /metrics, /healthz and /readyz;
	// empty or 0: nowhere.
	MetricsAddress string
	// Version is our own version, for the API server's /version.
	Version string
}

// UsageError is an option's value that cannot be right: the user has to change
// the command, and trying again is of no use.
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
		return usage("no state directory was given")
	}
	if o.DataDir != "" && len(o.EtcdServers) > 0 {
		return usage("--data-dir and --etcd-servers exclude each other: objects are kept in one place")
	}
	if (o.EtcdCertFile == "") != (o.EtcdKeyFile == "") {
		return usage("--etcd-certfile and --etcd-keyfile belong together")
	}
	if len(o.EtcdServers) == 0 && (o.EtcdCAFile != "" || o.EtcdCertFile != "") {
		return usage("--etcd-cafile, --etcd-certfile and --etcd-keyfile need --etcd-servers")
	}
	if o.BindAddress == "" {
		o.BindAddress = "127.0.0.1"
	}
	if net.ParseIP(o.BindAddress) == nil {
		return usage("--bind-address %q: not an IP address", o.BindAddress)
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
	return validateControllers(o.Controllers)
}

// validateControllers refuses names that nothing here has, with upstream's list
// to choose from.
func validateControllers(list []string) error {
	known := append(kcm.KnownControllers(), StageController, Scheduler, UpstreamJob, CloneSet)
	aliases := kcm.ControllerAliases()
	for _, c := range list {
		name := strings.TrimPrefix(c, "-")
		if _, alias := aliases[name]; c == "*" || name == cloneSetAlias || alias || slices.Contains(known, name) {
			continue
		}
		slices.Sort(known)
		return usage("--controllers: no controller is named %q; there are: %s", name, strings.Join(known, ", "))
	}
	return nil
}

// picked tells whether one of our own names is on: the first of NAME, -NAME and
// * decides, as with kube-controller-manager.
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

// upstreamOnly is the list as kube-controller-manager may see it: without our own
// names, and with its Job controller only if that was asked for by the name it has here.
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
