package invariant

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/rehearse-k8s/rehearse/history"
)

// View is the truth of a world at one moment, not what some controller believes.
// A resource is named as kubectl writes it: "pods" or "jobs.batch". Objects are
// shared and must not be changed.
type View interface {
	// Now is the run's clock, Elapsed how far it has gone since the run began.
	Now() time.Time
	Elapsed() time.Duration
	// List returns all objects of a resource, sorted by namespace and name.
	List(resource string) []*unstructured.Unstructured
	// Get returns one object, or nil.
	Get(resource, namespace, name string) *unstructured.Unstructured
	// Run is the record up to this moment.
	Run() *history.Run
}

// Invariant is a promise about a world. Check returns nil when it holds, and
// otherwise what was seen instead. It may be called from several goroutines.
type Invariant struct {
	// Name is a sentence: "at most 3 active pods of CloneSet default/web".
	Name  string
	Check func(View) error
}

// Func is an invariant of one's own.
func Func(name string, check func(View) error) Invariant {
	return Invariant{Name: name, Check: check}
}

// Never holds as long as another one does not.
func Never(i Invariant) Invariant {
	return Invariant{Name: "never " + i.Name, Check: func(v View) error {
		if i.Check(v) == nil {
			return errors.New("it holds")
		}
		return nil
	}}
}

// Stays holds until another promise that has held does not any more. It remembers that,
// so each run needs one of its own, and asks it from one goroutine.
func Stays(i Invariant) Invariant {
	held := time.Duration(-1)
	return Invariant{Name: "once it holds it stays so: " + i.Name, Check: func(v View) error {
		err := i.Check(v)
		switch {
		case err == nil && held < 0:
			held = v.Elapsed()
		case err != nil && held >= 0:
			return fmt.Errorf("it held at %s, and now: %w", held.Round(time.Millisecond), err)
		}
		return nil
	}}
}

// All holds when each of several does, and says which do not.
func All(all ...Invariant) Invariant {
	names := make([]string, len(all))
	for n, i := range all {
		names[n] = i.Name
	}
	return Invariant{Name: strings.Join(names, ", and "), Check: func(v View) error {
		var broken []string
		for _, i := range all {
			if err := i.Check(v); err != nil {
				broken = append(broken, fmt.Sprintf("%s: %v", i.Name, err))
			}
		}
		if len(broken) == 0 {
			return nil
		}
		return errors.New(strings.Join(broken, "; "))
	}}
}
