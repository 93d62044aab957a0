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

// environment is where runs take place: forked worlds in this process, or an external cluster.
type environment interface {
	// config returns a client configuration for the world that every run begins with.
	config(actor string) *rest.Config
	// setUp is called before the initial objects are created, captureInitial after that.
	setUp(ctx context.Context) error
	captureInitial(ctx context.Context) error
	// createInitial creates an initial object.
	createInitial(ctx context.Context, to dynamic.ResourceInterface, o *unstructured.Unstructured) error
	// newWorld returns the world of a run, in the initial state.
	newWorld(ctx context.Context, run string, seed uint64) (*runWorld, error)
	// close releases the environment. No run may be in progress.
	close() error
}

// runWorld is the world of one run.
type runWorld struct {
	// config returns a client configuration for the world.
	config func(actor string) *rest.Config
	source source
	// excluded reports keys of objects that do not belong to the run, and that faults do not change. nil:
	// there are no such objects.
	excluded func(key string) bool
	// unrecorded reports keys of objects that are neither recorded nor counted: the excluded ones, and
	// cluster-scoped objects that others created. nil: there are no such objects.
	unrecorded func(key string) bool
	// catchUp waits until the source has returned every write up to a revision that a client has observed.
	// nil: the source is never behind.
	catchUp func(ctx context.Context, revision int64)
	// complete waits until the source has returned every write up to now. nil: the source is never behind.
	complete func(ctx context.Context) error
	// aggregated reports keys of objects that another API server stores: their revisions say nothing about the order of their
	// writes and those of others. nil: there are no such objects.
	aggregated func(key string) bool
	// drop discards the world. record holds the requests of the run, writes what clients and users wrote, by
	// key.
	drop func(record *history.Run, writes map[string][]write)
	// permit decides on deletes, owns reports the objects that faults may change, and created is called for
	// each object that a client or the user creates. nil: every object belongs to the run.
	permit  func(c *wire.Call) proxy.Permit
	owns    func(ctx context.Context, o history.Object) bool
	created func(o history.Object)
	// pki is a directory with the keys of the API server, or "" if the harness does not have them.
	pki string
}
