package invariant

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/invariant/internal/inspect"
)

// Grace is how long the garbage collector may take: dependants of an owner that has
// gone, and those of an earlier owner of the same name, are not held against anybody
// for that long.
const Grace = time.Minute

// Deleted holds while nothing waits to be deleted: what has a deletionTimestamp is to
// go, so this is a promise for the end of a run. Resources that nobody wrote to in
// the run are not looked at.
func Deleted() Invariant {
	return Invariant{Name: "deleted objects go", Check: func(v View) error {
		for _, resource := range written(v.Run()) {
			for _, o := range v.List(resource) {
				if at := o.GetDeletionTimestamp(); at != nil {
					return fmt.Errorf("%s %s is being deleted since %s and waits for %v",
						resource, inspect.KeyOf(o), v.Now().Sub(at.Time).Round(time.Second), o.GetFinalizers())
				}
			}
		}
		return nil
	}}
}

// NoOrphans holds while no object has been controlled for longer than [Grace] by an
// owner that is not there any more. It means something only in a world with a
// garbage collector, or for a controller that does that work itself.
func NoOrphans() Invariant {
	return Invariant{Name: "no orphans", Check: func(v View) error {
		return eachOwned(v, func(resource string, o *unstructured.Unstructured, ref *metav1.OwnerReference, living map[types.UID]bool) error {
			if living[ref.UID] || o.GetDeletionTimestamp() != nil {
				return nil
			}
			if n := namedBy(v, o.GetNamespace(), ref); n != nil && n.GetUID() == ref.UID {
				return nil
			}
			since := later(o.GetCreationTimestamp().Time, lastWord(v.Run(), ref.UID))
			if v.Now().Sub(since) <= Grace {
				return nil
			}
			return fmt.Errorf("%s %s is controlled by %s %s (%s), which is gone since %s",
				resource, inspect.KeyOf(o), ref.Kind, ref.Name, ref.UID, v.Now().Sub(since).Round(time.Second))
		})
	}}
}

// UniqueOwnerUID holds while no object is controlled, for longer than [Grace], by a
// name whose living bearer has another UID: a controller that finds its objects by
// the owner's name alone takes over what belonged to the one before.
func UniqueOwnerUID() Invariant {
	return Invariant{Name: "owners of the same name are not confused", Check: func(v View) error {
		return eachOwned(v, func(resource string, o *unstructured.Unstructured, ref *metav1.OwnerReference, _ map[types.UID]bool) error {
			bearer := namedBy(v, o.GetNamespace(), ref)
			if bearer == nil || bearer.GetUID() == ref.UID || o.GetDeletionTimestamp() != nil {
				return nil
			}
			since := later(bearer.GetCreationTimestamp().Time, o.GetCreationTimestamp().Time)
			if v.Now().Sub(since) <= Grace {
				return nil
			}
			return fmt.Errorf("%s %s is controlled by %s %s (%s), but the living one is %s",
				resource, inspect.KeyOf(o), ref.Kind, ref.Name, ref.UID, bearer.GetUID())
		})
	}}
}

// eachOwned calls a function for every object with a controller, until an error. The
// set is of the UIDs of everything alive.
func eachOwned(v View, do func(resource string, o *unstructured.Unstructured, ref *metav1.OwnerReference, living map[types.UID]bool) error) error {
	resources := written(v.Run())
	living := map[types.UID]bool{}
	for _, resource := range resources {
		for _, o := range v.List(resource) {
			living[o.GetUID()] = true
		}
	}
	for _, resource := range resources {
		for _, o := range v.List(resource) {
			ref := metav1.GetControllerOfNoCopy(o)
			if ref == nil {
				continue
			}
			if err := do(resource, o, ref, living); err != nil {
				return err
			}
		}
	}
	return nil
}

// written are the resources that were written to in a run, sorted: everything in a
// world was written by somebody, so these are all there are.
func written(run *history.Run) (resources []string) {
	seen := map[string]bool{}
	for i := range run.Steps {
		s := &run.Steps[i]
		if s.Kind == history.Request && s.IsWrite() && s.Resource != "" && !seen[s.Resource] {
			seen[s.Resource] = true
			resources = append(resources, s.Resource)
		}
	}
	slices.Sort(resources)
	return resources
}

// lastWord is when an object was last written or deleted.
func lastWord(run *history.Run, uid types.UID) time.Time {
	for i := len(run.Steps) - 1; i >= 0; i-- {
		if s := &run.Steps[i]; s.UID == string(uid) && s.Wrote() {
			return run.Start.Add(s.At)
		}
	}
	return time.Time{}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
