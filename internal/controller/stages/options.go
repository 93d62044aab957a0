package stages

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/clock"

	"github.com/rehearse-k8s/rehearse/internal/controller/podcache"
	"github.com/rehearse-k8s/rehearse/stage"
)

// The annotation that marks a node as simulated, as KWOK has it.
const (
	SimulatedAnnotation      = "kwok.x-k8s.io/node"
	SimulatedAnnotationValue = "fake"
)

// NodeFilter says which nodes, and so which pods, the engine plays. The zero
// value takes the nodes annotated kwok.x-k8s.io/node=fake.
type NodeFilter struct {
	// All takes every node. On a cluster with real nodes this fights their
	// kubelets.
	All bool
	// Annotation and Label take the nodes with this key=value.
	Annotation, Label string
}

// ParseNodeFilter reads "all", "annotation:KEY=VALUE" or "label:KEY=VALUE".
func ParseNodeFilter(text string) (NodeFilter, error) {
	which, pair, _ := strings.Cut(text, ":")
	key, value, isPair := strings.Cut(pair, "=")
	switch {
	case text == "all":
		return NodeFilter{All: true}, nil
	case !isPair || which != "annotation" && which != "label":
		return NodeFilter{}, fmt.Errorf("node filter %q is not one of all, annotation:KEY=VALUE, label:KEY=VALUE", text)
	}
	// The API rejects such keys and values, so a filter for them would silently select no node.
	if problems := validation.IsQualifiedName(key); len(problems) > 0 {
		return NodeFilter{}, fmt.Errorf("node filter %q: %q is no key of a %s: %s", text, key, which, problems[0])
	}
	if which == "annotation" {
		return NodeFilter{Annotation: pair}, nil
	}
	if problems := validation.IsValidLabelValue(value); len(problems) > 0 {
		return NodeFilter{}, fmt.Errorf("node filter %q: %q is no value of a label: %s", text, value, problems[0])
	}
	return NodeFilter{Label: pair}, nil
}

// String is what ParseNodeFilter reads.
func (f NodeFilter) String() string {
	switch {
	case f.All:
		return "all"
	case f.Label != "":
		return "label:" + f.Label
	case f.Annotation != "":
		return "annotation:" + f.Annotation
	}
	return "annotation:" + SimulatedAnnotation + "=" + SimulatedAnnotationValue
}

// Matches reports whether a node is the engine's.
func (f NodeFilter) Matches(n *corev1.Node) bool {
	switch {
	case f.All:
		return true
	case f.Label != "":
		return has(n.Labels, f.Label)
	case f.Annotation != "":
		return has(n.Annotations, f.Annotation)
	}
	return n.Annotations[SimulatedAnnotation] == SimulatedAnnotationValue
}

func has(m map[string]string, pair string) bool {
	key, want, _ := strings.Cut(pair, "=")
	value, ok := m[key]
	return ok && value == want
}

// StageOptions configure a StageEngine. Stages or Watch is required.
type StageOptions struct {
	// Stages are what is played whatever happens to the Stage objects of the API.
	Stages *stage.Set
	// Watch plays the Stage objects of the API too: those that are added, changed
	// or removed apply at once to the objects that are there. A bad one leaves the
	// others running; its status shows the error.
	Watch bool
	// WatchWait is how long Run waits at its start for the API's stages, so that it
	// does not begin with a part of them; default 5 s, negative: not at all.
	WatchWait time.Duration
	// Seed keys all randomness: which of several stages, how long a delay, the
	// spread of leases, addresses.
	Seed uint64
	// Manage chooses the nodes.
	Manage NodeFilter
	// NodeCIDR is where nodes without an address of their own get one from;
	// default 10.16.0.0/12. NodeIP, if set, is the address of all of them.
	NodeCIDR, NodeIP string
	// NodePort is what the template function of this name gives: the port of the nodes'
	// kubelet endpoint, 0 for none. The engine itself serves none.
	NodePort int
	// PodCIDR is where pods get addresses on nodes without a spec.podCIDR;
	// default 10.128.0.0/9.
	PodCIDR string
	// LeaseDuration of the nodes' leases, renewed every quarter of it; default
	// 40 s. Negative keeps no leases.
	LeaseDuration time.Duration
	// Workers is how many writes may be under way at once, leases apart;
	// default 16.
	Workers int
	// KubeletVersion is what nodes report; default v1.36.3.
	KubeletVersion string
	// Clock is where the time comes from; default the machine's.
	Clock clock.WithTicker
	// Logger is where failures and summaries go; default nowhere.
	Logger *slog.Logger
	// Shard is the part of the nodes that is this engine's; default all.
	Shard Shard
	// Lead, if set, delays all writes until it is closed. Meanwhile the
	// engine watches and plans, so that it can go on where another one stopped.
	Lead <-chan struct{}
	// Metrics, if set, counts what the engine does.
	Metrics *Metrics
	// Pods, if set, are what the engine sees of pods, in place of a watch of its own.
	Pods *podcache.Cache
	// Audit is how often what the engine knows is compared with the API, in case an
	// event is lost for good; default 10 min, negative: never.
	Audit time.Duration
}

func (o *StageOptions) complete() (nodeCIDR, podCIDR netip.Prefix, err error) {
	if o.Stages == nil && !o.Watch {
		return nodeCIDR, podCIDR, errors.New("stage engine: no stages")
	}
	if o.Stages == nil {
		if o.Stages, err = stage.Compile(nil); err != nil {
			return nodeCIDR, podCIDR, err
		}
	}
	setDefault(&o.NodeCIDR, "10.16.0.0/12")
	setDefault(&o.PodCIDR, "10.128.0.0/9")
	setDefault(&o.KubeletVersion, "v1.36.3")
	if o.LeaseDuration == 0 {
		o.LeaseDuration = 40 * time.Second
	}
	if o.LeaseDuration > 0 && o.LeaseDuration < time.Second {
		return nodeCIDR, podCIDR, fmt.Errorf("stage engine: lease duration %s is under a second", o.LeaseDuration)
	}
	if o.WatchWait == 0 {
		o.WatchWait = 5 * time.Second
	}
	if o.Audit == 0 {
		o.Audit = 10 * time.Minute
	}
	if o.Workers == 0 {
		o.Workers = 16
	}
	if o.Workers < 0 {
		return nodeCIDR, podCIDR, fmt.Errorf("stage engine: %d workers", o.Workers)
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.NodeIP != "" {
		if _, err := netip.ParseAddr(o.NodeIP); err != nil {
			return nodeCIDR, podCIDR, fmt.Errorf("stage engine: node address: %w", err)
		}
	}
	if nodeCIDR, err = netip.ParsePrefix(o.NodeCIDR); err != nil {
		return nodeCIDR, podCIDR, fmt.Errorf("stage engine: node range: %w", err)
	}
	if podCIDR, err = netip.ParsePrefix(o.PodCIDR); err != nil {
		return nodeCIDR, podCIDR, fmt.Errorf("stage engine: pod range: %w", err)
	}
	return nodeCIDR, podCIDR, nil
}

func setDefault(field *string, value string) {
	if *field == "" {
		*field = value
	}
}
