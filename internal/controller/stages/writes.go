package stages

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/rehearse-k8s/rehearse/stage"
)

// writeTimeout bounds one request, so that one without an answer does not block a worker. The result of the
// write is then unknown; its preconditions make it safe to repeat.
const writeTimeout = 15 * time.Second

func (e *StageEngine) startStages(ctx context.Context, begin func(func())) {
	due := make(chan types.UID)
	begin(func() { dispatch(ctx, e.options.Clock, e.table.pop, e.tableWake, due) })
	for range e.options.Workers {
		begin(func() {
			player := &stage.Player{}
			for uid := range due {
				e.work(ctx, uid, player)
			}
		})
	}
}

// work processes one entry.
func (e *StageEngine) work(ctx context.Context, uid types.UID, player *stage.Player) {
	j, ok := e.table.begin(e.options.Clock.Now(), uid)
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	if j.confirm {
		e.confirm(ctx, j)
		return
	}
	now := e.options.Clock.Now()
	effects, err := player.Play(j.stages, now, j.object, j.decision, facts{e})
	if err != nil {
		e.settle(ctx, j, outcome{kind: failed}, err)
		return
	}
	o, err := e.carryOut(ctx, j, &effects)
	done := len(effects.Events)
	if err == nil {
		e.counters.plays.Add(1)
		e.counters.late(now.Sub(j.decision.Due))
		e.options.Metrics.carriedOut(j.decision.Stage, e.options.Clock.Since(now), now.Sub(later(j.decision.Due, e.playing)))
	} else if done = 0; o.stopped {
		for done < len(effects.Events) && effects.Events[done].Step < o.step {
			done++
		}
	}
	e.recordEvents(ctx, j, effects.Events[:done])
	e.settle(ctx, j, o, err)
}

// settle records the outcome of a job in the table; err determines its kind.
func (e *StageEngine) settle(ctx context.Context, j job, o outcome, err error) {
	if err != nil {
		o.kind = kindOf(err)
		o.problem, o.permanent, o.answered = err.Error(), isPermanent(err), apierrors.IsInternalError(err)
		if bad := (*stage.Error)(nil); errors.As(err, &bad) {
			o.overran = bad.Overran
		}
		if j.confirm {
			o.problem, o.permanent, o.answered = "", false, false
		}
		if seconds, ok := apierrors.SuggestsClientDelay(err); ok {
			o.retryAfter = time.Duration(seconds) * time.Second
		}
		if o.kind == failed {
			e.counters.failures.Add(1)
			e.options.Metrics.failed(err)
			// A permanent failure is reported once, by the table.
			if !o.permanent && !errors.Is(ctx.Err(), context.Canceled) {
				e.options.Logger.Warn("stage not played, will be tried again", "object", j.key.String(), "stage", j.decision.Stage, "error", err)
			}
		} else {
			e.counters.conflicts.Add(1)
			e.options.Logger.Debug("object has changed since the decision", "object", j.key.String(), "stage", j.decision.Stage, "error", err)
		}
	}
	e.table.done(e.options.Clock.Now(), j, o)
}

func kindOf(err error) outcomeKind {
	// A JSON patch whose test of the version fails is answered with Invalid.
	var r *requestError
	if errors.As(err, &r) && r.json && apierrors.IsInvalid(err) {
		return outdated
	}
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return outdated
	}
	return failed
}

// String returns kind namespace/name.
func (k objectKey) String() string {
	if k.namespace == "" {
		return fmt.Sprintf("%s %s", k.kind, k.name)
	}
	return fmt.Sprintf("%s %s/%s", k.kind, k.namespace, k.name)
}

// typed reports whether objects of the kind are Go structs.
func (k objectKey) typed() bool { return k.kind == stage.KindPod || k.kind == stage.KindNode }

// typedObject is a pod or a node.
type typedObject interface {
	stage.Object
	message
}

// empty returns an empty object of a typed kind, to decode an answer into.
func (k objectKey) empty() typedObject {
	if k.kind == stage.KindNode {
		return &corev1.Node{}
	}
	return &corev1.Pod{}
}

// path returns the API path of a pod or a node.
func (k objectKey) path(subresource string) string {
	path := "/api/v1/nodes/" + k.name
	if k.kind == stage.KindPod {
		path = "/api/v1/namespaces/" + k.namespace + "/pods/" + k.name
	}
	if subresource != "" {
		path += "/" + subresource
	}
	return path
}

// carryOut sends the effects of a stage in their order, each on the version that the one before has created.
// If one fails after another succeeded, the outcome contains where the stage continues.
func (e *StageEngine) carryOut(ctx context.Context, j job, effects *stage.Effects) (outcome, error) {
	o := outcome{kind: played, wrote: effects.Delete}
	version, begun := effects.ResourceVersion, false
	if effects.Write != stage.WriteNothing {
		answer, err := e.update(ctx, j.key, effects)
		if err != nil {
			return o, err
		}
		e.counters.writes.Add(1)
		o.object, version, begun, o.wrote = answer, answer.GetResourceVersion(), true, true
	}
	stopped := func(step int) {
		if begun {
			o.stopped, o.step = true, step
		}
	}
	for i := range effects.Requests {
		r := &effects.Requests[i]
		answer, next, err := e.send(ctx, r, version)
		if err != nil {
			stopped(r.Step)
			return o, &requestError{step: r.Step, json: r.Type == types.JSONPatchType, err: err}
		}
		e.counters.writes.Add(1)
		begun, o.wrote = true, o.wrote || next != version
		version = next
		if answer != nil {
			o.object = answer
		}
	}
	if effects.Delete {
		options := &metav1.DeleteOptions{
			GracePeriodSeconds: ptr.To(int64(0)),
			Preconditions:      &metav1.Preconditions{UID: &effects.UID, ResourceVersion: &version},
		}
		if err := e.remove(ctx, j.key, options); err != nil {
			stopped(effects.DeleteStep)
			return o, err
		}
		e.counters.deletes.Add(1)
		o.kind = deleted
	}
	return o, nil
}

// update sends a whole pod or node and returns it after the update.
func (e *StageEngine) update(ctx context.Context, k objectKey, effects *stage.Effects) (stage.Object, error) {
	put := call{method: http.MethodPut, path: k.path("")}
	if effects.Write == stage.WriteStatus {
		put.path = k.path("status")
	}
	var err error
	if put.body, err = encode(k.kind.APIVersion, k.kind.Kind, effects.Object.(message)); err != nil {
		return nil, err
	}
	answer, err := e.sendAbout(ctx, k, put)
	if err == nil && answer == nil {
		err = fmt.Errorf("the answer to the PUT of %s is another kind", k)
	}
	return answer, err
}

// sendAbout sends a request about a pod or a node. The returned object is nil if the answer is of another
// kind, as that of an eviction.
func (e *StageEngine) sendAbout(ctx context.Context, k objectKey, c call) (stage.Object, error) {
	body, err := e.direct.send(ctx, c)
	if err != nil {
		return nil, err
	}
	answer := k.empty()
	if ok, err := decodeInto(body, k.kind.APIVersion, k.kind.Kind, answer); err != nil || !ok {
		return nil, err
	}
	answer.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{}) // as objects of informers
	dropManagedFields(answer)
	return answer, nil
}

// confirm reads an object live, because the API has another version than the informer has shown.
func (e *StageEngine) confirm(ctx context.Context, j job) {
	live, err := e.readLive(ctx, j.key)
	switch {
	case apierrors.IsNotFound(err):
		e.table.done(e.options.Clock.Now(), j, outcome{kind: absent})
	case err != nil:
		e.counters.failures.Add(1)
		e.options.Metrics.failed(err)
		e.table.done(e.options.Clock.Now(), j, outcome{kind: failed})
	case live.GetUID() != j.uid:
		e.table.done(e.options.Clock.Now(), j, outcome{kind: absent})
	default:
		e.table.done(e.options.Clock.Now(), j, outcome{kind: found, object: live})
	}
}

// recordEvents writes the Events of a stage that was played. An Event that cannot be written is dropped.
func (e *StageEngine) recordEvents(ctx context.Context, j job, events []stage.Event) {
	for _, event := range events {
		// The name follows from the object and the stage, so that a repeated request creates no second Event.
		place := stage.Draw(revision(j.decision.ResourceVersion), j.uid, j.decision.Stage, uint64(event.Step))
		e.recordEvent(ctx, j.key, j.uid, j.decision.ResourceVersion, uint64(place*(1<<53)), event)
	}
}

func (e *StageEngine) recordEvent(ctx context.Context, key objectKey, uid types.UID, version string, place uint64, event stage.Event) {
	now := metav1.NewTime(e.options.Clock.Now())
	namespace := key.namespace
	if namespace == "" {
		namespace = metav1.NamespaceDefault
	}
	typ := event.Type
	if typ == "" {
		typ = corev1.EventTypeNormal
	}
	object := &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("%s.%014x", key.name, place)},
		InvolvedObject: corev1.ObjectReference{
			APIVersion: key.kind.APIVersion, Kind: key.kind.Kind, Namespace: key.namespace, Name: key.name,
			UID: uid, ResourceVersion: version,
		},
		Type: typ, Reason: event.Reason, Message: event.Message,
		Source:         corev1.EventSource{Component: "rehearse-stage-engine"},
		FirstTimestamp: now, LastTimestamp: now, Count: 1,
	}
	err := e.client.CoreV1().RESTClient().Post().MaxRetries(0).Namespace(namespace).Resource("events").Body(object).Do(ctx).Error()
	if err != nil && !apierrors.IsAlreadyExists(err) {
		e.options.Logger.Debug("event not recorded", "object", key.String(), "reason", event.Reason, "error", err)
	}
}

// facts provides the data that templates ask for.
type facts struct{ e *StageEngine }

func (f facts) NodeIPs(node string) ([]string, error) { return f.e.addresses.nodeIPs(node) }

func (f facts) PodIPs(uid types.UID, node string) ([]string, error) {
	return f.e.addresses.podIPs(uid, node)
}

func (f facts) NodePort() int        { return f.e.options.NodePort }
func (f facts) Version() string      { return f.e.options.KubeletVersion }
func (f facts) StartTime() time.Time { return f.e.started }
