package stages

import (
	"context"
	"errors"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"

	"github.com/rehearse-k8s/rehearse/internal/controller/reconcile"
	"github.com/rehearse-k8s/rehearse/stage"
)

var (
	nodesResource = corev1.SchemeGroupVersion.WithResource("nodes")
	podsResource  = corev1.SchemeGroupVersion.WithResource("pods")
)

// audits are the kinds that an engine watches, for its audit.
type audits struct {
	client metadata.Interface

	mu    sync.Mutex
	kinds map[schema.GroupVersionResource]auditedKind
}

type auditedKind struct {
	kind    stage.Kind
	audited reconcile.Audited
}

// audited adds a watched kind to the audit until end is called.
func (e *StageEngine) audited(kind stage.Kind, at place, w watching, fields string) (end func()) {
	a := e.audits
	a.mu.Lock()
	defer a.mu.Unlock()
	a.kinds[at.resource] = auditedKind{kind, reconcile.Audited{Resource: at.resource, Fields: fields, Informer: w.informer, Concerns: reconcile.All}}
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.kinds, at.resource)
	}
}

// audit compares the watched kinds with the API until ctx ends, or until the API turns out to be restored from
// a backup.
func (e *StageEngine) audit(ctx context.Context) error {
	kinds := func() (all []reconcile.Audited) {
		e.audits.mu.Lock()
		defer e.audits.mu.Unlock()
		for _, k := range e.audits.kinds {
			if k.audited.Informer.HasSynced() {
				all = append(all, k.audited)
			}
		}
		return all
	}
	return reconcile.Audit(ctx, e.options.Audit, e.audits.client, kinds, func(d *reconcile.Divergence) error { return e.reread(ctx, d) })
}

// reread reads an object live that the audit found wrong. The table stores the result of the read, whatever the
// informer shows afterwards.
func (e *StageEngine) reread(ctx context.Context, d *reconcile.Divergence) error {
	if d.Name == "" {
		return d
	}
	e.audits.mu.Lock()
	kind := e.audits.kinds[d.Resource].kind
	e.audits.mu.Unlock()
	e.options.Logger.Warn("the engine missed an event, the object is read again", "error", d)
	e.options.Metrics.foundWrong()
	key := objectKey{kind: kind, namespace: d.Namespace, name: d.Name}
	if d.Cached != "" {
		e.table.requestRead(e.options.Clock.Now(), key)
		return nil
	}
	live, err := e.readLive(ctx, key)
	switch {
	case err == nil:
		e.table.observe(e.options.Clock.Now(), live, false)
	case !apierrors.IsNotFound(err):
		e.options.Logger.Debug("object not read, the next audit tries again", "object", key.String(), "error", err)
	}
	return nil
}

// ended returns the error of an engine whose context has ended: nil, unless its audit ended it.
func (e *StageEngine) ended(ctx context.Context) error {
	if cause := context.Cause(ctx); errors.Is(cause, reconcile.ErrDiverged) {
		return fmt.Errorf("stage engine: %w", cause)
	}
	return nil
}
