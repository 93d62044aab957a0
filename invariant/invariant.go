package invariant

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/rehearse-k8s/rehearse/history"
)

// StepError is the error of an invariant that knows the write which violated it.
type StepError struct {
	Step    int
	Message string
}

func (e *StepError) Error() string { return fmt.Sprintf("%s (step %d)", e.Message, e.Step) }

// View is the state of the API at one moment, not what a controller's cache contains. Resources are
// named as in kubectl: "pods" or "jobs.batch". Objects are shared and must not be changed.
type View interface {
	// Now is the time on the run's clock, Elapsed the time since the run started.
	Now() time.Time
	Elapsed() time.Duration
	// List returns all objects of a resource, sorted by namespace and name.
	List(resource string) []*unstructured.Unstructured
	// Get returns one object, or nil.
	Get(resource, namespace, name string) *unstructured.Unstructured
	// Run returns the record of the run up to this moment.
	Run() *history.Run
}

// Invariant is a statement about a View that must be true.
type Invariant struct {
	// Name is a sentence: "at most 3 active pods of CloneSet default/web".
	Name string
	// Check returns nil if the invariant holds, and otherwise an error that says what was found
	// instead. It is safe for concurrent use unless the constructor says otherwise.
	Check func(View) error
}

// Func returns an invariant with a custom check.
func Func(name string, check func(View) error) Invariant {
	return Invariant{Name: name, Check: check}
}

// Never returns an invariant that holds while another one does not.
func Never(i Invariant) Invariant {
	return Invariant{Name: "never " + i.Name, Check: func(v View) error {
		if i.Check(v) == nil {
			return errors.New("it is true")
		}
		return nil
	}}
}

// Stays returns an invariant that is violated when another one does not hold any more after it has
// held. It records when that one first held, so each run needs its own, and its Check is not safe
// for concurrent use.
func Stays(i Invariant) Invariant {
	held := time.Duration(-1)
	return Invariant{Name: "once true, stays true: " + i.Name, Check: func(v View) error {
		err := i.Check(v)
		switch {
		case err == nil && held < 0:
			held = v.Elapsed()
		case err != nil && held >= 0:
			return fmt.Errorf("it was true at %s, and now: %w", held.Round(time.Millisecond), err)
		}
		return nil
	}}
}

// All returns an invariant that holds if each of several holds. Its error lists those that do not.
func All(all ...Invariant) Invariant {
	names := make([]string, len(all))
	for n, i := range all {
		names[n] = i.Name
	}
	return Invariant{Name: strings.Join(names, ", and "), Check: func(v View) error {
		var violated []string
		for _, i := range all {
			if err := i.Check(v); err != nil {
				violated = append(violated, fmt.Sprintf("%s: %v", i.Name, err))
			}
		}
		if len(violated) == 0 {
			return nil
		}
		return errors.New(strings.Join(violated, "; "))
	}}
}
