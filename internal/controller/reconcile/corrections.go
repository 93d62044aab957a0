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

// Corrections are the objects that the watch cache of an API server shows wrong, as reads by name have shown them.
// A cache of ours that is filled again from that server is wrong again; so what it gets is corrected on the way in,
// until the server shows something newer. The zero value corrects nothing.
type Corrections struct {
	mu  sync.Mutex
	all map[types.UID]*Departed
}

// Note keeps what an audit has found, if the API server is wrong; it returns whether it is.
func (c *Corrections) Note(err error) bool {
	var d *Departed
	if !errors.As(err, &d) || !d.Server {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all == nil {
		c.all = map[types.UID]*Departed{}
	}
	c.all[d.UID] = d
	return true
}

// Transform is next, and corrects what that returns. An object that is gone becomes one of the same name without
// UID, labels, owners and finalizers, because a transform cannot drop it: it is no owner's, and not that object.
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
			// The server shows something newer. It is taken as it is, even if it is older than the
			// read: the store takes the revision of an event for its own.
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
