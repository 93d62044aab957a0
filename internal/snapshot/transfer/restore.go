package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/rehearse-k8s/rehearse/internal/snapshot"
)

// Manager is the field manager of what Restore writes. It identifies the objects that an interrupted restore created.
const Manager = "rehearse-snapshot"

// Policy says what Restore does with an object that exists in the cluster.
type Policy string

// The policies.
const (
	// Skip leaves existing objects unchanged. It completes those that an interrupted restore created.
	Skip Policy = "skip"
	// Update replaces existing objects by those of the snapshot.
	Update Policy = "update"
	// Fail writes nothing if an object of the snapshot exists, except for those that every cluster has. To complete an interrupted
	// restore, use Skip.
	Fail Policy = "fail"
)

// maxFailures is the number of failures that a result describes.
const maxFailures = 20

// RestoreOptions are the options of Restore.
type RestoreOptions struct {
	Selection
	IfExists Policy // default Skip
	Parallel int    // number of concurrent requests; default 16
	// NodeAnnotations are added to each node, such as the one by which the stage engine selects the nodes that it simulates.
	NodeAnnotations map[string]string
	// Progress, if set, is called after each object, from several goroutines.
	Progress func(done, total int)
	// Warn is called for each difference between the snapshot and what is created. Required.
	Warn func(format string, args ...any)
}

// RestoreResult counts the objects of a snapshot by what Restore did with them.
type RestoreResult struct {
	Header     snapshot.Header
	Total      int  // objects to restore
	LeftOut    int  // objects of the file that no restore can use
	Unselected int  // objects of the file that are not selected
	NoEnd      bool // the file does not mark its end, so objects may be missing
	Changes    int  // of a recording, which Restore ignores
	Created    int
	Existed    int // skipped
	Updated    int
	Failed     int
	Failures   []string // descriptions of at most the first 20
}

// Done is the number of objects that are as the options require.
func (r RestoreResult) Done() int { return r.Created + r.Existed + r.Updated }

// restorer is one call of Restore.
type restorer struct {
	clients
	protobuf *protobufClient
	RestoreOptions

	objects *spool                       // of the whole snapshot
	changes *spool                       // of a recording, to replay; nil: changes are ignored
	leftOut []*unstructured.Unstructured // the kinds and names of the objects of a recording that are left out
	finally func(context.Context) error  // if set, called when all objects are restored
	// replaying reports whether the objects are those that changes of a recording create.
	replaying bool
	// references are objects that contain the UID of an object which was created after them, as {object: ..., spec: BOOL};
	// spec says whether the UID is outside of the status.
	references *spool

	kindsMu sync.RWMutex
	kinds   map[schema.GroupVersionKind]resource

	mu          sync.Mutex
	definitions []schema.GroupVersionKind // that the API server does not serve yet, perhaps
	result      RestoreResult
	uids        map[string]uid // by saved UID
	terminating []deletion     // in the order of their creation
	orphans     int            // objects created without an owner, and the first of them
	orphan      string

	progress atomic.Int64
}

// uid is what is known of a saved UID: nothing but its existence, the UID of the created object, that it could not be created, or that
// it is not to be created.
type uid struct {
	created            string
	failed, unselected bool
}

// Restore creates the objects of a snapshot. It reads the snapshot completely before the first write: if the error is a
// *snapshot.FormatError, the cluster is unchanged. If the context ends, Restore finishes the objects that it has begun. The
// result says what was done, also in case of an error; objects that failed are no error.
func Restore(ctx context.Context, config *rest.Config, in io.Reader, o RestoreOptions) (RestoreResult, error) {
	if o.IfExists == "" {
		o.IfExists = Skip
	}
	if o.Parallel <= 0 {
		o.Parallel = 16
	}
	r := &restorer{RestoreOptions: o, uids: map[string]uid{}}
	err := r.run(ctx, config, in)
	return r.result, err
}

func (r *restorer) run(ctx context.Context, config *rest.Config, in io.Reader) (err error) {
	for _, s := range []**spool{&r.objects, &r.references} {
		if *s, err = newSpool(); err != nil {
			return err
		}
		defer (*s).close()
	}
	warned := rest.CopyConfig(config)
	warned.WarningHandlerWithContext = &unknownFields{warn: r.Warn}
	if r.clients, err = connect(ctx, warned); err != nil {
		return err
	}
	if r.protobuf, err = newProtobufClient(config); err != nil {
		return err
	}
	if err := r.read(ctx, in); err != nil {
		return err
	}
	if err := r.refresh(); err != nil {
		return err
	}
	if r.IfExists == Fail {
		if err := r.rejectExisting(ctx); err != nil {
			return err
		}
	}
	if err := r.rounds(ctx); err != nil {
		return err
	}
	if r.orphans > 0 {
		unselected := ""
		if r.result.Unselected > 0 {
			unselected = " or that is not selected"
		}
		r.Warn("%d objects were created without a reference to an owner that the snapshot does not contain%s, first %s", r.orphans, unselected, r.orphan)
	}
	if err := r.completeReferences(ctx); err != nil {
		return err
	}
	if err := r.deleteTerminating(ctx); err != nil || r.finally == nil {
		return err
	}
	return r.finally(ctx)
}

// read checks the whole snapshot and copies its objects to a temporary file.
func (r *restorer) read(ctx context.Context, in io.Reader) error {
	file, err := snapshot.NewReader(in)
	if err != nil {
		return err
	}
	r.result.Header = file.Header()
	var served []resource
	if len(r.Only) > 0 {
		if served, err = r.served(func(string, ...any) {}); err != nil {
			return err
		}
	}
	selected, err := r.selector(served)
	if err != nil {
		return err
	}
	all := r.objects
	if !selected.everything() {
		if all, err = newSpool(); err != nil {
			return err
		}
		defer all.close()
	}
	start := time.Now()
	for {
		obj, err := file.Next()
		if errors.Is(err, io.EOF) {
			if err := r.readChanges(ctx, file); err != nil {
				return err
			}
			r.result.NoEnd = file.IsKWOK()
			return r.choose(all, selected)
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		if snapshot.LeaveOut(obj) != "" {
			if r.result.LeftOut++; r.changes != nil {
				r.leftOut = append(r.leftOut, identity(obj))
			}
			continue
		}
		if id := string(obj.GetUID()); id != "" {
			r.uids[id] = uid{}
		}
		r.result.Total++
		if file.IsKWOK() {
			snapshot.ResolveTimes(obj.Object, start)
		}
		selected.observe(obj)
		if err := all.add(obj.Object); err != nil {
			return err
		}
	}
}

// choose copies the selected objects of a file that has been read, after the definitions of all kinds are known.
func (r *restorer) choose(all *spool, selected *selector) error {
	if all == r.objects {
		return nil
	}
	r.result.Total = 0
	err := all.each(func(obj *unstructured.Unstructured) error {
		if selected.selects(obj) {
			r.result.Total++
			return r.objects.add(obj.Object)
		}
		r.result.Unselected++
		if id := string(obj.GetUID()); id != "" {
			r.uids[id] = uid{unselected: true}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return selected.unknown()
}

// readChanges checks the changes of a recording, and copies them to a temporary file if they are to be replayed.
func (r *restorer) readChanges(ctx context.Context, file *snapshot.Reader) error {
	for {
		c, err := file.NextChange()
		if errors.Is(err, io.EOF) {
			r.result.Changes = file.Changes()
			return nil
		}
		if err == nil {
			err = ctx.Err()
		}
		if err == nil && r.changes != nil {
			err = r.addChange(c, file.IsKWOK())
		}
		if err != nil {
			return err
		}
	}
}

// refresh reads which kinds the API server serves.
func (r *restorer) refresh() error {
	all, err := r.served(func(string, ...any) {}) // a kind that is missing fails with its objects
	if err != nil {
		return err
	}
	kinds := map[schema.GroupVersionKind]resource{}
	for _, k := range all {
		kinds[k.gvk()] = k
	}
	r.kindsMu.Lock()
	defer r.kindsMu.Unlock()
	r.kinds = kinds
	return nil
}

// kind returns a kind that the API server serves.
func (r *restorer) kind(k schema.GroupVersionKind) (resource, bool) {
	r.kindsMu.RLock()
	defer r.kindsMu.RUnlock()
	out, ok := r.kinds[k]
	return out, ok
}

// rounds restores all objects, and those that failed again, as long as that succeeds for at least one.
func (r *restorer) rounds(ctx context.Context) error {
	input := r.objects
	for final := false; ; {
		failed, err := newSpool()
		if err != nil {
			return err
		}
		defer failed.close() // few: a round per level of owners
		before := r.result.Done()
		err = r.round(ctx, input, failed, final)
		if input != r.objects {
			input.close()
		}
		if err != nil || failed.n == 0 {
			return err
		}
		final = r.result.Done() == before
		input = failed
	}
}

// round restores the objects of a file in its order, those of one kind in parallel. Objects that fail are added to failed; in the
// final round they are reported. A connection that failed ends it at once: each further object may wait long for a server that does not answer.
func (r *restorer) round(ctx context.Context, in, failed *spool, final bool) error {
	var current schema.GroupVersionKind
	work, working := r.workers(ctx)
	err := in.each(func(obj *unstructured.Unstructured) error {
		if working.Err() != nil {
			return context.Cause(working)
		}
		if k := obj.GroupVersionKind(); k != current {
			if err := work.Wait(); err != nil {
				return err
			}
			if err := r.awaitDefinitions(ctx); err != nil {
				return err
			}
			current = k
			work, working = r.workers(ctx)
		}
		work.Go(func() error { return r.attempt(ctx, obj, failed, final) })
		return nil
	})
	if e := work.Wait(); err == nil {
		err = e
	}
	if err == nil {
		err = r.awaitDefinitions(ctx)
	}
	return err
}

// workers returns a group of goroutines, and a context that ends with the first error of one.
func (r *restorer) workers(ctx context.Context) (*errgroup.Group, context.Context) {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(r.Parallel)
	return g, ctx
}

// errLater reports that an object has to wait for another one.
type errLater struct{ reason string }

func (e *errLater) Error() string { return e.reason }

// attempt restores one object. It returns an error only if that ends the restore.
func (r *restorer) attempt(ctx context.Context, saved *unstructured.Unstructured, failed *spool, final bool) error {
	// An object that was begun is finished, also after an interrupt.
	err := r.object(withObject(context.WithoutCancel(ctx), saved), saved)
	var later *errLater
	switch {
	case err == nil:
	case !isAnswer(err) && !errors.As(err, &later):
		return fmt.Errorf("%s: %w", describe(saved), err)
	case !final:
		return failed.add(saved.Object)
	default:
		r.fail(saved, err)
	}
	done := int(r.progress.Add(1))
	if r.Progress != nil {
		r.Progress(done, r.result.Total)
	}
	return nil
}

// fail counts an object that could not be restored.
func (r *restorer) fail(saved *unstructured.Unstructured, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if id := string(saved.GetUID()); id != "" && r.uids[id].created == "" {
		r.uids[id] = uid{failed: true}
	}
	r.result.Failed++
	if len(r.result.Failures) < maxFailures {
		r.result.Failures = append(r.result.Failures, fmt.Sprintf("%s: %s", describe(saved), strings.ReplaceAll(err.Error(), "\n", " ")))
	}
}

// lookup implements snapshot.Lookup.
func (r *restorer) lookup(id string) (string, snapshot.State) {
	r.mu.Lock()
	defer r.mu.Unlock()
	u, ok := r.uids[id]
	switch {
	case !ok:
		return "", snapshot.Unknown
	case u.created != "":
		return u.created, snapshot.Created
	case u.failed:
		return "", snapshot.Failed
	case u.unselected:
		return "", snapshot.Unselected
	}
	return "", snapshot.Pending
}

// identity returns the kind and the name of an object.
func identity(obj *unstructured.Unstructured) *unstructured.Unstructured {
	out := &unstructured.Unstructured{}
	out.SetGroupVersionKind(obj.GroupVersionKind())
	out.SetNamespace(obj.GetNamespace())
	out.SetName(obj.GetName())
	return out
}

// describe names an object as "KIND NAMESPACE/NAME".
func describe(obj *unstructured.Unstructured) string {
	name := obj.GetName()
	if n := obj.GetNamespace(); n != "" {
		name = n + "/" + name
	}
	return obj.GetKind() + " " + name
}
