package inject

import (
	"reflect"
	"slices"

	"github.com/rehearse-k8s/rehearse/fault"
)

// Combine reports whether a further fault at the same request or event has an effect together with those of a plan that act there: what then
// happens is neither what happens without it, nor what happens with it alone. After a crash before a request, for example, no other fault acts on
// the request.
func Combine(hits []fault.Fault, f fault.Fault) bool {
	together := fateOf(append(slices.Clone(hits), f))
	return !reflect.DeepEqual(together, fateOf(hits)) && !reflect.DeepEqual(together, fateOf([]fault.Fault{f}))
}

// fate is what some faults do to a request or an event, apart from the names of the faults that decided it.
type fate struct {
	late      fault.Fault
	decisions []Decision
	after     Outcome
	event     Delivery
}

func fateOf(hits []fault.Fault) fate {
	all := fate{event: OnEvent(hits)}
	all.event.Fault = ""
	all.late, _ = Delay(hits)
	rest := hits
	for {
		d := BeforeServing(rest)
		rest, d.Rest = d.Rest, nil
		all.decisions = append(all.decisions, d)
		code := 200
		switch d.Action {
		case Crash, Depose:
			return all
		case Pause, Contend, Block:
			blocked, ok := Blocked(d.Fault, false)
			if !ok {
				continue
			}
			d, code = blocked, blocked.Rejection.Code
		case Reject:
			code = d.Rejection.Code
		case Drop:
			code = 0
		}
		all.after = AfterServing(hits, d, code)
		all.after.Fault = ""
		if all.after.Discarded { // the client is terminated
			all.after = Outcome{Discarded: true, Then: all.after.Then}
		}
		return all
	}
}
