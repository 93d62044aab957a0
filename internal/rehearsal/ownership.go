package rehearsal

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/proxy"
	"github.com/rehearse-k8s/rehearse/internal/wire"
)

// created are the objects that a rehearsal has created in a cluster: its clients, its user, and
// the rehearsal itself at the beginning.
type created struct {
	mu   sync.Mutex
	uids map[types.UID]bool
	last map[string]types.UID // by key
}

func newCreated() *created {
	return &created{uids: map[types.UID]bool{}, last: map[string]types.UID{}}
}

// add notes an object, by its key.
func (c *created) add(key string, uid types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.uids[uid], c.last[key] = true, uid
}

func (c *created) has(uid types.UID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.uids[uid]
}

// at is the object that was created last with a key; "" if none was.
func (c *created) uidOf(key string) types.UID {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last[key]
}

// in are the objects of a resource, by key.
func (c *created) inResource(resource schema.GroupResource) map[string]types.UID {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := map[string]types.UID{}
	for key, uid := range c.last {
		if strings.HasPrefix(key, directoryOf(resource)) {
			all[key] = uid
		}
	}
	return all
}

// removeLeases deletes the leases that clients have created: the mirror does not follow them, and
// a lease that is left keeps the next process waiting.
func (g *externalCluster) removeLeases(ctx context.Context) error {
	leases := coordinationv1.SchemeGroupVersion.WithResource("leases")
	var errs []error
	for key, uid := range g.created.inResource(leases.GroupResource()) {
		name := key[strings.LastIndexByte(key, '/')+1:]
		err := g.client.Resource(leases).Namespace(namespaceOf(key)).Delete(ctx, name, metav1.DeleteOptions{Preconditions: uidPrecondition(uid)})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			errs = append(errs, fmt.Errorf("delete lease %s/%s: %w", namespaceOf(key), name, err))
			continue
		}
		g.created.forget(key)
	}
	return errors.Join(errs...)
}

// forget drops what is last known by a key.
func (c *created) forget(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.last, key)
}

func keyOfObject(o history.Object) string {
	return keyOf(schema.ParseGroupResource(o.Resource), o.Namespace, o.Name)
}

// noObject is the UID of no object.
const noUID = types.UID("not-created-by-the-rehearsal")

// permit decides on a delete of a client or the user. Outside of the scenario's namespaces it may act
// only on what the rehearsal has created: what is deleted with another object, and
// its UID, cannot be restored.
func (g *externalCluster) permit(c *wire.Call) proxy.Permit {
	if c.Resource == "" || c.Subresource != "" || c.Namespace != "" && g.namespaces[c.Namespace] {
		return proxy.Permit{}
	}
	resource := schema.ParseGroupResource(c.Resource)
	if c.Verb == "deletecollection" {
		return proxy.Permit{Denied: apierrors.NewForbidden(resource, "", fmt.Errorf(
			"in a cluster that is not its own a rehearsal may delete only what it created, one object at a time, outside of the scenario's namespaces"))}
	}
	key := keyOfObject(c.Object)
	if uid := g.created.uidOf(key); uid != "" {
		return proxy.Permit{Only: uid}
	}
	p := proxy.Permit{Denied: apierrors.NewForbidden(resource, c.Name, fmt.Errorf(
		"the rehearsal did not create it, and %s; delete only what the scenario or its clients create, or rehearse in a cluster of its own (without --kubeconfig and --context)", lostByDelete(c.Resource)))}
	if !g.mirror.has(key) {
		p.Only = noUID // most likely it does not exist: the API knows
	}
	return p
}

// lost says what of a deleted object cannot be restored.
func lostByDelete(resource string) string {
	switch resource {
	case "namespaces":
		return "every object in it would be deleted with it"
	case "customresourcedefinitions.apiextensions.k8s.io":
		return "every object of its kind would be deleted with it"
	case "persistentvolumes", "persistentvolumeclaims":
		return "its data would be deleted with it"
	case "nodes":
		return "its pods would be deleted with it"
	}
	return "what it owns would be deleted with it"
}

// owns tells whether an object was created by the rehearsal, or is controlled by one that was, in
// the scenario's namespaces.
func (g *externalCluster) owns(ctx context.Context, o history.Object) bool {
	if o.UID == "" {
		return false
	}
	if g.created.has(types.UID(o.UID)) {
		return true
	}
	gvr, namespaced, err := served(g.harness.mapper, o.Resource)
	if err != nil || !namespaced || !g.namespaces[o.Namespace] {
		return false
	}
	is, err := resourceIn(g.client, gvr, true, o.Namespace).Get(ctx, o.Name, metav1.GetOptions{})
	if err != nil || string(is.GetUID()) != o.UID {
		return false
	}
	const deepest = 5 // Deployment, ReplicaSet, pod, and what a pod may own
	for range deepest {
		owner := metav1.GetControllerOf(is)
		switch {
		case owner == nil:
			return false
		case g.created.has(owner.UID):
			return true
		}
		of := &unstructured.Unstructured{}
		of.SetAPIVersion(owner.APIVersion)
		of.SetKind(owner.Kind)
		of.SetNamespace(o.Namespace)
		to, err := resourceFor(g.client, g.harness.mapper, of)
		if err != nil {
			return false
		}
		if is, err = to.Get(ctx, owner.Name, metav1.GetOptions{}); err != nil || is.GetUID() != owner.UID {
			return false
		}
	}
	return false
}
