package sim

import (
	"net/http"
	"slices"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/history"
)

// rejectedRecreation returns the fault that deleted an object of the user and could not create it again, because the
// API rejected the create, for example for a quota; nil if there is none. The user would not leave it at that, so the
// run says nothing about the controllers. An object that exists already was created by a controller.
func rejectedRecreation(run *history.Run, faults []fault.Fault) *fault.Fault {
	for n := range faults {
		f := &faults[n]
		if f.Kind == fault.KindRecreate && slices.ContainsFunc(run.Steps, func(s history.Step) bool {
			return s.Kind == history.Request && s.Actor == history.OtherUser && s.Verb == "create" && s.Fault == f.String() &&
				s.Code >= http.StatusBadRequest && s.Code != http.StatusConflict
		}) {
			return f
		}
	}
	return nil
}
