package transfer

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/rehearse-k8s/rehearse/internal/snapshot"
)

const (
	// reorderWindow is how long an event waits for events of other kinds with lower revisions, whose watches are slower.
	reorderWindow = time.Second
	// openLimit is how long the changes of other kinds wait for a watch that the API server does not answer.
	openLimit = 15 * time.Second
	// writeInterval is the time between two writes of changes.
	writeInterval = 50 * time.Millisecond
)

// RecordOptions are the options of Record.
type RecordOptions struct {
	SaveOptions
	For time.Duration // after which the recording is complete; 0: when the context ends
	// Started, if set, is called when the objects are written, with their number. Each later change is recorded.
	Started func(objects int)
	// Recorded, if set, is called after each change and at short intervals, with the number of changes and the last one.
	Recorded func(changes int, last snapshot.Change)
}

// RecordResult counts what Record wrote.
type RecordResult struct {
	SaveResult
	Changes int
	Started bool // the objects are complete; an error before that leaves no recording
}

// source is one watch: the objects of one kind that one list request returned.
type source struct {
	resource
	client    dynamic.ResourceInterface
	selection metav1.ListOptions // labels and fields
	revision  string             // of the list, or of the last event
	objects   map[types.NamespacedName]version
	opened    bool // the first request of the watch has been answered
}

// version is the newest recorded version of an object.
type version struct {
	uid     types.UID
	json    []byte
	managed map[writer]int // the length of each writer's fields
}

// event is an event of a watch, or a list after a watch expired.
type event struct {
	source   *source
	revision uint64
	arrived  time.Time
	deleted  bool
	object   *unstructured.Unstructured
	list     map[types.NamespacedName]*unstructured.Unstructured // if object is nil
}

// recorder is one call of Record.
type recorder struct {
	*saver
	RecordOptions
	sources []*source
	start   time.Time
	last    snapshot.Change
	begun   bool // changes are written

	mu      sync.Mutex // also for source.opened
	pending []event
}

// Record writes a recording: the selected objects of a cluster, and then their changes until the context ends or o.For is over. No
// change between a list and its watch is missed. If the context ends before all objects are written, the error is that of the
// context; if the error is not nil, the output is incomplete.
//
// Changes of all kinds are written in the order of their revisions, as far as the events arrive within a second after all watches have begun, or
// 15 seconds after the start.
// Memory grows with the size of the objects, which are required to compute patches.
func Record(ctx context.Context, config *rest.Config, w io.Writer, format snapshot.Format, compressed bool, o RecordOptions) (RecordResult, error) {
	o.Header.Recording = true
	r := &recorder{saver: &saver{SaveOptions: o.SaveOptions}, RecordOptions: o}
	objects := map[types.NamespacedName]version{} // of the current list
	r.saver.saved = func(obj *unstructured.Unstructured, managed []metav1.ManagedFieldsEntry) {
		data, _ := obj.MarshalJSON() // it has been decoded from JSON
		objects[nameOf(obj)] = version{obj.GetUID(), data, fieldLengths(managed)}
	}
	r.saver.listed = func(k resource, client dynamic.ResourceInterface, selection metav1.ListOptions, revision string) {
		if !k.watchable {
			o.Warn("changes of %s are not recorded, because the kind cannot be watched", k.GroupResource())
		} else {
			r.sources = append(r.sources, &source{resource: k, client: client, selection: selection, revision: revision, objects: objects})
		}
		objects = map[types.NamespacedName]version{}
	}
	err := r.save(ctx, config, w, format, compressed)
	result := RecordResult{SaveResult: r.result}
	if err != nil {
		return result, err
	}
	result.Started = true
	err = r.follow(ctx)
	if err == nil {
		err = r.out.Close()
	}
	result.Changes = r.out.Changes()
	return result, err
}

// follow records changes until the context ends or the time is over.
func (r *recorder) follow(ctx context.Context) error {
	r.start = time.Now()
	if r.Started != nil {
		r.Started(r.out.Objects())
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if r.For > 0 {
		timer := time.AfterFunc(r.For, cancel)
		defer timer.Stop()
	}
	watches := errgroup.Group{}
	for _, s := range r.sources {
		watches.Go(func() error {
			r.watch(ctx, s)
			return nil
		})
	}
	tick := time.NewTicker(writeInterval)
	defer tick.Stop()
	var err error
	for err == nil && ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-tick.C:
			if r.begin(time.Since(r.start)) {
				err = r.write(time.Now().Add(-reorderWindow))
			}
			if r.Recorded != nil {
				r.Recorded(r.out.Changes(), r.last)
			}
		}
	}
	cancel()
	_ = watches.Wait() // they return no error
	if err != nil {
		return err
	}
	return r.write(time.Now())
}

// add queues an event of a source.
func (r *recorder) add(e event) {
	e.arrived = time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pending = append(r.pending, e)
}

// setOpened stores that the API server has answered the watch of a source, also if the answer is an error.
func (r *recorder) setOpened(s *source) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s.opened = true
}

// begin reports whether changes are written, a time after the start. They are not until the API server has answered the watch of each source,
// because a source may still receive events with lower revisions than those of the others; after openLimit, they are, with a warning.
func (r *recorder) begin(after time.Duration) bool {
	if r.begun {
		return true
	}
	var missing []string
	r.mu.Lock()
	for _, s := range r.sources {
		if !s.opened {
			missing = append(missing, s.GroupResource().String())
		}
	}
	r.mu.Unlock()
	r.begun = len(missing) == 0 || after > openLimit
	if r.begun && len(missing) > 0 {
		r.saver.Warn("the API server has not answered the watch of %s for %s: changes of other kinds are recorded without waiting for it", strings.Join(missing, ", "), openLimit)
	}
	return r.begun
}

// write writes the changes of the events that arrived before a time, and of those with lower revisions than theirs.
func (r *recorder) write(before time.Time) error {
	r.mu.Lock()
	due := dueEvents(&r.pending, before)
	r.mu.Unlock()
	for _, e := range due {
		if err := r.event(e); err != nil {
			return err
		}
	}
	return nil
}

// dueEvents removes from a queue the events that arrived before a time, and those with lower revisions, and returns them in the order of their
// revisions.
func dueEvents(queue *[]event, before time.Time) []event {
	newest, found := uint64(0), false
	for _, e := range *queue {
		if !e.arrived.After(before) {
			newest, found = max(newest, e.revision), true
		}
	}
	if !found {
		return nil
	}
	slices.SortStableFunc(*queue, func(a, b event) int { return cmp.Compare(a.revision, b.revision) })
	n, _ := slices.BinarySearchFunc(*queue, newest, func(e event, newest uint64) int {
		if e.revision <= newest {
			return -1
		}
		return 1
	})
	due := (*queue)[:n:n]
	*queue = slices.Clone((*queue)[n:])
	return due
}

// event writes the changes of one event.
func (r *recorder) event(e event) error {
	if e.object != nil {
		return r.object(e, nameOf(e.object), e.object)
	}
	for _, name := range slices.SortedFunc(maps.Keys(e.list), compareNames) {
		if err := r.object(e, name, e.list[name]); err != nil {
			return err
		}
	}
	for _, name := range slices.SortedFunc(maps.Keys(e.source.objects), compareNames) {
		if e.list[name] == nil {
			if err := r.object(e, name, nil); err != nil {
				return err
			}
		}
	}
	return nil
}

// object writes the change from the recorded version of an object to another one, nil for a deleted object.
func (r *recorder) object(e event, name types.NamespacedName, obj *unstructured.Unstructured) error {
	s := e.source
	old, exists := s.objects[name]
	if obj != nil {
		obj.SetGroupVersionKind(s.gvk())
	}
	if e.deleted || obj == nil || snapshot.LeaveOut(obj) != "" {
		if !exists {
			return nil
		}
		delete(s.objects, name)
		return r.change(e, snapshot.Change{Namespace: name.Namespace, Name: name.Name, Method: snapshot.Delete})
	}
	if exists && old.uid != obj.GetUID() { // it was deleted and created again
		delete(s.objects, name)
		if err := r.change(e, snapshot.Change{Namespace: name.Namespace, Name: name.Name, Method: snapshot.Delete}); err != nil {
			return err
		}
		exists = false
	}
	managed := obj.GetManagedFields()
	snapshot.Trim(obj)
	if r.saver.OmitSecretData {
		snapshot.OmitSecretData(obj)
	}
	data, err := obj.MarshalJSON()
	if err != nil {
		return err
	}
	s.objects[name] = version{obj.GetUID(), data, fieldLengths(managed)}
	c := snapshot.Change{Namespace: name.Namespace, Name: name.Name, Method: snapshot.Create, Template: obj.Object}
	if exists {
		c.Method = snapshot.Patch
		if c.Template, err = difference(s.gvk(), old.json, data); err != nil {
			return fmt.Errorf("%s %s: %w", s.kind, name, err)
		}
		if len(c.Template) == 0 {
			return nil // managedFields alone, or data that is omitted
		}
	} else if s.groupKind() == snapshot.CRD {
		r.saver.Warn("the objects of %s, which was defined during the recording, are not recorded", name.Name)
	}
	c.Manager = newestManager(managed, old.managed, c.Template)
	return r.change(e, c)
}

// change writes a change at the time of its event.
func (r *recorder) change(e event, c snapshot.Change) error {
	// The order of the revisions may differ from that of arrival.
	c.After, c.Resource = max(r.last.After, e.arrived.Sub(r.start)), e.source.GroupVersionResource
	r.last = c
	if err := r.out.WriteChange(c); err != nil {
		return err
	}
	if r.Recorded != nil {
		r.Recorded(r.out.Changes(), c)
	}
	return nil
}

func nameOf(obj *unstructured.Unstructured) types.NamespacedName {
	return types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()}
}

func compareNames(a, b types.NamespacedName) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// revisionOf returns the revision of an object or a list as a number, 0 if it is not one.
func revisionOf(revision string) uint64 {
	n, _ := strconv.ParseUint(revision, 10, 64)
	return n
}
