package rehearsal

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/proxy"
	"github.com/rehearse-k8s/rehearse/internal/wire"
)

// environment is where runs take place: forks of a world in this process, or an external cluster.
type environment interface {
	// config is a client of what all runs begin with.
	config(actor string) *rest.Config
	// before comes before the objects of the beginning are made, after comes after.
	setUp(ctx context.Context) error
	captureInitial(ctx context.Context) error
	// make makes an object of the beginning.
	createInitial(ctx context.Context, to dynamic.ResourceInterface, o *unstructured.Unstructured) error
	// enter makes everything as it was at the beginning, for a run.
	newWorld(ctx context.Context, run string, seed uint64) (*runWorld, error)
	// close ends it all, when no run is under way.
	close() error
}

// place is the world of one run.
type runWorld struct {
	// config is a client of it.
	config func(actor string) *rest.Config
	source source
	// apart tells keys of objects that are not the run's, and that faults leave alone; nil: there
	// are none.
	excluded func(key string) bool
	// others tells keys of objects that are not to be recorded and do not count: those that are apart, and
	// what others have created in no namespace; nil: there are none.
	unrecorded func(key string) bool
	// catchUp waits until the source has told of what a client has been told already, up to
	// a revision; nil: it always has.
	catchUp func(ctx context.Context, revision int64)
	// leave forgets the world, of which a record tells what was done to it; writes are what clients and
	// users wrote, by key.
	drop func(record *history.Run, writes map[string][]write)
	// permit decides on deletes, owns tells objects on which faults may act, and created is called
	// for what clients and users create; nil: everything is the run's.
	permit  func(c *wire.Call) proxy.Permit
	owns    func(ctx context.Context, o history.Object) bool
	created func(o history.Object)
	// pki is a directory with the keys of the API server; "" if they are not known.
	pki string
}
