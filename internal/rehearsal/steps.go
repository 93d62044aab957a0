package rehearsal

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/rehearse-k8s/rehearse/api/rehearse/v1alpha1"
	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/verdict"
	"github.com/rehearse-k8s/rehearse/scenario"
)

// runSteps executes the steps of the scenario in order.
func (r *run) runSteps() error {
	acted := func() {}
	defer func() { acted() }()
	steps := r.harness.o.Scenario.Steps
	for i := range steps {
		if err := r.delayStep(i); err != nil {
			return err
		}
		// The user acts as soon as a settle step ends: no hold may end in between, on a slow machine either.
		if steps[i].Kind == scenario.Settle && i+1 < len(steps) && steps[i+1].Acts() {
			acted()
			acted = r.record.Expect()
		}
		if err := r.step(&steps[i]); err != nil {
			return err
		}
		if steps[i].Acts() {
			acted()
			acted = func() {}
		}
	}
	return nil
}

// maxStepDelay and maxStepDelays bound the delays of one step, and of all.
const (
	maxStepDelay  = 500 * time.Millisecond
	maxStepDelays = 2 * time.Second
)

// delayStep waits for a random time before a step if the run must differ from the first one without faults.
func (r *run) delayStep(n int) error {
	if !r.plan.Vary {
		return nil
	}
	limit := min(maxStepDelay, maxStepDelays/time.Duration(len(r.harness.o.Scenario.Steps)))
	t := time.NewTimer(time.Duration(fault.Pick(int(limit), r.plan.Seed, "step", strconv.Itoa(n))))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-r.monitor.decided:
		return errRunOver
	case <-r.ctx.Done():
		return r.ctx.Err()
	}
}

func (r *run) step(s *scenario.Step) (err error) {
	if s.Acts() {
		r.awaitRecreated()
	}
	switch s.Kind {
	case scenario.Wait:
		return r.wait(s)
	case scenario.Settle:
		// Faults may delay events for longer than the step waits: see runSteps.
		since, settle := r.elapsed(), r.harness.timeouts.settle
		_, err = r.monitor.await(s.Within, func() bool { return r.monitor.quietFor(since, settle) >= settle })
		return err
	case scenario.Apply, scenario.Create:
		for _, o := range s.Objects {
			u := &unstructured.Unstructured{Object: o}
			forget := r.noteCreated(u) // a client may observe the object, and so cause a fault, before the answer is received
			if s.Kind == scenario.Apply {
				err = apply(r.ctx, r.user, r.harness.mapper, u)
			} else {
				err = r.create(u)
			}
			if err != nil {
				forget()
				break
			}
		}
	case scenario.Delete:
		err = r.each(s, func(to dynamic.ResourceInterface, name string) error {
			r.noteDeleted(s.On, name)
			return to.Delete(r.ctx, name, metav1.DeleteOptions{PropagationPolicy: &s.Propagation})
		})
	case scenario.Patch:
		err = r.each(s, func(to dynamic.ResourceInterface, name string) error {
			var sub []string
			if s.Subresource != "" {
				sub = []string{s.Subresource}
			}
			_, err := to.Patch(r.ctx, name, s.PatchType, s.PatchData, metav1.PatchOptions{FieldManager: "user"}, sub...)
			return err
		})
	}
	if err != nil && r.ctx.Err() == nil {
		return &ScenarioError{fmt.Sprintf("%s:%d: %s: %v", r.harness.o.Scenario.File, s.Line, s, err)}
	}
	r.catchUp()
	return err
}

// catchUp lets the monitor observe the effect of the last step. Otherwise the next step would find the world quiet too
// early: on a busy machine, the monitor has not looked for a while.
func (r *run) catchUp() {
	if r.world.catchUp != nil {
		r.world.catchUp(r.ctx, r.record.Revision())
	}
	r.monitor.mu.Lock()
	defer r.monitor.mu.Unlock()
	r.monitor.takeWrites(r.elapsed())
}

// ScenarioError reports a mistake in the scenario: the API rejected a step, or the scenario does not fit the
// cluster.
type ScenarioError struct{ Message string }

func (e *ScenarioError) Error() string { return e.Message }

func (r *run) create(u *unstructured.Unstructured) error {
	to, err := resourceFor(r.user, r.harness.mapper, u)
	if err != nil {
		return err
	}
	_, err = to.Create(r.ctx, u.DeepCopy(), metav1.CreateOptions{FieldManager: "user"})
	return err
}

// wait waits until an invariant holds. It must hold in runs with faults, too.
func (r *run) wait(s *scenario.Step) error {
	var last error
	held, err := r.monitor.await(s.Within, func() bool {
		last = r.monitor.check(s.Invariant)
		return last == nil
	})
	if err != nil || held {
		return err
	}
	r.monitor.mu.Lock()
	defer r.monitor.mu.Unlock()
	r.monitor.failWith(&history.Failure{
		Oracle:  verdict.Eventually{Invariant: s.Invariant, Within: s.Within}.Oracle(),
		Message: last.Error(), At: r.elapsed(), AtEnd: true,
	})
	return errRunOver
}

// each calls do for every object of a step. It ignores objects that do not exist: faults may have deleted
// them.
func (r *run) each(s *scenario.Step, do func(dynamic.ResourceInterface, string) error) error {
	to, err := r.resource(s.On)
	if err != nil {
		return err
	}
	names := []string{s.On.Name}
	if s.On.Selector != "" {
		list, err := to.List(r.ctx, metav1.ListOptions{LabelSelector: s.On.Selector})
		if err != nil {
			return err
		}
		names = nil
		for _, o := range list.Items {
			names = append(names, o.GetName())
		}
	}
	for _, name := range names {
		err := do(to, name)
		if apierrors.IsNotFound(err) && r.awaitAgain(s.On, name) {
			err = do(to, name)
		}
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}

// resource returns the client for the resource of a reference.
func (r *run) resource(on v1alpha1.Reference) (dynamic.ResourceInterface, error) {
	gvr, namespaced, err := r.served(on.Resource)
	if err != nil {
		return nil, err
	}
	return resourceIn(r.user, gvr, namespaced, on.Namespace), nil
}

// served resolves a resource name as kubectl does.
func (r *run) served(resource string) (gvr schema.GroupVersionResource, namespaced bool, err error) {
	return served(r.harness.mapper, resource)
}

func served(mapper meta.RESTMapper, resource string) (gvr schema.GroupVersionResource, namespaced bool, err error) {
	if gvr, err = mapper.ResourceFor(schema.ParseGroupResource(resource).WithVersion("")); err != nil {
		return gvr, false, fmt.Errorf("the API does not serve %q: %w", resource, err)
	}
	kind, err := mapper.KindFor(gvr)
	if err != nil {
		return gvr, false, err
	}
	m, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
	return gvr, err == nil && m.Scope.Name() == meta.RESTScopeNameNamespace, err
}

// isNotServed reports whether an error says that the API does not serve a kind.
func isNotServed(err error) bool {
	var none *meta.NoKindMatchError
	return errors.As(err, &none) || strings.Contains(err.Error(), "could not find the requested resource")
}
