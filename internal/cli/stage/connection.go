package stage

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/rehearse-k8s/rehearse/api/kwok/v1alpha1"
	"github.com/rehearse-k8s/rehearse/internal/cli/console"
	"github.com/rehearse-k8s/rehearse/internal/cli/statedir"
	"github.com/rehearse-k8s/rehearse/internal/cli/target"
	"github.com/rehearse-k8s/rehearse/internal/controller/stages"
	"github.com/rehearse-k8s/rehearse/stage"
)

// connection is a cluster to read objects from.
type connection struct {
	client    dynamic.Interface
	mapper    meta.RESTMapper
	namespace string
	ours      bool // its context is that of a rehearse cluster
	// started is the record of a rehearse cluster on this machine, nil for other clusters.
	started *statedir.Record
}

// connect connects to the cluster that --kubeconfig or --context names, else to a rehearse cluster, as kubectl and scale do.
func (a *app) connect(o *explainOptions) (*connection, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	if o.kubeconfig == "" && o.context == "" {
		root, err := statedir.DefaultRoot(a.Getenv)
		if err != nil {
			return nil, err
		}
		name, err := target.Choose(root, o.cluster, a.Getenv)
		if err != nil {
			return nil, err
		}
		rules = &clientcmd.ClientConfigLoadingRules{ExplicitPath: root.KubeconfigPath(name)}
	} else if o.cluster != "" {
		return nil, console.Usagef("--name cannot be combined with --kubeconfig or --context")
	}
	if o.kubeconfig != "" {
		rules.ExplicitPath = o.kubeconfig
	}
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: o.context})
	config, err := loader.ClientConfig()
	if err != nil {
		return nil, console.Usagef("%v", err)
	}
	config.UserAgent = console.UserAgent
	config.QPS = -1 // no limit: there are only a few requests
	c := &connection{namespace: o.namespace}
	if c.namespace == "" {
		if c.namespace, _, err = loader.Namespace(); err != nil {
			return nil, console.Usagef("%v", err)
		}
	}
	raw, err := loader.RawConfig()
	if err != nil {
		return nil, console.Usagef("%v", err)
	}
	var name string
	if name, c.ours = strings.CutPrefix(cmp.Or(o.context, raw.CurrentContext), target.ContextName("")); c.ours {
		c.started = target.StartRecord(name, config.Host, a.Getenv)
	}
	if c.client, err = dynamic.NewForConfig(config); err != nil {
		return nil, err
	}
	d, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	cached := memory.NewMemCacheClient(d)
	c.mapper = restmapper.NewShortcutExpander(restmapper.NewDeferredDiscoveryRESTMapper(cached), cached, nil)
	return c, nil
}

// clusterStages are the stages that play in a cluster: a base set and the cluster's Stage objects. The base set is that of
// --stages; without it, the set that a rehearse cluster was started with; and for clusters without Stage objects, the set
// that up plays by default.
func (a *app) clusterStages(ctx context.Context, c *connection, base *stage.Set) (*stage.Set, error) {
	served, where, err := a.served(ctx, c)
	if err != nil {
		return nil, err
	}
	if base == nil && c.started != nil && len(c.started.Stages) > 0 {
		if base, err = a.startedStages(c.started); err != nil {
			return nil, err
		}
	} else if base == nil && (c.ours || len(served) == 0) {
		a.Say("Note: %s; using the stages that 'rehearse up' plays by default.", where)
		if base, err = a.stageSet(nil); err != nil {
			return nil, err
		}
	} else if len(served) == 0 {
		a.Say("Note: %s; using the stages of --stages.", where)
	}
	if base == nil {
		base = &stage.Set{}
	}
	set, bad := base.With(served)
	for _, e := range bad {
		a.Say("rehearse: stage ignored: %v", e)
	}
	return set, nil
}

// startedStages are the stages that a cluster was started with, from the current contents of their files.
func (a *app) startedStages(r *statedir.Record) (*stage.Set, error) {
	a.Say("Note: using the stages that the cluster was started with: --stages %s.", strings.Join(r.Stages, ","))
	now := statedir.Checksums(r.Stages)
	for _, name := range r.Stages {
		if sum := now[name]; sum != "" && sum != r.StageSums[name] {
			a.Say("Note: %s has changed since the cluster was started; the cluster still plays the earlier version.", name)
		}
	}
	set, err := a.stageSet(r.Stages)
	if err != nil {
		return nil, fmt.Errorf("the stages that the cluster was started with: %w", err)
	}
	return set, nil
}

// served reads the cluster's Stage objects, and returns their number as text.
func (a *app) served(ctx context.Context, c *connection) (stages []stage.Stage, where string, err error) {
	list, err := c.client.Resource(v1alpha1.GroupVersion.WithResource("stages")).List(ctx, metav1.ListOptions{})
	if apierrors.IsNotFound(err) {
		return nil, "the cluster does not serve stages.kwok.x-k8s.io", nil
	}
	if err != nil {
		return nil, "", fmt.Errorf("stages of the cluster: %w", err)
	}
	for i := range list.Items {
		s := stage.Stage{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(list.Items[i].Object, &s); err != nil {
			a.Say("rehearse: stage %s of the cluster is ignored: %s", list.Items[i].GetName(), console.Message(err))
			continue
		}
		stages = append(stages, s)
	}
	return stages, "the cluster has " + console.Count(len(stages), "Stage object"), nil
}

// get reads one object, in the version that stages are for where there are any.
func (c *connection) get(ctx context.Context, set *stage.Set, kind, name string) (stage.Object, error) {
	gvr, gr := schema.ParseResourceArg(strings.ToLower(kind))
	if gvr == nil {
		gvr = &schema.GroupVersionResource{Group: gr.Group, Resource: gr.Resource}
	}
	full, err := c.mapper.ResourceFor(*gvr)
	if meta.IsNoMatchError(err) {
		return nil, console.Usagef("the cluster has no kind %q", kind)
	}
	if err != nil {
		return nil, err
	}
	gvk, err := c.mapper.KindFor(full)
	if err != nil {
		return nil, err
	}
	for _, k := range set.Kinds() {
		if own := k.GroupVersionKind(); own.GroupKind() == gvk.GroupKind() {
			gvk = own
		}
	}
	mapping, err := c.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return nil, err
	}
	namespace := ""
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		namespace = c.namespace
	}
	found, err := c.client.Resource(mapping.Resource).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return stage.ObjectFrom(found.Object)
}

// surroundings reads what the stages of a pod depend on outside the pod, and notes the reasons why an engine would not play it.
func (c *connection) surroundings(ctx context.Context, s *situation) error {
	s.scene.NodeReady = true
	s.facts = &clusterFacts{StandIn: stage.StandIn{Start: s.now}}
	node, isNode := s.object.(*corev1.Node)
	pod, isPod := s.object.(*corev1.Pod)
	switch {
	case isPod && pod.Spec.NodeName == "":
		s.notes = append(s.notes, "the pod is not bound to a node; no stage is played until it is")
	case isPod:
		found, err := c.client.Resource(corev1.SchemeGroupVersion.WithResource("nodes")).Get(ctx, pod.Spec.NodeName, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			s.scene.NodeReady = false
			s.notes = append(s.notes, fmt.Sprintf("node %s does not exist", pod.Spec.NodeName))
			break
		}
		if err != nil {
			return err
		}
		node = &corev1.Node{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(found.Object, node); err != nil {
			return err
		}
		s.scene.NodeReady = slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
		})
		if !s.scene.NodeReady {
			s.notes = append(s.notes, fmt.Sprintf("node %s is not Ready", node.Name))
		}
		s.facts = factsOf(node, pod, s.now)
	case isNode:
		s.facts = factsOf(node, nil, s.now)
	}
	if filter := (stages.NodeFilter{}); node != nil && !filter.Matches(node) {
		s.notes = append(s.notes, fmt.Sprintf("node %s is not simulated (%s); its stages are not played by 'rehearse up'", node.Name, filter))
	}
	return nil
}

// clusterFacts returns the addresses that objects have, and stand-ins for the others.
type clusterFacts struct {
	stage.StandIn
	node, pod []string
}

func factsOf(node *corev1.Node, pod *corev1.Pod, now time.Time) *clusterFacts {
	f := &clusterFacts{StandIn: stage.StandIn{Start: now}}
	for _, at := range node.Status.Addresses {
		if at.Type == corev1.NodeInternalIP {
			f.node = append(f.node, at.Address)
		}
	}
	if pod != nil {
		for _, ip := range pod.Status.PodIPs {
			f.pod = append(f.pod, ip.IP)
		}
	}
	return f
}

// NodeIPs implements stage.Facts.
func (f *clusterFacts) NodeIPs(node string) ([]string, error) {
	if len(f.node) > 0 {
		return f.node, nil
	}
	return f.StandIn.NodeIPs(node)
}

// PodIPs implements stage.Facts.
func (f *clusterFacts) PodIPs(uid types.UID, node string) ([]string, error) {
	if len(f.pod) > 0 {
		return f.pod, nil
	}
	return f.StandIn.PodIPs(uid, node)
}
