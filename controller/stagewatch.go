package controller

import (
	"context"
	"encoding/json"
	"fmt"
	"sort"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/rehearse-k8s/rehearse/api/v1alpha1"
	"github.com/rehearse-k8s/rehearse/stage"
)

// Stage objects of the API are played from the moment they are seen. What is
// played is made anew as a whole from all of them, so there is no state in which
// one is half in.

// The condition of a Stage object and its reasons.
const (
	stageReady         = "Ready"
	stageAccepted      = "Accepted"
	stageInvalid       = "Invalid"
	stageKindNotServed = "KindNotServed"
)

var stagesResource = v1alpha1.GroupVersion.WithResource("stages")

// awaitStages returns when the stages of the API have been taken in once, or
// after WatchWait. Where the API does not know stages it begins without.
func (e *StageEngine) awaitStages(ctx context.Context) {
	if e.options.WatchWait < 0 {
		return
	}
	timer := e.options.Clock.NewTimer(e.options.WatchWait)
	defer timer.Stop()
	select {
	case <-e.stagesSeen:
	case <-timer.C():
		e.options.Logger.Warn("the API shows no stages yet; they apply when it does", "resource", stagesResource.String())
	case <-ctx.Done():
	}
}

// watchStages serves the Stage objects of the API until ctx ends.
func (e *StageEngine) watchStages(ctx context.Context) {
	client := e.dynamic.Resource(stagesResource)
	// A reflector would wait up to half a minute for a definition that is made
	// while we start.
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
			return client.List(ctx, consistent(o))
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return client.Watch(ctx, o)
		},
	}, e.client), &unstructured.Unstructured{}, 0, cache.Indexers{})
	handled, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { poke(e.stagesWake) },
		UpdateFunc: func(any, any) { poke(e.stagesWake) },
		DeleteFunc: func(any) { poke(e.stagesWake) },
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
	for first := true; ; first = false {
		again := e.takeStages(ctx, informer.GetStore(), &playing)
		if first {
			close(e.stagesSeen)
		}
		if again && !pause(ctx, e.options.Clock, confirmAfter) {
			return
		}
		if again {
			continue
		}
		select {
		case <-e.stagesWake:
		case <-ctx.Done():
			return
		}
	}
}

// takeStages makes what is in the store what is played, and says of each stage
// whether it is. again asks to be called once more.
func (e *StageEngine) takeStages(ctx context.Context, store cache.Store, playing *string) (again bool) {
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
	var print strings.Builder
	for _, u := range objects {
		fmt.Fprintf(&print, "%s %s %d %q\n", u.GetName(), u.GetUID(), u.GetGeneration(), u.GetAnnotations()[stage.NodeReadyAnnotation])
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
	if print.String() != *playing {
		*playing = print.String()
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
			continue // it is said when that is known, which wakes this
		}
		if err := e.setCondition(ctx, u, c); err != nil {
			e.options.Logger.Debug("condition of a stage not written, will be tried again", "stage", u.GetName(), "error", err)
			again = true
		}
	}
	return again
}

// setCondition writes the condition of a stage where it is not so already.
func (e *StageEngine) setCondition(ctx context.Context, u *unstructured.Unstructured, c v1alpha1.Condition) error {
	var s v1alpha1.Stage
	status, _, _ := unstructured.NestedMap(u.Object, "status")
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(map[string]any{"status": status}, &s); err != nil {
		s = v1alpha1.Stage{}
	}
	c.LastTransitionTime = metav1.NewTime(e.options.Clock.Now().UTC().Truncate(time.Second))
	c.Message = cut(c.Message)
	var after []v1alpha1.Condition
	for _, old := range s.Status.Conditions {
		if old.Type != c.Type {
			after = append(after, old)
			continue
		}
		if old.Status == c.Status {
			c.LastTransitionTime = old.LastTransitionTime
		}
		if old.Status == c.Status && old.Reason == c.Reason && old.Message == c.Message {
			return nil
		}
	}
	body, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": u.GetUID(), "resourceVersion": u.GetResourceVersion()},
		"status":   map[string]any{"conditions": append(after, c)},
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	_, err = e.dynamic.Resource(stagesResource).Patch(ctx, u.GetName(), types.MergePatchType, body, metav1.PatchOptions{FieldManager: fieldManager}, "status")
	return err
}
