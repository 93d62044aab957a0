package live

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/store"
)

// borrowed is a cluster of somebody else. It cannot be forked: between runs it is brought
// back by writes, to what it was when the first one began. Other things may live in it, so
// what is brought back is little: the namespaces of the scenario, and what the record says
// that clients and users have written.
type borrowed struct {
	arena      *Arena
	namespaces map[string]bool
	mirror     *mirror
	client     dynamic.Interface
	discovery  discovery.DiscoveryInterface
	stop       context.CancelFunc
	found      map[string]store.KV // what it held before the first run
	made       []madeObject        // objects of the beginning that we made

	mu      sync.Mutex
	touched map[string]bool // keys of what was written in runs
	outside map[string]bool // objects elsewhere that were made in runs
}

type madeObject struct {
	to   dynamic.ResourceInterface
	name string
}

func newBorrowed(a *Arena) *borrowed {
	namespaces := map[string]bool{}
	for _, ns := range a.o.Scenario.Namespaces() {
		namespaces[ns] = true
	}
	return &borrowed{arena: a, namespaces: namespaces, mirror: newMirror(time.Now), found: map[string]store.KV{}, touched: map[string]bool{}, outside: map[string]bool{}}
}

// config is a client of the cluster, as whom the kubeconfig says.
func (g *borrowed) config(actor string) *rest.Config {
	c := rest.CopyConfig(g.arena.o.Target)
	c.UserAgent = "rehearse:" + actor
	c.QPS, c.WarningHandler = -1, rest.NoWarnings{}
	return c
}

// before makes sure that there is a cluster.
func (g *borrowed) before(context.Context) (err error) {
	if g.discovery, err = discovery.NewDiscoveryClientForConfig(g.config("borrower")); err != nil {
		return err
	}
	if _, err = g.discovery.ServerVersion(); err != nil {
		return fmt.Errorf("the cluster to rehearse in does not answer: %w", err)
	}
	g.client, err = dynamic.NewForConfig(g.config("borrower"))
	return err
}

// has refuses objects that are there, as nobody knows whose they are. A kind may well be
// defined already.
func (g *borrowed) has(ctx context.Context, to dynamic.ResourceInterface, o *unstructured.Unstructured) (bool, error) {
	_, err := to.Get(ctx, o.GetName(), metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		g.made = append(g.made, madeObject{to, o.GetName()})
		return false, nil
	case err != nil:
		return false, err
	case o.GetKind() == "CustomResourceDefinition":
		return true, nil
	}
	return false, g.isThere(o)
}

func (g *borrowed) isThere(o *unstructured.Unstructured) error {
	in := ""
	if ns := o.GetNamespace(); ns != "" {
		in = " -n " + ns
	}
	return &StoryError{fmt.Sprintf("%s: the cluster has a %s %s already, and a rehearsal would change it: delete it (kubectl delete%s %s %s), or give the scenario another name or namespace",
		g.arena.o.Scenario.File, o.GetKind(), o.GetName(), in, strings.ToLower(o.GetKind()), o.GetName())}
}

// after looks what there is, and begins to follow it.
func (g *borrowed) after(ctx context.Context) error {
	if err := g.free(ctx); err != nil {
		return err
	}
	following, stop := context.WithCancel(context.WithoutCancel(ctx))
	g.stop = stop
	lists, err := discovery.ServerPreferredResources(g.discovery)
	if len(lists) == 0 {
		return err // what a broken aggregated API serves is left out, as kubectl does
	}
	for _, gvr := range watchable(lists) {
		for _, namespace := range g.namespacesOf(gvr.namespaced) {
			if err := g.mirror.follow(following, gvr.GroupResource(), resourceIn(g.client, gvr.GroupVersionResource, gvr.namespaced, namespace)); err != nil {
				return err
			}
		}
	}
	if g.found, _, err = g.mirror.snapshot(); err != nil {
		return err
	}
	return g.rests()
}

// rests refuses a cluster in which something waits to be gone, left over from another
// rehearsal perhaps: a run would be blamed for it.
func (g *borrowed) rests() error {
	for _, key := range slices.Sorted(maps.Keys(g.found)) {
		o, _, err := g.object(g.found[key])
		if err != nil {
			return err
		}
		if o.GetDeletionTimestamp() != nil && g.namespaces[o.GetNamespace()] {
			return &StoryError{fmt.Sprintf("%s: namespace %s of the cluster is not at rest: %s %s is being deleted and waits for its finalizers %v",
				g.arena.o.Scenario.File, o.GetNamespace(), o.GetKind(), o.GetName(), o.GetFinalizers())}
		}
	}
	return nil
}

// free looks that nothing is there that the story is about to make.
func (g *borrowed) free(ctx context.Context) error {
	s := g.arena.o.Scenario
	for i := range s.Steps {
		for _, content := range s.Steps[i].Objects {
			o := &unstructured.Unstructured{Object: content}
			to, err := resourceFor(g.client, g.arena.mapper, o)
			if err != nil || o.GetName() == "" {
				continue // the story will say so itself
			}
			if _, err = to.Get(ctx, o.GetName(), metav1.GetOptions{}); err == nil {
				return g.isThere(o)
			}
		}
	}
	return nil
}

func (g *borrowed) namespacesOf(namespaced bool) []string {
	if !namespaced {
		return []string{""}
	}
	return slices.Sorted(maps.Keys(g.namespaces))
}

// served is a resource of the cluster.
type served struct {
	schema.GroupVersionResource
	namespaced bool
}

// watchable are the resources that can be followed, but for bookkeeping.
func watchable(lists []*metav1.APIResourceList) (all []served) {
	for _, list := range lists {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			continue
		}
		for i := range list.APIResources {
			r := &list.APIResources[i]
			gvr := version.WithResource(r.Name)
			name := gvr.GroupResource().String()
			if strings.Contains(r.Name, "/") || !slices.Contains(r.Verbs, "list") || !slices.Contains(r.Verbs, "watch") ||
				history.Bookkeeping(name) || name == "ipaddresses.networking.k8s.io" {
				continue
			}
			all = append(all, served{gvr, r.Namespaced})
		}
	}
	return all
}

// enter brings the cluster back. There is one run at a time.
func (g *borrowed) enter(ctx context.Context, _ string, _ uint64) (*place, error) {
	if err := g.restore(ctx); err != nil {
		return nil, err
	}
	return &place{
		config: g.config, source: g.mirror, apart: g.apart, catchUp: g.mirror.catchUp, leave: g.leave,
	}, nil
}

// apart tells what is not the run's: objects in no namespace that were there before.
func (g *borrowed) apart(key string) bool {
	if _, there := g.found[key]; !there {
		return false
	}
	_, rest, _ := strings.Cut(strings.TrimPrefix(key, "/"), "/")
	return !strings.Contains(rest, "/")
}

// leave notes what a run has written.
func (g *borrowed) leave(record *history.Run) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i := range record.Steps {
		s := &record.Steps[i]
		if !s.Wrote() || history.Bookkeeping(s.Resource) {
			continue
		}
		g.touched[keyOf(schema.ParseGroupResource(s.Resource), s.Namespace, s.Name)] = true
		if s.Namespace != "" && !g.namespaces[s.Namespace] && s.Subresource == "" {
			g.outside[s.Object.String()] = true
		}
	}
}

// close leaves the cluster as it was found.
func (g *borrowed) close() error {
	if g.stop == nil {
		return g.unmake()
	}
	defer g.stop()
	ctx, cancel := context.WithTimeout(context.Background(), restoring)
	defer cancel()
	return errors.Join(g.restore(ctx), g.unmake(), g.beyond())
}

// beyond tells of what runs have written where nothing is brought back.
func (g *borrowed) beyond() error {
	if len(g.outside) == 0 {
		return nil
	}
	return fmt.Errorf("runs have written what is not in namespace %s, and it is not what it was: %s",
		strings.Join(g.namespacesOf(true), ", "), strings.Join(slices.Sorted(maps.Keys(g.outside)), ", "))
}

// unmake deletes the objects of the beginning that we made, the last one first.
func (g *borrowed) unmake() error {
	ctx, cancel := context.WithTimeout(context.Background(), restoring)
	defer cancel()
	var errs []error
	for _, o := range slices.Backward(g.made) {
		background := metav1.DeletePropagationBackground
		if err := o.to.Delete(ctx, o.name, metav1.DeleteOptions{PropagationPolicy: &background}); err != nil && !apierrors.IsNotFound(err) {
			errs = append(errs, fmt.Errorf("%s, which the rehearsal made, is still there: %w", o.name, err))
		}
	}
	return errors.Join(errs...)
}

// object is what a mirror holds under a key, and the client for it.
func (g *borrowed) object(kv store.KV) (*unstructured.Unstructured, dynamic.ResourceInterface, error) {
	o := &unstructured.Unstructured{}
	if err := json.Unmarshal(kv.Value, &o.Object); err != nil {
		return nil, nil, err
	}
	to, err := resourceFor(g.client, g.arena.mapper, o)
	return o, to, err
}
