package inject

import "github.com/rehearse-k8s/rehearse/fault"

// Delivery is what happens to one watch event when its turn comes on its stream. Events keep their order: a
// held event delays all that follow it on the same stream.
type Delivery struct {
	// Fault is the text of the fault that the event's step names; empty: no fault applied.
	Fault string
	// Hold is the fault that holds the event, or nil. The hold begins when the event arrives, not when its
	// turn comes.
	Hold *fault.Fault
	// End: the stream ends in place of the event. Expire: the client's next watch from a revision is then
	// answered 410.
	End, Expire bool
	// Copies is the number of times that the client receives the event: 0, 1 or 2.
	Copies int
}

// OnEvent decides about a watch event that has just arrived from the server. hits are the faults that apply
// to it, in the order of the plan.
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

// Expiries are the watches that a relist fault has expired and that have not been answered 410 yet. The zero
// value is empty.
type Expiries struct{ watches map[expiry]bool }

type expiry struct{ actor, resource, namespace string }

// Expire causes the actor's next watch of the resource from a revision to be answered 410.
func (e *Expiries) Expire(actor, resource, namespace string) {
	if e.watches == nil {
		e.watches = map[expiry]bool{}
	}
	e.watches[expiry{actor, resource, namespace}] = true
}

// Request reports whether a request is to be answered 410. resumes: it is a watch from a revision. Each
// expiry is used once; a list removes it.
func (e *Expiries) Request(actor, verb, resource, namespace string, resumes bool) (expired bool) {
	key := expiry{actor, resource, namespace}
	expired = resumes && e.watches[key]
	if expired || verb == "list" {
		delete(e.watches, key)
	}
	return expired
}
