package stages

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"sort"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/rehearse-k8s/rehearse/api/kwok/v1alpha1"
	"github.com/rehearse-k8s/rehearse/internal/controller/reconcile"
	"github.com/rehearse-k8s/rehearse/internal/workload"
	"github.com/rehearse-k8s/rehearse/stage"
)

// Stage objects of the API are run as soon as they are observed. After each change the whole set is built
// again from all of them, so no Stage is ever applied in part.

// The condition of a Stage object and its reasons.
const (
	stageReady         = "Ready"
	stageAccepted      = "Accepted"
	stageInvalid       = "Invalid"
	stageKindNotServed = "KindNotServed"
)

var stagesResource = v1alpha1.GroupVersion.WithResource("stages")

// awaitStages returns when the stages of the API have been read once, or after WatchWait. If the API does not
// serve Stages, the engine starts without them.
func (e *StageEngine) awaitStages(ctx context.Context) {
	if e.options.WatchWait < 0 {
		return
	}
	timer := e.options.Clock.NewTimer(e.options.WatchWait)
	defer timer.Stop()
	select {
	case <-e.stagesSeen:
	case <-timer.C():
		e.options.Logger.Warn("no stages received from the API yet; they apply as soon as they are", "resource", stagesResource.String())
	case <-ctx.Done():
	}
}

// watchStages applies the Stage objects of the API until ctx ends.
func (e *StageEngine) watchStages(ctx context.Context) {
	client := e.dynamic.Resource(stagesResource)
	// A reflector would wait up to half a minute for a definition that is created during the start.
	for wait := lookFirst; ; wait = min(2*wait, lookMost) {
		if _, err := client.List(ctx, metav1.ListOptions{Limit: 1}); err == nil {
			break
		}
		if !pause(ctx, e.options.Clock, wait) {
			return
		}
	}
	informer := cache.NewSharedIndexInformer(cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			reconcile.Consistent(&o)
			return client.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return client.Watch(ctx, o)
		},
	}, e.client), &unstructured.Unstructured{}, 0, cache.Indexers{})
	handled, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { notify(e.stagesWake) },
		UpdateFunc: func(any, any) { notify(e.stagesWake) },
		DeleteFunc: func(any) { notify(e.stagesWake) },
	})
	if err != nil {
		e.options.Logger.Error("stages of the API cannot be watched", "error", err)
		return
	}
	running := make(chan struct{})
	go func() {
		defer close(running)
		informer.RunWithContext(ctx)
	}()
	defer func() { <-running }()
	if !cache.WaitForCacheSync(ctx.Done(), handled.HasSynced) {
		return
	}
	var playing string
	retries := conditionRetries{}
	for first := true; ; first = false {
		now := e.options.Clock.Now()
		e.takeStages(ctx, informer.GetStore(), &playing, retries)
		if first {
			close(e.stagesSeen)
		}
		var timer clock.Timer
		var due <-chan time.Time
		if at := retries.next(); !at.IsZero() {
			timer = e.options.Clock.NewTimer(max(at.Sub(now), 0))
			due = timer.C()
		}
		select {
		case <-due:
		case <-e.stagesWake:
		case <-ctx.Done():
		}
		if timer != nil {
			timer.Stop()
		}
		if ctx.Err() != nil {
			return
		}
	}
}

// The wait before a failed write of a condition is repeated. It doubles from the first to the last, until the
// Stage changes.
const (
	conditionFirst = time.Second
	conditionMost  = 5 * time.Minute
)

// conditionRetries has the last condition write of each stage, by name.
type conditionRetries map[string]conditionRetry

type conditionRetry struct {
	version  string // of the Stage that the write was for; after a success, the version that it created
	failures int    // consecutive; 0 after a success
	at       time.Time
}

// next returns when the first failed write is due again; zero if none is.
func (r conditionRetries) next() (at time.Time) {
	for _, retry := range r {
		if retry.failures > 0 && (at.IsZero() || retry.at.Before(at)) {
			at = retry.at
		}
	}
	return at
}

// waits reports whether the condition of a Stage must not be written now: the last write failed and its backoff
// lasts, or it succeeded and the cache does not show that yet. A write for the older version would conflict.
func (r conditionRetries) waits(now time.Time, name, version string) bool {
	retry, ok := r[name]
	if ok && retry.failures == 0 {
		return workload.Older(version, retry.version)
	}
	return ok && retry.version == version && now.Before(retry.at)
}

// wrote records a condition that was written, and the resourceVersion after it.
func (r conditionRetries) wrote(name, version string) { r[name] = conditionRetry{version: version} }

// failed records that a condition was not written, and returns how long to wait.
func (r conditionRetries) failed(now time.Time, name, version string) time.Duration {
	retry := r[name]
	if retry.version != version || retry.failures == 0 {
		retry = conditionRetry{version: version}
	}
	wait := conditionMost
	if retry.failures < 20 {
		wait = min(conditionFirst<<retry.failures, conditionMost)
	}
	retry.failures++
	retry.at = now.Add(wait)
	r[name] = retry
	return wait
}

// keep drops the stages that do not exist any more.
func (r conditionRetries) keep(names map[string]bool) {
	maps.DeleteFunc(r, func(name string, _ conditionRetry) bool { return !names[name] })
}

// overrunStages are the stages that are left out because they exceeded their budget, until they change.
type overrunStages struct {
	mu      sync.Mutex
	playing map[string]string // the version of each stage of the API, as far as it is run
	stages  map[string]overrunStage
}

type overrunStage struct{ version, problem string }

// leaveOut records a stage that is left out. It is called under the lock of the table.
func (h *overrunStages) leaveOut(name, problem string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stages[name] = overrunStage{version: h.playing[name], problem: problem}
}

// left returns the problem of each stage that stays left out when these are run.
func (h *overrunStages) left(playing map[string]string) map[string]string {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.playing = playing
	maps.DeleteFunc(h.stages, func(name string, s overrunStage) bool { return s.version != playing[name] })
	out := map[string]string{}
	for name, s := range h.stages {
		out[name] = s.problem
	}
	return out
}

// stageLeftOut records that the table has left out a stage. It is called under the table's lock.
func (e *StageEngine) stageLeftOut(name, problem string) {
	e.overruns.leaveOut(name, problem)
	e.options.Logger.Error("stage has exceeded its budget and is left out until it is changed", "stage", name, "times", mostOverruns, "problem", problem)
	notify(e.stagesWake)
}

// takeStages runs the stages in the store, and writes the condition of each. retries has the condition writes.
func (e *StageEngine) takeStages(ctx context.Context, store cache.Store, playing *string, retries conditionRetries) {
	var all []v1alpha1.Stage
	unread := map[string]string{}
	var objects []*unstructured.Unstructured
	for _, item := range store.List() {
		u, ok := item.(*unstructured.Unstructured)
		if !ok || u.GetDeletionTimestamp() != nil {
			continue
		}
		objects = append(objects, u)
	}
	sort.Slice(objects, func(i, j int) bool { return objects[i].GetName() < objects[j].GetName() })
	var current strings.Builder
	versions, names := map[string]string{}, map[string]bool{}
	for _, u := range objects {
		versions[u.GetName()] = fmt.Sprintf("%s %s %d %q\n", u.GetName(), u.GetUID(), u.GetGeneration(), u.GetAnnotations()[stage.NodeReadyAnnotation])
		current.WriteString(versions[u.GetName()])
		names[u.GetName()] = true
		var s v1alpha1.Stage
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &s); err != nil {
			unread[u.GetName()] = err.Error()
			continue
		}
		all = append(all, s)
	}
	set, bad := e.options.Stages.With(all)
	problems := map[string]string{}
	for _, err := range bad {
		problems[err.Stage] = fmt.Sprintf("%s: %s", err.Field, err.Problem)
	}
	for name, text := range unread {
		problems[name] = text
	}
	retries.keep(names)
	overrunning := e.overruns.left(versions)
	for name, text := range overrunning {
		set = set.Without(name)
		problems[name] = fmt.Sprintf("it exceeded its budget %d times and is left out until it is changed: %s", mostOverruns, text)
	}
	if current.String() != *playing {
		*playing = current.String()
		e.options.Logger.Info("stages of the API", "stages", len(objects), "bad", len(problems))
		e.table.setStages(e.options.Clock.Now(), set)
		e.watchKinds(ctx, set)
	}
	notes := map[string]string{}
	for _, w := range set.Warnings() {
		notes[w.Stage] = fmt.Sprintf("%s: %s", w.Field, w.Problem)
	}
	lookedFor, absent := map[string]bool{}, map[string]stage.Kind{}
	for _, kind := range set.Kinds() {
		found := e.kinds.found(kind)
		for _, name := range set.Names(kind) {
			switch found {
			case kindLookedFor:
				lookedFor[name] = true
			case kindAbsent:
				absent[name] = kind
			}
		}
	}
	for _, u := range objects {
		c := v1alpha1.Condition{Type: stageReady, Status: "True", Reason: stageAccepted, Message: notes[u.GetName()]}
		if text, ok := problems[u.GetName()]; ok {
			c.Status, c.Reason, c.Message = "False", stageInvalid, text
		} else if kind, ok := absent[u.GetName()]; ok {
			c.Status, c.Reason = "False", stageKindNotServed
			c.Message = fmt.Sprintf("spec.resourceRef: the API serves no kind %s; the stage is played as soon as it does", kind)
		} else if lookedFor[u.GetName()] {
			continue // the result of the search wakes watchStages again
		}
		name, version, now := u.GetName(), u.GetResourceVersion(), e.options.Clock.Now()
		if retries.waits(now, name, version) {
			continue
		}
		written, err := e.setCondition(ctx, u, c)
		if err != nil {
			wait := retries.failed(now, name, version)
			e.options.Logger.Warn("condition of a stage not written, will be tried again", "stage", name, "after", wait, "error", err)
			continue
		}
		if written == "" {
			delete(retries, name)
			continue
		}
		retries.wrote(name, written)
		if _, ok := overrunning[name]; ok {
			h := fnv.New64a()
			fmt.Fprintf(h, "%s %s", u.GetUID(), versions[name])
			key := objectKey{kind: stage.Kind{APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.StageKind}, name: name}
			e.recordEvent(ctx, key, u.GetUID(), version, h.Sum64()>>8, stage.Event{
				Type: corev1.EventTypeWarning, Reason: "StageInvalid", Message: cut(problems[name]),
			})
		}
	}
}

// setCondition writes the condition of a Stage and returns its resourceVersion after that; "" if the Stage has
// the condition already.
func (e *StageEngine) setCondition(ctx context.Context, u *unstructured.Unstructured, c v1alpha1.Condition) (written string, err error) {
	var s v1alpha1.Stage
	status, _, _ := unstructured.NestedMap(u.Object, "status")
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(map[string]any{"status": status}, &s); err != nil {
		s = v1alpha1.Stage{}
	}
	c.LastTransitionTime = metav1.NewTime(e.options.Clock.Now().UTC().Truncate(time.Second))
	c.Message = cut(c.Message)
	var conditions []v1alpha1.Condition
	for _, old := range s.Status.Conditions {
		if old.Type != c.Type {
			conditions = append(conditions, old)
			continue
		}
		if old.Status == c.Status {
			c.LastTransitionTime = old.LastTransitionTime
		}
		if old.Status == c.Status && old.Reason == c.Reason && old.Message == c.Message {
			return "", nil
		}
	}
	body, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": u.GetUID(), "resourceVersion": u.GetResourceVersion()},
		"status":   map[string]any{"conditions": append(conditions, c)},
	})
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	after, err := e.dynamic.Resource(stagesResource).Patch(ctx, u.GetName(), types.MergePatchType, body, metav1.PatchOptions{FieldManager: fieldManager}, "status")
	if err != nil {
		return "", err
	}
	return after.GetResourceVersion(), nil
}
