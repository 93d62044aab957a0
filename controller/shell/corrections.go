package shell

import (
	"errors"
	"reflect"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/rehearse-k8s/rehearse/workload"
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
		case d == nil:
			return obj, nil
		case d.Object != nil && workload.Older(o.GetResourceVersion(), d.Object.GetResourceVersion()):
			return d.Object, nil
		case d.Object == nil && !workload.Older(d.Cached, o.GetResourceVersion()):
			gone := reflect.New(reflect.TypeOf(obj).Elem()).Interface().(metav1.Object)
			gone.SetNamespace(o.GetNamespace())
			gone.SetName(o.GetName())
			gone.SetResourceVersion(o.GetResourceVersion())
			return gone, nil
		}
		delete(c.all, o.GetUID()) // the server shows something newer
		return obj, nil
	}
}
