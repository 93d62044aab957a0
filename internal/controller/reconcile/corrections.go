package reconcile

import (
	"errors"
	"reflect"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/rehearse-k8s/rehearse/internal/workload"
)

// Corrections are the objects that are wrong in the watch cache of an API server, as reads by name returned
// them. An informer that lists again from that server is wrong again, so Transform replaces these objects
// before they are stored, until the server returns something newer. The zero value corrects nothing.
type Corrections struct {
	mu  sync.Mutex
	all map[types.UID]*Divergence
}

// Note adds what an audit has found, if the API server's watch cache is wrong, and returns whether it is.
func (c *Corrections) Note(err error) bool {
	var d *Divergence
	if !errors.As(err, &d) || !d.Server {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all == nil {
		c.all = map[types.UID]*Divergence{}
	}
	c.all[d.UID] = d
	return true
}

// Transform returns a function that calls next and corrects its result. An object that does not exist any
// more is replaced by an empty object with its name, because a transform cannot drop it: without UID, labels,
// owner references and finalizers, no controller takes it for the object that it was.
func (c *Corrections) Transform(next cache.TransformFunc) cache.TransformFunc {
	return func(obj any) (any, error) {
		obj, err := next(obj)
		o, ok := obj.(metav1.Object)
		if err != nil || !ok {
			return obj, err
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		d := c.all[o.GetUID()]
		switch {
		case d == nil, obj == any(d.Object): // client-go may transform an object twice
			return obj, nil
		case workload.Older(d.Cached, o.GetResourceVersion()):
			// The server returns something newer. It is stored unchanged even if it is older than the read,
			// because the revision of an event becomes the revision of the store.
			delete(c.all, o.GetUID())
			return obj, nil
		case d.Object != nil:
			return d.Object, nil
		default:
			gone := reflect.New(reflect.TypeOf(obj).Elem()).Interface().(metav1.Object)
			gone.SetNamespace(o.GetNamespace())
			gone.SetName(o.GetName())
			gone.SetResourceVersion(o.GetResourceVersion())
			return gone, nil
		}
	}
}
