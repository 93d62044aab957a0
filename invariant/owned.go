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

// Grace is the time that the garbage collector has: dependants of a deleted owner, and of an earlier
// owner of the same name, violate nothing for that long.
const Grace = time.Minute

// Deleted returns an invariant that holds while no object has a deletionTimestamp. It is meant for
// the end of a run. It reads only resources that were written in the run.
func Deleted() Invariant {
	return Invariant{Name: "deleted objects are removed", Check: func(v View) error {
		for _, resource := range written(v.Run()) {
			for _, o := range v.List(resource) {
				if at := o.GetDeletionTimestamp(); at != nil {
					return fmt.Errorf("%s %s has been terminating for %s and waits for %v",
						resource, inspect.KeyOf(o), v.Now().Sub(at.Time).Round(time.Second), o.GetFinalizers())
				}
			}
		}
		return nil
	}}
}

// NoOrphans returns an invariant that is violated when an object is controlled, for longer than
// [Grace], by an owner that does not exist any more. It needs a garbage collector in the run, or a
// controller that does that work itself.
func NoOrphans() Invariant {
	return Invariant{Name: "no orphans", Check: func(v View) error {
		return eachOwned(v, func(resource string, o *unstructured.Unstructured, ref *metav1.OwnerReference, existing map[types.UID]bool) error {
			if existing[ref.UID] || o.GetDeletionTimestamp() != nil {
				return nil
			}
			if n := namedBy(v, o.GetNamespace(), ref); n != nil && n.GetUID() == ref.UID {
				return nil
			}
			since := later(o.GetCreationTimestamp().Time, lastWrite(v.Run(), ref.UID))
			if v.Now().Sub(since) <= Grace {
				return nil
			}
			return fmt.Errorf("%s %s is controlled by %s %s (%s), which was deleted %s ago",
				resource, inspect.KeyOf(o), ref.Kind, ref.Name, ref.UID, v.Now().Sub(since).Round(time.Second))
		})
	}}
}

// UniqueOwnerUID returns an invariant that is violated when an object's controller reference has,
// for longer than [Grace], the name of an existing object but another UID: a controller that finds
// its objects by the owner's name alone takes over those of an earlier owner.
func UniqueOwnerUID() Invariant {
	return Invariant{Name: "owners of the same name are not confused", Check: func(v View) error {
		return eachOwned(v, func(resource string, o *unstructured.Unstructured, ref *metav1.OwnerReference, _ map[types.UID]bool) error {
			named := namedBy(v, o.GetNamespace(), ref)
			if named == nil || named.GetUID() == ref.UID || o.GetDeletionTimestamp() != nil {
				return nil
			}
			since := later(named.GetCreationTimestamp().Time, o.GetCreationTimestamp().Time)
			if v.Now().Sub(since) <= Grace {
				return nil
			}
			return fmt.Errorf("%s %s is controlled by %s %s (%s), but the existing one is %s",
				resource, inspect.KeyOf(o), ref.Kind, ref.Name, ref.UID, named.GetUID())
		})
	}}
}

// eachOwned calls do for each object with a controller, until it returns an error. existing contains
// the UIDs of all objects.
func eachOwned(v View, do func(resource string, o *unstructured.Unstructured, ref *metav1.OwnerReference, existing map[types.UID]bool) error) error {
	resources := written(v.Run())
	existing := map[types.UID]bool{}
	for _, resource := range resources {
		for _, o := range v.List(resource) {
			existing[o.GetUID()] = true
		}
	}
	for _, resource := range resources {
		for _, o := range v.List(resource) {
			ref := metav1.GetControllerOfNoCopy(o)
			if ref == nil {
				continue
			}
			if err := do(resource, o, ref, existing); err != nil {
				return err
			}
		}
	}
	return nil
}

// written returns the resources that were written in a run, sorted: each object was created in the
// run, so there are no others.
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

// lastWrite returns when an object was last written or deleted.
func lastWrite(run *history.Run, uid types.UID) time.Time {
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
