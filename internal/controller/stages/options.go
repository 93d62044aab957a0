package stages

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/clock"

	"github.com/rehearse-k8s/rehearse/internal/controller/podcache"
	"github.com/rehearse-k8s/rehearse/stage"
)

// The annotation that marks a node as simulated, the same as KWOK's.
const (
	SimulatedAnnotation      = "kwok.x-k8s.io/node"
	SimulatedAnnotationValue = "fake"
)

// NodeFilter selects the nodes whose stages the engine runs, with their pods. The zero value selects the nodes
// annotated kwok.x-k8s.io/node=fake.
type NodeFilter struct {
	// All selects every node. On a cluster with real nodes, their kubelets write to the same objects.
	All bool

	text                string // as ParseNodeFilter has parsed it
	annotations, labels selector
}

// ParseNodeFilter parses "all", "annotation:SELECTOR" or "label:SELECTOR". A selector has the syntax of a label selector, such as
// "env=test,!real" or "zone in (a,b)". The value of an annotation may also be a text that no label could have; then it is one
// pair KEY=VALUE.
func ParseNodeFilter(text string) (NodeFilter, error) {
	if text == "all" {
		return NodeFilter{All: true}, nil
	}
	which, expression, _ := strings.Cut(text, ":")
	if expression == "" || which != "annotation" && which != "label" {
		return NodeFilter{}, fmt.Errorf("node filter %q is not one of all, annotation:SELECTOR, label:SELECTOR", text)
	}
	var s selector
	s, err := labels.Parse(expression)
	if which == "annotation" {
		if key, value, ok := strings.Cut(expression, "="); err != nil && ok && len(validation.IsQualifiedName(key)) == 0 {
			s, err = exactly{key, value}, nil
		}
	}
	switch {
	case err != nil:
		return NodeFilter{}, fmt.Errorf("node filter %q: %w", text, err)
	case which == "annotation":
		return NodeFilter{text: text, annotations: s}, nil
	}
	return NodeFilter{text: text, labels: s}, nil
}

// selector selects objects by their labels, or in the same way by their annotations.
type selector interface{ Matches(labels.Labels) bool }

// exactly selects one pair, whatever the value is.
type exactly struct{ key, value string }

func (e exactly) Matches(l labels.Labels) bool { return l.Has(e.key) && l.Get(e.key) == e.value }

// String returns the form that ParseNodeFilter parses.
func (f NodeFilter) String() string {
	switch {
	case f.All:
		return "all"
	case f.text != "":
		return f.text
	}
	return "annotation:" + SimulatedAnnotation + "=" + SimulatedAnnotationValue
}

// Matches reports whether the filter selects a node.
func (f NodeFilter) Matches(n *corev1.Node) bool {
	switch {
	case f.All:
		return true
	case f.labels != nil:
		return f.labels.Matches(labels.Set(n.Labels))
	case f.annotations != nil:
		return f.annotations.Matches(labels.Set(n.Annotations))
	}
	return n.Annotations[SimulatedAnnotation] == SimulatedAnnotationValue
}

// StageOptions configure a StageEngine. Stages or Watch is required.
type StageOptions struct {
	// Stages are run independently of the Stage objects of the API.
	Stages *stage.Set
	// Watch also runs the Stage objects of the API: an added, changed or removed Stage applies at once to the
	// existing objects. An invalid one leaves the others running; its status shows the error.
	Watch bool
	// WatchWait is how long Run waits at its start for the stages of the API, so that it does not start with
	// only a part of them; default 5 s, negative: not at all.
	WatchWait time.Duration
	// Seed keys all randomness: the choice among stages, the length of delays, the spread of leases,
	// addresses.
	Seed uint64
	// Manage selects the nodes.
	Manage NodeFilter
	// NodeCIDR is the range from which nodes without an address get one; default 10.16.0.0/12. NodeIP, if set,
	// is the address of all of them.
	NodeCIDR, NodeIP string
	// NodePort is the result of the template function NodePort: the port of the nodes' kubelet endpoint, 0 for
	// none. The engine itself serves none.
	NodePort int
	// PodCIDR is the range from which pods get addresses on nodes without spec.podCIDR; default 10.128.0.0/9.
	PodCIDR string
	// LeaseDuration is that of the nodes' leases, which are renewed every quarter of it; default 40 s.
	// Negative creates no leases.
	LeaseDuration time.Duration
	// Workers is the maximal number of concurrent writes, without leases; default 16.
	Workers int
	// KubeletVersion is what nodes report; default v1.36.3.
	KubeletVersion string
	// Clock is the clock; default the machine's.
	Clock clock.WithTicker
	// Logger gets failures and summaries; default none.
	Logger *slog.Logger
	// Shard is the part of the nodes that this engine runs; default all.
	Shard Shard
	// Lead, if set, delays all writes until it is closed. Meanwhile the engine watches and plans, so that it
	// continues at once where the previous leader stopped.
	Lead <-chan struct{}
	// Metrics, if set, counts what the engine does.
	Metrics *Metrics
	// Pods, if set, is the shared cache that pods are read from, instead of a watch of the engine's own.
	Pods *podcache.Cache
	// Audit is how often the engine compares its caches with the API, to detect an event that was lost for
	// good; default 10 min, negative: never.
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
