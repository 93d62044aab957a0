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

// created records the objects that a harness created in an external cluster: by its clients, by its user, and
// as initial objects.
type created struct {
	mu   sync.Mutex
	uids map[types.UID]bool
	last map[string]types.UID // by key
}

func newCreated() *created {
	return &created{uids: map[types.UID]bool{}, last: map[string]types.UID{}}
}

// add records an object under its key.
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

// uidOf returns the UID of the object that was created last under a key, or "".
func (c *created) uidOf(key string) types.UID {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last[key]
}

// inResource returns the created objects of a resource, by key.
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

// removeLeases deletes the leases that clients have created. The mirror does not follow leases, and a
// remaining lease makes the next process wait until it expires.
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

// forget removes the record of a key.
func (c *created) forget(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.last, key)
}

func keyOfObject(o history.Object) string {
	return keyOf(schema.ParseGroupResource(o.Resource), o.Namespace, o.Name)
}

// noUID is a UID that no object has.
const noUID = types.UID("not-created-by-the-rehearsal")

// permit decides whether a client or the user may delete an object. Outside of the scenario's namespaces they
// may delete only what the harness created, because its UID and its dependents cannot be restored.
func (g *externalCluster) permit(c *wire.Call) proxy.Permit {
	if c.Resource == "" || c.Subresource != "" || c.Namespace != "" && g.namespaces[c.Namespace] {
		return proxy.Permit{}
	}
	resource := schema.ParseGroupResource(c.Resource)
	if c.Verb == "deletecollection" {
		return proxy.Permit{Denied: apierrors.NewForbidden(resource, "", fmt.Errorf(
			"in an external cluster, outside of the scenario's namespaces, a rehearsal may delete only objects that it created, one at a time"))}
	}
	key := keyOfObject(c.Object)
	if uid := g.created.uidOf(key); uid != "" {
		return proxy.Permit{Only: uid}
	}
	p := proxy.Permit{Denied: apierrors.NewForbidden(resource, c.Name, fmt.Errorf(
		"the rehearsal did not create it, and %s; delete only what the scenario or its clients create, or use the in-process cluster (without --kubeconfig and --context)", lostByDelete(c.Resource)))}
	if !g.mirror.has(key) {
		p.Only = noUID // the object probably does not exist: the API server decides
	}
	return p
}

// lostByDelete says what cannot be restored after an object was deleted.
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

// owns reports whether the harness created an object, or an object that controls it, in the scenario's
// namespaces.
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
	const deepest = 5 // Deployment, ReplicaSet, pod, and dependents of the pod
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
