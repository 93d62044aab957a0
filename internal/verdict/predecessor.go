package verdict

import (
	"errors"
	"strings"

	"github.com/rehearse-k8s/rehearse/invariant"
)

// blamePredecessor adds to a difference of the final state the write that explains it: the last write to the object, if
// its writer had observed only an earlier object of the same name. A write of that kind is no failure by itself: a
// status that follows from the spec alone, or an applied configuration, may be right for the later object too.
func (u *Unmet) blamePredecessor(d *Difference, check func(invariant.Invariant) error) {
	namespace, name, ok := objectOf(d.id)
	if !ok || d.Path == "" {
		return
	}
	subresource := ""
	if d.Path == "status" || strings.HasPrefix(d.Path, "status.") || strings.HasPrefix(d.Path, "status[") {
		subresource = "status"
	}
	if at := (*invariant.StepError)(nil); errors.As(check(invariant.NoPredecessorState(d.Resource, namespace, name, subresource)), &at) {
		u.Step, u.Message = at.Step, u.Message+"; "+at.Message
	}
}

// objectOf returns the namespace and name in the ID of an object whose name is the same in each run.
func objectOf(id string) (namespace, name string, ok bool) {
	_, key, ok := strings.Cut(id, " ")
	if !ok || strings.Contains(key, " ") {
		return "", "", false
	}
	namespace, name, ok = strings.Cut(key, "/")
	if !ok {
		return "", key, true
	}
	return namespace, name, true
}
