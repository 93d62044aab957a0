package inject

import "github.com/rehearse-k8s/rehearse/fault"

// Delivery is what happens to one watch event when its turn comes on its stream. Events
// keep their order: a held event holds all that follow it on the same stream.
type Delivery struct {
	// Fault is the text of the fault that the event's step names; empty: none acted on it.
	Fault string
	// Hold is the fault that holds the event; nil: none does. It begins when the event
	// arrives, not when its turn comes.
	Hold *fault.Fault
	// End says that the stream ends in place of the event. Expire says that the client's next
	// watch from a revision is answered 410 then.
	End, Expire bool
	// Copies is how many times the client receives the event: 0, 1 or 2.
	Copies int
}

// OnEvent decides on a watch event that has just arrived from the server. hits are the faults
// that met it, in the order of the plan.
func OnEvent(hits []fault.Fault) Delivery {
	d := Delivery{Copies: 1}
	lost := false
	for _, f := range hits {
		d.Fault = f.String()
		switch f.Kind {
		case fault.KindLag:
			d.Hold = &f
		case fault.KindRelist:
			d.Hold, d.End, d.Expire = &f, true, true
		case fault.KindDisconnect:
			d.End = true
		case fault.KindDropBookmark, fault.KindLoseEvent:
			lost = true
		case fault.KindRepeatEvent:
			d.Copies = 2
		}
	}
	if lost {
		d.Copies = 0
	}
	return d
}

// Reply is the Reply of the event's step.
func (d *Delivery) Reply() string {
	switch d.Copies {
	case 0:
		return ReplyLost
	case 2:
		return ReplyTwice
	}
	return ""
}

// Expiries are the watches that a relist fault has expired and that the API server has not
// yet answered so. The zero value is empty.
type Expiries struct{ watches map[expiry]bool }

type expiry struct{ actor, resource, namespace string }

// Expire makes the actor's next watch of the resource from a revision be answered 410.
func (e *Expiries) Expire(actor, resource, namespace string) {
	if e.watches == nil {
		e.watches = map[expiry]bool{}
	}
	e.watches[expiry{actor, resource, namespace}] = true
}

// Request reports whether a request is to be answered 410: resumes says that it is a watch
// from a revision. It is answered so once; a list makes it unnecessary.
func (e *Expiries) Request(actor, verb, resource, namespace string, resumes bool) (expired bool) {
	key := expiry{actor, resource, namespace}
	expired = resumes && e.watches[key]
	if expired || verb == "list" {
		delete(e.watches, key)
	}
	return expired
}
