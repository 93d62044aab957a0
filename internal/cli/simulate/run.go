package simulate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	kruise "github.com/rehearse-k8s/rehearse/api/kruise/v1alpha1"
	"github.com/rehearse-k8s/rehearse/api/kwok/v1alpha1"
	"github.com/rehearse-k8s/rehearse/internal/controller/clonesets"
	"github.com/rehearse-k8s/rehearse/internal/controller/jobs"
	"github.com/rehearse-k8s/rehearse/internal/controller/stages"
	"github.com/rehearse-k8s/rehearse/internal/probes"
	"github.com/rehearse-k8s/rehearse/internal/resourcemetrics"
)

// Options are the parameters of Run.
type Options struct {
	// Config connects to the API server.
	Config *rest.Config
	// Stage, Jobs and CloneSets are the options of the stage engine, the Job controller and the CloneSet controller; nil
	// does not run it. Run sets Lead, Metrics and Events.
	Stage     *stages.StageOptions
	Jobs      *jobs.Options
	CloneSets *clonesets.Options
	// Log handles the engine's records. Without Verbose they are rate-limited.
	Log     slog.Handler
	Verbose bool
	// Election, if set, elects the one of several replicas that writes.
	Election *Election
	// MetricsAddress is the address of /metrics, /healthz and /readyz; empty: none.
	MetricsAddress string
	// Kubelet, if set, serves the kubelet API of the nodes of Stage.
	Kubelet *KubeletOptions
	// Say prints a line for the user.
	Say func(format string, args ...any)
	// Now is the clock for lines with durations.
	Now func() time.Time
}

// simulation is one run of the command.
type simulation struct {
	Options
	identity        string
	connection      *connection
	usage           *resourcemetrics.Source // of the pods, if the kubelet API is served
	metrics         *stages.Metrics
	jobMetrics      *jobs.Metrics
	cloneSetMetrics *clonesets.Metrics
	synced          atomic.Bool
	leading         atomic.Bool
	guard           atomic.Pointer[guard] // of the current election, nil without one
	begin           time.Time
	announced       bool
}

// Run simulates until ctx ends and then returns nil. It returns an error if it cannot start.
func Run(ctx context.Context, o Options) error {
	s := &simulation{Options: o, identity: identity(), begin: o.Now(), metrics: stages.NewMetrics(), jobMetrics: jobs.NewMetrics(), cloneSetMetrics: clonesets.NewMetrics()}
	s.connection = &connection{say: o.Say, now: o.Now}
	log := o.Log
	if !o.Verbose {
		log = newQuiet(log, func() bool { return s.connection.away() || !s.writes() })
	}
	if s.Stage != nil {
		stage := *s.Stage
		stage.Logger, stage.Watch = slog.New(log), true
		s.Stage = &stage
	}
	s.Config = rest.CopyConfig(o.Config)
	s.Config.QPS = -1

	registry := probes.Registry(s.metrics, s.jobMetrics, s.cloneSetMetrics, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "rehearse_leader", Help: "1 while this replica writes.",
	}, s.isLeading))
	server, err := probes.Listen(o.MetricsAddress, registry, s.ready)
	if err != nil {
		return fmt.Errorf("--metrics-address %s: %w", o.MetricsAddress, err)
	}
	defer server.Close()
	if server != nil {
		o.Say("Metrics and probes are on http://%s (/metrics, /healthz, /readyz).", server.Address())
	}
	if err := preflight(ctx, s.Config, withElection(s.access(), s.Election)); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	if s.Stage != nil && !serves(s.Config, v1alpha1.GroupVersion, v1alpha1.StageKind) {
		o.Say("This cluster has no Stage objects (kwok.x-k8s.io); until it has, only the stages of this process are played.")
		s.Stage.WatchWait = -1
	}
	if s.CloneSets != nil && !serves(s.Config, kruise.GroupVersion, kruise.Kind) {
		o.Say("This cluster has no CloneSets (apps.kruise.io); waiting for their definition: kubectl apply --server-side -k deploy/clonesets")
	}
	closeKubelet, err := s.serveKubelet(ctx)
	if err != nil {
		return err
	}
	defer closeKubelet()
	s.Config.Wrap(s.connection.watch)
	for ctx.Err() == nil {
		if err := s.term(ctx); err != nil {
			return err
		}
	}
	return nil
}

// serves reports whether the cluster has the definition of a kind. If discovery fails, it returns true: the controller then
// waits for the kind.
func serves(config *rest.Config, version schema.GroupVersion, kind string) bool {
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return true
	}
	all, err := client.ServerResourcesForGroupVersion(version.String())
	if err != nil {
		return !apierrors.IsNotFound(err)
	}
	return slices.ContainsFunc(all.APIResources, func(r metav1.APIResource) bool { return r.Kind == kind })
}

// ready is the readiness check. A standby replica is ready: it can take over.
func (s *simulation) ready() error {
	if !s.synced.Load() {
		return errors.New("the informers have not synced")
	}
	return nil
}

// writes reports whether this replica may write.
func (s *simulation) writes() bool {
	g := s.guard.Load()
	return s.leading.Load() && (g == nil || g.holds())
}

func (s *simulation) isLeading() float64 {
	if s.writes() {
		return 1
	}
	return 0
}

// term runs one engine until ctx ends or the lease is lost.
func (s *simulation) term(ctx context.Context) error {
	// The engine and the election stop separately: the lease is released only when no write can be sent any more.
	engineCtx, stopEngine := context.WithCancel(ctx)
	defer stopEngine()
	config := rest.CopyConfig(s.Config)
	var c *candidate
	var lead <-chan struct{}
	if s.Election != nil {
		var err error
		if c, err = newCandidate(s.Config, s.Election, s.identity); err != nil {
			return err
		}
		g := &guard{elector: c.elector, margin: s.Election.LeaseDuration - s.Election.RenewDeadline}
		s.guard.Store(g)
		config.Wrap(g.wrap)
		lead = c.lead
	}
	parts, err := s.build(config, lead)
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- parts.run(engineCtx) }()
	select {
	case err := <-ended:
		return err
	case <-parts.synced(engineCtx):
	}
	s.synced.Store(true)
	defer s.synced.Store(false)
	s.announce(parts)
	if c == nil {
		s.leading.Store(true)
		defer s.leading.Store(false)
		return <-ended
	}
	return s.campaign(ctx, c, stopEngine, ended)
}

// campaign competes for the lease until ctx ends or the lease is lost again.
func (s *simulation) campaign(ctx context.Context, c *candidate, stopEngine func(), ended <-chan error) error {
	electionCtx, withdraw := context.WithCancel(context.WithoutCancel(ctx))
	defer func() {
		withdraw()
		<-c.lost
		if c.elector.IsLeader() { // it could not release the lease
			c.release(context.WithoutCancel(ctx))
		}
	}()
	go c.elector.Run(electionCtx)
	defer s.leading.Store(false)
	won := c.lead
	for {
		select {
		case <-won:
			won = nil
			s.leading.Store(true)
			s.Say("This replica leads (lease %s).", s.Election)
		case <-c.lost:
			s.leading.Store(false)
			s.Say("The lease %s is lost: this replica has stopped writing and is a standby.", s.Election)
			stopEngine()
			return <-ended
		case err := <-ended:
			return err
		}
	}
}

// announce prints a line for each controller when all are ready.
func (s *simulation) announce(all parts) {
	if s.announced {
		return
	}
	s.announced = true
	state := fmt.Sprintf("ready in %.1f s", s.Now().Sub(s.begin).Seconds())
	if s.Election != nil {
		state += fmt.Sprintf(", standby for the lease %s", s.Election)
	}
	for _, c := range all {
		if engine, ok := c.(*stages.StageEngine); ok {
			s.Say("Simulating %s on %s: %s; %d objects known (Ctrl-C stops it)", s.whichNodes(), s.Config.Host, state, engine.Stats().Objects)
		}
	}
	if s.Jobs != nil {
		s.Say("Managing %s on %s: %s (Ctrl-C stops it)", whichJobs(s.Jobs), s.Config.Host, state)
	}
	if s.CloneSets != nil {
		s.Say("Managing CloneSets on %s: %s (Ctrl-C stops it)", s.Config.Host, state)
	}
}

func (s *simulation) whichNodes() string {
	which := "all nodes"
	if !s.Stage.Manage.All {
		kind, pair, _ := strings.Cut(s.Stage.Manage.String(), ":")
		which = fmt.Sprintf("nodes with the %s %s", kind, pair)
	}
	if s.Stage.Shard.Count > 1 {
		which += ", shard " + s.Stage.Shard.String()
	}
	return which
}

func whichJobs(o *jobs.Options) string {
	if o.All {
		return "all Jobs"
	}
	return "Jobs with spec.managedBy " + jobs.ManagedBy
}
