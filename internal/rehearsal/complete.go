package rehearsal

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/rehearse-k8s/rehearse/history"
)

// completeTimeout is how long complete waits for the watches of a cluster. A watch of an overloaded API server can be
// some seconds late.
const completeTimeout = 30 * time.Second

// complete waits until changes returns every write up to now. A watch shows only from time to time that it has delivered all
// writes, so the mirror lists each resource, and waits until its watch has delivered what the list contains. It cannot
// notice that it misses an object that was created and deleted in the meantime.
func (m *mirror) complete(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, completeTimeout, fmt.Errorf("waited for %s", completeTimeout))
	defer cancel()
	m.mu.Lock()
	clients := maps.Clone(m.clients)
	m.mu.Unlock()
	for _, resource := range slices.SortedFunc(maps.Keys(clients), byName) {
		list, err := listAll(ctx, clients[resource])
		if isGone(err) {
			continue
		}
		if err == nil {
			err = m.awaitList(ctx, resource, list)
		}
		if err != nil {
			return fmt.Errorf("the writes of %s are not all known: %w", resource, err)
		}
	}
	select {
	case <-time.After(orderDelay):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// isGone reports whether a resource is not served any more: its definition was deleted, or its API server does not run.
func isGone(err error) bool {
	return apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) || apierrors.IsServiceUnavailable(err)
}

func byName(a, b schema.GroupResource) int { return strings.Compare(a.String(), b.String()) }

// awaitList waits until the watch of a resource has delivered the writes and the deletes that a list shows.
func (m *mirror) awaitList(ctx context.Context, resource schema.GroupResource, list *unstructured.UnstructuredList) error {
	for {
		m.mu.Lock()
		missing, moved, err := m.missing(resource, list), m.changed, m.err
		m.mu.Unlock()
		if missing == "" || err != nil {
			return err
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return fmt.Errorf("its watch has not delivered %s (%w)", missing, context.Cause(ctx))
		}
	}
}

// missing returns a write that a list shows and the watch of the resource has not delivered, or "". A watch delivers the
// writes of its resource in their order, so the newest one is enough. The caller holds the lock.
func (m *mirror) missing(resource schema.GroupResource, list *unstructured.UnstructuredList) string {
	listed := map[string]bool{}
	for i := range list.Items {
		o := &list.Items[i]
		listed[keyOf(resource, o.GetNamespace(), o.GetName())] = true
		if revision, err := strconv.ParseInt(o.GetResourceVersion(), 10, 64); err == nil && revision > m.newest[resource] {
			return fmt.Sprintf("the write of %s at revision %d", o.GetName(), revision)
		}
	}
	at, err := strconv.ParseInt(list.GetResourceVersion(), 10, 64)
	if err != nil {
		return "" // an aggregated API whose lists have no revision
	}
	directory := directoryOf(resource)
	for key, o := range m.objects {
		if strings.HasPrefix(key, directory) && !listed[key] && o.ModRevision <= at {
			return "the delete of " + strings.TrimPrefix(key, directory)
		}
	}
	return ""
}

// suspect gives the run its verdict for a violation that the monitor has found. In a cluster, the violation counts only if
// it is still there when every write until now is known: if the status of a Job arrives before the pod that it
// counts, no invariant is violated. The caller holds the lock.
func (j *monitor) suspect(f *history.Failure) {
	if j.run.world.complete == nil {
		j.fail(f.Oracle, f.Message)
		return
	}
	j.confirming = true
	j.run.watchers.Go(func() {
		err := j.run.world.complete(j.run.ctx)
		j.mu.Lock()
		defer j.mu.Unlock()
		j.confirming = false
		if err != nil {
			j.nextCheck = j.run.elapsed() + completeTimeout // the end of the run waits for the writes again
		}
		if err != nil || j.failure != nil {
			return
		}
		j.takeWrites(j.run.elapsed())
		if x := j.evaluate(false); x.failure != nil {
			j.fail(x.failure.Oracle, x.failure.Message)
		}
	})
}

// finalVerdict returns the evaluation of the whole run and its failure, or why it is not known whether the run has failed. A
// violation that was not confirmed during the run is confirmed now. ctx is that of the run's caller: r.ctx is done. The
// caller holds the lock.
func (j *monitor) finalVerdict(ctx context.Context) (x *evaluation, failure *history.Failure, unknown error) {
	x = j.evaluate(true)
	failure = firstFailure(j.run.harness.policy, x, j.failure)
	complete := j.run.world.complete
	if complete == nil || failure == nil || j.failure != nil && x.failure == nil {
		return x, failure, j.unknown
	}
	j.mu.Unlock()
	err := complete(ctx)
	j.mu.Lock()
	if err != nil {
		return x, j.failure, cmp.Or(err, j.unknown)
	}
	j.takeWrites(j.run.elapsed())
	x = j.evaluate(true)
	return x, firstFailure(j.run.harness.policy, x, j.failure), j.unknown
}
