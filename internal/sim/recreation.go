package sim

import (
	"net/http"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/history"
)

// discardRejected discards a run in which a fault deleted an object of the user and could not create it again, because
// the API rejected the create, for example in a namespace that is being deleted. The user would not leave it at that, so
// what is missing at the end of the run says nothing about the controllers. Any other failure, such as a panic, counts.
func (out *Outcome) discardRejected() {
	failure := out.Run.Failure
	if out.Final || failure != nil && !failure.AtEnd {
		return
	}
	for _, f := range out.Plan.Faults {
		if f.Kind == fault.KindRecreate && isRejected(out.Run, f) {
			out.discarded, out.Unmet = true, append(out.Unmet, f)
			out.Run.Failure, out.Seen, out.Reports = nil, nil, nil
			return
		}
	}
}

// isRejected reports whether the API rejected each create of a fault. An object that exists already was created by a
// controller.
func isRejected(run *history.Run, f fault.Fault) (rejected bool) {
	text := f.String()
	for i := range run.Steps {
		s := &run.Steps[i]
		if s.Kind != history.Request || s.Actor != history.OtherUser || s.Verb != "create" || s.Fault != text {
			continue
		}
		if s.Code < http.StatusBadRequest || s.Code == http.StatusConflict {
			return false
		}
		rejected = true
	}
	return rejected
}
