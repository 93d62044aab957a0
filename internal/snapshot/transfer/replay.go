package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/rehearse-k8s/rehearse/internal/snapshot"
)

// maxQueued is the number of changes that may wait for the API server, which limits the memory if it is slower than the recording.
const maxQueued = 4096

// progressInterval is the time between two calls of ReplayOptions.Replaying while no change is due.
const progressInterval = 100 * time.Millisecond

// ReplayOptions are the options of Replay.
type ReplayOptions struct {
	RestoreOptions
	Speed float64 // seconds of the recording per second; 0: 1
	Step  bool    // begin paused
	// Controls, if set, are the commands of the user.
	Controls <-chan snapshot.Control
	// Started, if set, is called after the objects are restored, before the first change.
	Started func(RestoreResult)
	// Replaying, if set, is called after each change was sent or a command was executed, and at short intervals, never concurrently.
	Replaying func(ReplayProgress)
	// Failed, if set, is called for each change that failed, never concurrently.
	Failed func(c snapshot.Change, err error)
}

// ReplayProgress says how far a replay is.
type ReplayProgress struct {
	Sent, Changes int
	Position      time.Duration // of the recording
	Speed         float64
	Paused        bool
}

// ReplayResult counts the changes by what Replay did with them.
type ReplayResult struct {
	Restored RestoreResult // of the objects
	Applied  int
	Absent   int // deletions of objects that did not exist
	LeftOut  int // changes of objects that no restore can use
	Failed   int
	Stopped  bool          // by the command Stop
	Late     time.Duration // the longest time between when a change was due and when it was complete
}

// Done is the number of changes that were processed.
func (r ReplayResult) Done() int { return r.Applied + r.Absent + r.LeftOut + r.Failed }

// objectKey identifies an object of a recording.
type objectKey struct {
	schema.GroupResource
	namespace, name string
}

func keyOf(c snapshot.Change) objectKey {
	return objectKey{c.Resource.GroupResource(), c.Namespace, c.Name}
}

// job is one change that is due.
type job struct {
	snapshot.Change
	due   time.Time
	after []<-chan struct{} // the changes of other objects that it requires
	done  chan struct{}
}

// replayer is one call of Replay, after the objects were restored.
type replayer struct {
	*restorer
	options ReplayOptions
	start   time.Time
	queue   chan struct{} // a token for each job
	slots   chan struct{} // a token for each request
	stop    context.CancelCauseFunc

	// Of the goroutine that sends the changes.
	barrier <-chan struct{}            // the last creation that all later changes wait for
	creates map[string]<-chan struct{} // by the UID of the recording: creations in progress

	mu         sync.Mutex
	lanes      map[objectKey][]*job // changes of an object that are due; present while one is in progress
	generation map[objectKey]*generations
	ignored    map[objectKey]bool // objects that are left out
	result     ReplayResult
	running    sync.WaitGroup
}

var errStopped = errors.New("stopped")

// Replay creates the objects of a recording like Restore, and then applies its changes at their times. The changes of one object are
// applied in their order, those of different objects in parallel. It reads the whole recording before the first write. The result says what
// was done, also in case of an error; changes that failed are no error.
func Replay(ctx context.Context, config *rest.Config, in io.Reader, o ReplayOptions) (ReplayResult, error) {
	if o.IfExists == "" {
		o.IfExists = Skip
	}
	if o.Parallel <= 0 {
		o.Parallel = 16
	}
	if o.Speed == 0 {
		o.Speed = 1
	}
	r := &restorer{RestoreOptions: o.RestoreOptions, uids: map[string]uid{}}
	var err error
	if r.changes, err = newSpool(); err != nil {
		return ReplayResult{}, err
	}
	defer r.changes.close()
	p := &replayer{restorer: r, options: o, lanes: map[objectKey][]*job{}, generation: map[objectKey]*generations{}, ignored: map[objectKey]bool{},
		creates: map[string]<-chan struct{}{}, queue: make(chan struct{}, maxQueued), slots: make(chan struct{}, o.Parallel)}
	r.finally = func(ctx context.Context) error {
		p.result.Restored = r.result
		if o.Started != nil {
			o.Started(r.result)
		}
		return p.replay(ctx)
	}
	if err = r.run(ctx, config, in); p.start.IsZero() {
		p.result.Restored = r.result
	}
	return p.result, err
}

// addChange stores a change of the file, and the UID of the object that it creates.
func (r *restorer) addChange(c snapshot.Change, relative bool) error {
	if c.Method == snapshot.Create {
		if id := string((&unstructured.Unstructured{Object: c.Template}).GetUID()); id != "" {
			r.uids[id] = uid{}
		}
	}
	return r.changes.add(map[string]any{
		"document": int64(c.Document), "relative": relative, "after": int64(c.After), "group": c.Resource.Group, "version": c.Resource.Version, "resource": c.Resource.Resource,
		"namespace": c.Namespace, "name": c.Name, "method": string(c.Method), "template": c.Template,
	})
}

// storedChange reads a change that addChange stored.
func storedChange(doc map[string]any) (c snapshot.Change, relative bool) {
	text := func(key string) string { s, _ := doc[key].(string); return s }
	number := func(key string) int64 { n, _ := doc[key].(int64); return n }
	c = snapshot.Change{
		Document: int(number("document")), After: time.Duration(number("after")), Namespace: text("namespace"), Name: text("name"), Method: snapshot.Method(text("method")),
		Resource: schema.GroupVersionResource{Group: text("group"), Version: text("version"), Resource: text("resource")},
	}
	c.Template, _ = doc["template"].(map[string]any)
	return c, doc["relative"] == true
}

// replay applies all changes.
func (p *replayer) replay(ctx context.Context) error {
	ctx, p.stop = context.WithCancelCause(ctx)
	defer p.stop(nil)
	p.IfExists, p.replaying = Fail, true // an object that exists is not the one of the recording
	if err := p.prepare(); err != nil {
		return err
	}
	p.start = time.Now()
	pacer := snapshot.NewPacer(p.options.Speed, p.options.Step, p.start)
	sent := 0
	progress := func() {
		if p.options.Replaying != nil {
			p.options.Replaying(ReplayProgress{Sent: sent, Changes: p.changes.n, Position: pacer.Position(time.Now()), Speed: pacer.Speed(), Paused: pacer.Paused()})
		}
	}
	err := p.changes.each(func(doc *unstructured.Unstructured) error {
		c, relative := storedChange(doc.Object)
		due, err := p.await(ctx, pacer, c.After, progress)
		if err != nil {
			return err
		}
		if relative {
			snapshot.ResolveTimes(c.Template, p.start)
		}
		select {
		case p.queue <- struct{}{}:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		p.send(ctx, &job{Change: c, due: due, done: make(chan struct{})})
		sent++
		progress()
		return nil
	})
	p.running.Wait()
	if err == nil {
		err = context.Cause(ctx)
	}
	if errors.Is(err, errStopped) {
		p.result.Stopped, err = true, nil
	}
	return err
}

// await waits until a change is due, and returns that time.
func (p *replayer) await(ctx context.Context, pacer *snapshot.Pacer, change time.Duration, progress func()) (time.Time, error) {
	tick := time.NewTicker(progressInterval)
	defer tick.Stop()
	for {
		now := time.Now()
		due, ok := pacer.Due(change, now)
		if ok && !due.After(now) {
			select { // a command before the change
			case c, open := <-p.options.Controls:
				if open && c == snapshot.Stop {
					return due, errStopped
				}
				if open {
					pacer.Control(c, now)
				}
			case <-ctx.Done():
				return due, context.Cause(ctx)
			default:
			}
			return due, nil
		}
		var timer <-chan time.Time
		if ok {
			timer = time.After(due.Sub(now))
		}
		select {
		case <-timer:
		case <-tick.C:
			progress()
		case c, open := <-p.options.Controls:
			if !open || c == snapshot.Stop {
				return due, errStopped
			}
			pacer.Control(c, time.Now())
			progress()
		case <-ctx.Done():
			return due, context.Cause(ctx)
		}
	}
}

// send queues a change behind the earlier ones of its object.
func (p *replayer) send(ctx context.Context, j *job) {
	if p.barrier != nil {
		j.after = append(j.after, p.barrier)
	}
	for _, id := range snapshot.References(j.Template) {
		if created, ok := p.creates[id]; ok {
			j.after = append(j.after, created)
		}
	}
	if j.Method == snapshot.Create {
		obj := &unstructured.Unstructured{Object: j.Template}
		if id := string(obj.GetUID()); id != "" {
			p.creates[id] = j.done
		}
		if snapshot.IsRequired(obj.GroupVersionKind().GroupKind()) {
			p.barrier = j.done
		}
	}
	if len(p.creates) > maxQueued {
		for id, done := range p.creates {
			select {
			case <-done:
				delete(p.creates, id)
			default:
			}
		}
	}
	k := keyOf(j.Change)
	p.mu.Lock()
	defer p.mu.Unlock()
	lane, busy := p.lanes[k]
	p.lanes[k] = append(lane, j)
	if !busy {
		p.running.Go(func() { p.lane(ctx, k) })
	}
}

// lane applies the changes of an object one after the other, until no other is due. A change that was begun is finished, also after an interrupt; when
// the context has ended, the others are not begun, because each of them may wait long for a server that does not answer.
func (p *replayer) lane(ctx context.Context, k objectKey) {
	for {
		p.mu.Lock()
		if len(p.lanes[k]) == 0 {
			delete(p.lanes, k)
			p.mu.Unlock()
			return
		}
		j := p.lanes[k][0]
		p.lanes[k] = p.lanes[k][1:]
		p.mu.Unlock()
		for _, done := range j.after {
			<-done
		}
		p.slots <- struct{}{}
		if ctx.Err() == nil {
			result, err := p.apply(context.WithoutCancel(ctx), j.Change)
			p.finish(j, result, err)
		}
		close(j.done)
		<-p.slots
		<-p.queue
	}
}

// finish counts a change, and reports it if it failed. A connection that failed ends the replay.
func (p *replayer) finish(j *job, result effect, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.result.Late = max(p.result.Late, time.Since(j.due))
	var later *errLater
	var exists *existsError
	switch {
	case err == nil && result == absent:
		p.result.Absent++
	case err == nil && result == leftOut:
		p.result.LeftOut++
	case err == nil:
		p.result.Applied++
	default:
		p.result.Failed++
		if p.options.Failed != nil {
			p.options.Failed(j.Change, errors.New(strings.ReplaceAll(err.Error(), "\n", " ")))
		}
		if !isAnswer(err) && !errors.As(err, &later) && !errors.As(err, &exists) {
			p.stop(fmt.Errorf("document %d: %s %s: %w", j.Document, j.Method, j.Change, err))
		}
	}
}
