package nodepressure

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/rehearse-k8s/rehearse/internal/controller/reconcile"
	"github.com/rehearse-k8s/rehearse/internal/resourcemetrics"
	"github.com/rehearse-k8s/rehearse/internal/stage/kubelet"
)

const (
	// Interval is the time between two looks at a node, as the monitoring interval of a kubelet.
	Interval = 10 * time.Second
	// afterEviction is the time to the next look after an eviction: a kubelet waits only until the pod is cleaned up.
	afterEviction = time.Second
)

// New prepares the controller and returns the function that runs it until its context ends. Of the nodes with the
// annotation, manages selects those that it observes and changes; nil selects all.
func New(config *rest.Config, usages *resourcemetrics.Source, manages func(*corev1.Node) bool) (func(context.Context), error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	untyped, err := metadata.NewForConfig(metadata.ConfigFor(config))
	if err != nil {
		return nil, err
	}
	events, err := reconcile.NewEvents(config, scheme.Scheme, "kubelet")
	if err != nil {
		return nil, err
	}
	c := &controller{client: client, usages: usages, manages: manages, events: events, settings: map[string]Settings{}, memories: map[string]*memory{}}
	nodes := metadatainformer.NewFilteredMetadataInformer(untyped, corev1.SchemeGroupVersion.WithResource("nodes"), "", 0, cache.Indexers{}, nil).Informer()
	if err := nodes.SetTransform(annotationsOnly); err != nil {
		return nil, err
	}
	if _, err := nodes.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: c.take, UpdateFunc: func(_, o any) { c.take(o) }, DeleteFunc: c.forget,
	}); err != nil {
		return nil, err
	}
	return func(ctx context.Context) {
		defer events.Shutdown()
		var watch sync.WaitGroup
		defer watch.Wait()
		watch.Go(func() { nodes.RunWithContext(ctx) })
		c.run(ctx)
	}, nil
}

// annotationsOnly removes what the controller does not read, to save memory.
func annotationsOnly(o any) (any, error) {
	if m, ok := o.(*metav1.PartialObjectMetadata); ok {
		kept := map[string]string{}
		for _, key := range []string{AnnotationHard, AnnotationTransition} {
			if value, ok := m.Annotations[key]; ok {
				kept[key] = value
			}
		}
		m.ObjectMeta = metav1.ObjectMeta{Name: m.Name, UID: m.UID, ResourceVersion: m.ResourceVersion, Annotations: kept}
	}
	return o, nil
}

// controller is the shell around Decide.
type controller struct {
	client  kubernetes.Interface
	usages  *resourcemetrics.Source
	manages func(*corev1.Node) bool // nil: all nodes
	events  *reconcile.Events

	mu       sync.Mutex
	settings map[string]Settings // by the name of the node; nodes without the annotation are left out

	memories map[string]*memory // by the name of the node
}

// memory is what the controller remembers about a node.
type memory struct {
	uid          types.UID
	lastPressure time.Time
	pressure     bool
	evicted      types.UID // the last pod that was evicted; until the cache shows that, nothing is decided
}

// take reads the annotations of a node.
func (c *controller) take(o any) {
	node, ok := o.(*metav1.PartialObjectMetadata)
	if !ok {
		return
	}
	s, ok, err := ParseSettings(node.Annotations)
	if err != nil {
		slog.Warn("node pressure", "node", node.Name, "error", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if ok {
		c.settings[node.Name] = s
	} else {
		delete(c.settings, node.Name)
	}
}

func (c *controller) forget(o any) {
	if gone, ok := o.(cache.DeletedFinalStateUnknown); ok {
		o = gone.Obj
	}
	if node, ok := o.(*metav1.PartialObjectMetadata); ok {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.settings, node.Name)
	}
}

// run looks at the nodes until ctx ends.
func (c *controller) run(ctx context.Context) {
	t := time.NewTimer(Interval)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		next := Interval
		if c.look(ctx, time.Now()) {
			next = afterEviction
		}
		t.Reset(next)
	}
}

// look decides about every node, and reports whether it evicted a pod.
func (c *controller) look(ctx context.Context, now time.Time) (evicted bool) {
	c.mu.Lock()
	settings := maps.Clone(c.settings)
	c.mu.Unlock()
	// A node that lost the annotation loses the condition too.
	for name, m := range c.memories {
		if _, ok := settings[name]; !ok && !m.pressure {
			delete(c.memories, name)
		} else if !ok {
			settings[name] = Settings{}
		}
	}
	if len(settings) == 0 {
		return false
	}
	usages, err := c.usages.NodeUsages(ctx, slices.Sorted(maps.Keys(settings)))
	if err != nil {
		if ctx.Err() == nil {
			slog.Warn("node pressure: read the usage of nodes", "error", err)
		}
		return false
	}
	found := make(map[string]bool, len(usages))
	for _, u := range usages {
		if c.manages != nil && !c.manages(u.Node) {
			continue
		}
		found[u.Node.Name] = true
		did, err := c.node(ctx, now, settings[u.Node.Name], u)
		if err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) && ctx.Err() == nil {
			slog.Warn("node pressure", "node", u.Node.Name, "error", err)
		}
		evicted = evicted || did
	}
	maps.DeleteFunc(c.memories, func(name string, _ *memory) bool { return !found[name] })
	return evicted
}

// node decides about one node and acts. After an error, the next look tries again.
func (c *controller) node(ctx context.Context, now time.Time, settings Settings, u resourcemetrics.NodeUsage) (evicted bool, err error) {
	m := c.memories[u.Node.Name]
	if m == nil || m.uid != u.Node.UID {
		m = &memory{uid: u.Node.UID, pressure: hasPressure(u.Node)}
		c.memories[u.Node.Name] = m
	}
	s := State{Settings: settings, Now: now, Capacity: u.Node.Status.Capacity.Memory().Value(), LastPressure: m.lastPressure}
	for _, p := range u.Pods {
		if hasTerminated(p.Pod) {
			continue
		}
		if p.Err != nil {
			return false, p.Err
		}
		if p.Pod.UID == m.evicted {
			return true, nil // the cache is behind: look again soon
		}
		pod := Pod{Pod: p.Pod, Measured: len(p.Containers) > 0}
		for _, used := range p.Containers {
			pod.Containers = append(pod.Containers, Container{used.Name, used.Memory.Value()})
		}
		s.Pods = append(s.Pods, pod)
	}
	d := Decide(s)
	m.lastPressure = d.LastPressure
	if d.Pressure != hasPressure(u.Node) {
		if err := c.setCondition(ctx, now, u.Node, d.Pressure); err != nil {
			return false, err
		}
	}
	m.pressure = d.Pressure
	if d.Evict == nil {
		return false, nil
	}
	c.events.Emit(u.Node, true, "EvictionThresholdMet", "Attempting to reclaim memory")
	if err := c.evict(ctx, now, d.Evict, d.Message); err != nil {
		return false, fmt.Errorf("evict pod %s/%s: %w", d.Evict.Namespace, d.Evict.Name, err)
	}
	m.evicted = d.Evict.UID
	return true, nil
}

func hasPressure(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeMemoryPressure && c.Status == corev1.ConditionTrue
	})
}

// setCondition sets the condition MemoryPressure, with the reasons and messages of a kubelet.
func (c *controller) setCondition(ctx context.Context, now time.Time, node *corev1.Node, pressure bool) error {
	condition := corev1.NodeCondition{
		Type: corev1.NodeMemoryPressure, Status: corev1.ConditionFalse, Reason: "KubeletHasSufficientMemory",
		Message: "kubelet has sufficient memory available", LastHeartbeatTime: metav1.NewTime(now), LastTransitionTime: metav1.NewTime(now),
	}
	event := "NodeHasSufficientMemory"
	if pressure {
		condition.Status, condition.Reason, condition.Message = corev1.ConditionTrue, "KubeletHasInsufficientMemory", "kubelet has insufficient memory available"
		event = "NodeHasInsufficientMemory"
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": node.UID},
		"status":   map[string]any{"conditions": []corev1.NodeCondition{condition}},
	})
	if err != nil {
		return err
	}
	_, err = c.client.CoreV1().Nodes().Patch(ctx, node.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	if err == nil {
		c.events.Emit(node, false, event, "Node "+node.Name+" status is now: "+event)
	}
	return err
}

// evict ends a pod. It reads the pod first, because the cache leaves out some fields; the write carries the resourceVersion.
func (c *controller) evict(ctx context.Context, now time.Time, cached *corev1.Pod, message string) error {
	pods := c.client.CoreV1().Pods(cached.Namespace)
	pod, err := pods.Get(ctx, cached.Name, metav1.GetOptions{})
	if err != nil || pod.UID != cached.UID || hasTerminated(pod) {
		return err
	}
	if err := kubelet.NewStep("evict")(pod, kubelet.Moment{Now: now}); err != nil {
		return err
	}
	pod.Status.Message = message
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == corev1.DisruptionTarget {
			pod.Status.Conditions[i].Message = message
		}
	}
	if _, err := pods.UpdateStatus(ctx, pod, metav1.UpdateOptions{}); err != nil {
		return err
	}
	c.events.Emit(pod, true, "Evicted", message)
	return nil
}

func hasTerminated(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}
