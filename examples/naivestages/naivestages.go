// Package naivestages plays stages in a naive way, so that tests can show what goes wrong: its planner is the real
// one (package stage), and its shell is written as such shells have been, with one flaw at a time.
//
// KWOK has had or still has these flaws: see each [Flaw]. The scenarios of the tests show what each leads to; the real
// engine (package internal/controller/stages) passes them. It is not an engine to use.
//
// Jobs wait in a map by namespace/name. Each has a timer; when it fires, the engine writes what was decided when the
// timer was set.
package naivestages

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/rehearse-k8s/rehearse/stage"
)

// Flaw is what is wrong with the shell.
type Flaw int

const (
	// Lost stops the timer of a job when its object changes, and leaves the job in the map: its
	// object counts as queued from then on (kwok #958).
	Lost Flaw = iota + 1
	// Stale executes a job even if it was replaced, with the object that it was created for (kwok
	// #1002).
	Stale
	// Phantom does not cancel a job when its object no longer matches any stage (as after kwok's
	// fix of #958).
	Phantom
	// Restarted restarts the delay at each update, whatever the update changes.
	Restarted
	// Unnamed writes without the object's UID: the write also applies to a later object of the same
	// name.
	Unnamed
	// Forgotten ignores a deletion that is only visible in a new list.
	Forgotten
	// Dropped drops a job whose write failed, unless the server sent Retry-After (kwok #816).
	Dropped
	// Displacing reschedules a failed job in the place of the job that was scheduled meanwhile.
	Displacing
)

// Delays of the shell.
const (
	retryAfter = time.Second
	hurry      = 100 * time.Millisecond
)

// New returns the constructor of an engine that plays stages on all pods.
func New(stages *stage.Set, flaw Flaw) func(context.Context, *rest.Config) error {
	return func(ctx context.Context, config *rest.Config) error {
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			return err
		}
		e := &engine{client: client, stages: stages, flaw: flaw, jobs: map[string]*job{}, due: make(chan *job)}
		factory := informers.NewSharedInformerFactory(client, 0)
		informer := factory.Core().V1().Pods().Informer()
		if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    func(o any) { e.observe(ctx, o.(*corev1.Pod)) },
			UpdateFunc: func(_, o any) { e.observe(ctx, o.(*corev1.Pod)) },
			DeleteFunc: e.deleted,
		}); err != nil {
			return err
		}
		factory.StartWithContext(ctx)
		for ctx.Err() == nil {
			select {
			case j := <-e.due:
				e.play(ctx, j)
			case <-ctx.Done():
			}
		}
		factory.Shutdown()
		return nil
	}
}

type engine struct {
	client kubernetes.Interface
	stages *stage.Set
	flaw   Flaw
	due    chan *job

	mu   sync.Mutex
	jobs map[string]*job
}

// job is a stage that is scheduled for an object.
type job struct {
	key      string
	pod      *corev1.Pod
	decision stage.Decision
	timer    *time.Timer
}

func (e *engine) observe(ctx context.Context, pod *corev1.Pod) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := time.Now()
	d := e.stages.Decide(now, 1, pod, stage.Past{}, stage.Scene{NodeReady: true})
	key := pod.Namespace + "/" + pod.Name
	old := e.jobs[key]
	if old != nil {
		if old.pod.ResourceVersion == pod.ResourceVersion {
			return
		}
		if e.flaw == Lost {
			old.timer.Stop()
		}
	}
	if !d.Chosen() {
		if old != nil && e.flaw != Phantom && e.flaw != Lost {
			old.timer.Stop()
			delete(e.jobs, key)
		}
		return
	}
	if old != nil {
		if old.decision.Stage == d.Stage && old.pod.UID == pod.UID && e.flaw != Restarted && e.flaw != Stale {
			old.pod, old.decision = pod, d
			return
		}
		if e.flaw != Stale {
			old.timer.Stop()
		}
	}
	e.wait(ctx, &job{key: key, pod: pod, decision: d}, d.Due.Sub(now))
}

// wait adds a job to the map. The caller holds the lock.
func (e *engine) wait(ctx context.Context, j *job, d time.Duration) {
	e.jobs[j.key] = j
	j.timer = time.AfterFunc(d, func() {
		select {
		case e.due <- j:
		case <-ctx.Done():
		}
	})
}

func (e *engine) deleted(o any) {
	if unknown, ok := o.(cache.DeletedFinalStateUnknown); ok {
		if e.flaw == Forgotten {
			return
		}
		o = unknown.Obj
	}
	pod, ok := o.(*corev1.Pod)
	if !ok {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	key := pod.Namespace + "/" + pod.Name
	if j := e.jobs[key]; j != nil {
		j.timer.Stop()
		delete(e.jobs, key)
	}
}

// play sends the writes of a job's stage.
func (e *engine) play(ctx context.Context, j *job) {
	e.mu.Lock()
	if e.jobs[j.key] == j {
		delete(e.jobs, j.key)
	} else if e.flaw != Stale {
		e.mu.Unlock()
		return // the job was replaced while its timer fired
	}
	pod, d := j.pod, j.decision
	e.mu.Unlock()
	effects, err := e.stages.Play(time.Now(), pod, d, nil)
	if err != nil {
		return
	}
	answer, err := e.write(ctx, pod, &effects)
	if err != nil {
		e.failed(ctx, j, err)
		return
	}
	if answer != nil && e.flaw == Lost {
		e.observe(ctx, answer) // the next stage does not wait for the watch
	}
}

func (e *engine) failed(ctx context.Context, j *job, err error) {
	after := retryAfter
	switch {
	case ctx.Err() != nil:
		return
	case apierrors.IsNotFound(err) && e.flaw != Forgotten:
		return
	case apierrors.IsNotFound(err):
		after = hurry
	case e.flaw == Dropped && !apierrors.IsTooManyRequests(err):
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if newer := e.jobs[j.key]; newer != nil {
		if e.flaw != Displacing {
			return
		}
		newer.timer.Stop()
	}
	e.wait(ctx, j, after)
}

// write sends the effects one after another.
func (e *engine) write(ctx context.Context, pod *corev1.Pod, effects *stage.Effects) (answer *corev1.Pod, err error) {
	pods := e.client.CoreV1().Pods(pod.Namespace)
	version := pod.ResourceVersion
	for i := range effects.Requests {
		r := &effects.Requests[i]
		body, err := e.body(r, version)
		if err != nil {
			return nil, err
		}
		var under []string
		if r.Subresource != "" {
			under = []string{r.Subresource}
		}
		if answer, err = pods.Patch(ctx, pod.Name, r.Type, body, metav1.PatchOptions{}, under...); err != nil {
			return nil, err
		}
		version = answer.ResourceVersion
	}
	if effects.Write == stage.WriteStatus {
		status := &stage.Request{Own: true, UID: pod.UID, Body: map[string]any{"status": effects.Object.(*corev1.Pod).Status}}
		body, err := e.body(status, version)
		if err != nil {
			return nil, err
		}
		if answer, err = pods.Patch(ctx, pod.Name, types.MergePatchType, body, metav1.PatchOptions{}, "status"); err != nil {
			return nil, err
		}
	}
	if effects.Delete {
		options := metav1.DeleteOptions{GracePeriodSeconds: new(int64)}
		if e.named() {
			options.Preconditions = &metav1.Preconditions{UID: &pod.UID}
		}
		return nil, pods.Delete(ctx, pod.Name, options)
	}
	return answer, nil
}

// named reports whether writes name the UID of their object.
func (e *engine) named() bool { return e.flaw != Unnamed && e.flaw != Stale && e.flaw != Phantom }

func (e *engine) body(r *stage.Request, version string) ([]byte, error) {
	if !e.named() {
		return json.Marshal(r.Body)
	}
	return r.Payload(version)
}
