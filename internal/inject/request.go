package inject

import (
	"slices"
	"time"

	"github.com/rehearse-k8s/rehearse/fault"
)

// Delay returns the fault that holds a request before it is processed; ok is false if there is no such fault.
// hits are the faults that apply to the request, in the order of the plan.
func Delay(hits []fault.Fault) (f fault.Fault, ok bool) {
	for _, f := range hits {
		if f.Kind == fault.KindLateRequest {
			return f, true
		}
	}
	return fault.Fault{}, false
}

// Action is what happens to a request when its turn comes.
type Action int

const (
	// Serve sends the request to the API server.
	Serve Action = iota
	// Pause stops the client: a [Hold] of the fault holds everything that the client sends and receives,
	// including this request. Afterwards, decide again with Decision.Rest.
	Pause
	// Reject answers the request with Decision.Rejection. The request has no effect.
	Reject
	// Drop discards the request. It has no effect, and the client receives no answer until it times out.
	Drop
	// Crash terminates the client before the request has an effect.
	Crash
	// Contend lets another user write the object first (see [NewInterference]). Afterwards, decide again with
	// Decision.Rest: the API answers the request as it answers any write that is based on an old object.
	Contend
	// Depose terminates the client, whose request is on its way, and starts its successor. A [Hold] of the
	// fault holds the request, then the API serves it. No other fault acts on it, and no client receives
	// the answer.
	Depose
	// ServeOld serves a list as of Decision.AsOf, an older revision. [OldLists] completes the decision.
	ServeOld
	// Block begins an outage or a partition of the client, or its connection to another server, for which a [Hold] of the fault lasts: [Blocked] decides about
	// its requests meanwhile, including this one. At the beginning of an outage (see [EndsStreams]) all its watches end.
	Block
)

// Rejection is the answer to a rejected request.
type Rejection struct {
	// Code is the HTTP status code: 403, 410, 429, 500 or 503.
	Code int
	// Unknown says that a 500 comes from a server that does not know whether the request took effect.
	Unknown bool
	// Quota says that a 403 comes from a ResourceQuota, and not from an admission webhook.
	Quota bool
	// RetryAfter is how long the client has to wait; set for 429.
	RetryAfter time.Duration
}

// Decision is what happens to a request before the API server sees it.
type Decision struct {
	Action Action
	// Fault causes the action; zero for Serve.
	Fault fault.Fault
	// Rejection is the answer for Reject.
	Rejection Rejection
	// AsOf is the revision for ServeOld.
	AsOf int64
	// OldState, for Crash: the next instance lists an older state.
	OldState bool
	// Rest are the other faults, for the decision after a pause or another user's write.
	Rest []fault.Fault
}

// Text is the text of the fault; empty for Serve.
func (d *Decision) Text() string {
	if d.Action == Serve {
		return ""
	}
	return d.Fault.String()
}

// minRetryAfter is the smallest Retry-After that a header can express.
const minRetryAfter = time.Second

// BeforeServing decides about a request whose turn has come. The first fault of the plan that rejects or
// drops the request, crashes or pauses the client determines the decision.
func BeforeServing(hits []fault.Fault) Decision {
	for _, f := range hits {
		d := Decision{Fault: f}
		switch f.Kind {
		case fault.KindConflict:
			d.Action = Contend
		case fault.KindThrottle:
			d.Action, d.Rejection = Reject, Rejection{Code: 429, RetryAfter: max(f.For, minRetryAfter)}
		case fault.KindError:
			d.Action, d.Rejection = Reject, Rejection{Code: 500}
		case fault.KindQuota:
			d.Action, d.Rejection = Reject, Rejection{Code: 403, Quota: true}
		case fault.KindDeny:
			d.Action, d.Rejection = Reject, Rejection{Code: 403}
		case fault.KindTimeout:
			d.Action = Drop
		case fault.KindCrashBefore, fault.KindCrash:
			d.Action = Crash
		case fault.KindTimeTravel:
			d.Action, d.OldState = Crash, true
		case fault.KindPause:
			d.Action = Pause
		case fault.KindDeposedWrite:
			d.Action = Depose
		case fault.KindExpiredPage:
			d.Action, d.Rejection = Reject, Rejection{Code: 410}
		case fault.KindStaleList:
			d.Action, d.Rejection = ServeOld, Rejection{Code: 500}
		case fault.KindOutage, fault.KindPartition, fault.KindOtherServer:
			d.Action = Block
		default:
			continue
		}
		d.Rest = slices.DeleteFunc(slices.Clone(hits), func(g fault.Fault) bool { return g == f })
		return d
	}
	return Decision{Action: Serve}
}

// Blocked decides about a request of a client during an outage or a partition; ok is false if the fault does not act on the
// request.
func Blocked(f fault.Fault, write bool) (d Decision, ok bool) {
	switch {
	case f.Kind == fault.KindOutage:
		return Decision{Action: Reject, Fault: f, Rejection: Rejection{Code: 503}}, true
	case f.Kind == fault.KindPartition && write:
		return Decision{Action: Drop, Fault: f}, true
	}
	return Decision{}, false
}

// EndsStreams reports whether the client loses its watches when the fault begins.
func EndsStreams(f fault.Fault) bool {
	return f.Kind == fault.KindOutage || f.Kind == fault.KindOtherServer
}

// Lags reports whether the watches that the client opens before the hold of the fault ends deliver nothing until then, and its
// lists are answered from the state at which the hold began, if they permit that.
func Lags(f fault.Fault) bool { return f.Kind == fault.KindOtherServer }

// Beginning describes, for the record, how a fault of which [BeforeServing] returns Block begins.
func Beginning(f fault.Fault) string {
	switch f.Kind {
	case fault.KindOutage:
		return "the API is unavailable to it"
	case fault.KindOtherServer:
		return "it is connected to another server, whose watch caches are behind"
	}
	return "its writes get no answer"
}

// The values of history.Step.Reply: the fate of an answer or event that does not reach the client in its own
// step, once.
const (
	ReplyLost  = "lost"
	ReplyLate  = "late"
	ReplyTwice = "twice"
	// ReplyError is the fate of an answer in whose place the client received an error.
	ReplyError = "error"
)

// Effect is a consequence of a request that was answered.
type Effect int

const (
	// Terminate terminates the client, which did not receive the answer, and starts it again.
	Terminate Effect = iota
	// StartSecond starts a second instance of the client; the first one continues for a while.
	StartSecond
	// Interfere changes the target of the fault as another user, or else the object that the request wrote.
	Interfere
)

// Consequence is an effect and the fault that causes it.
type Consequence struct {
	Effect Effect
	Fault  fault.Fault
}

// Outcome is what happens to the answer of a request.
type Outcome struct {
	// Fault is the text of the fault that the request's step names; empty: no fault applied to the answer.
	Fault string
	// Reply is the Reply of the request's step.
	Reply string
	// Lost: the client's connection breaks in place of the answer.
	Lost bool
	// Instead is the answer that the client receives in place of the server's, or nil.
	Instead *Rejection
	// Discarded: the client receives nothing, because it terminates.
	Discarded bool
	// Delay is the fault that holds the answer, or nil.
	Delay *fault.Fault
	// Then are the consequences, in this order.
	Then []Consequence
}

// AfterServing decides about an answer. before is the decision about the request, which may have been
// rejected or dropped; code is the HTTP status code of the answer.
func AfterServing(hits []fault.Fault, before Decision, code int) Outcome {
	o := Outcome{}
	if before.Action == Drop {
		o.Reply = ReplyLost
	}
	for _, f := range hits {
		switch f.Kind {
		case fault.KindLostAnswer:
			o.Fault, o.Reply, o.Lost = f.String(), ReplyLost, true
		case fault.KindErrorAfter:
			if code/100 == 2 {
				o.Fault, o.Reply, o.Instead = f.String(), ReplyError, &Rejection{Code: 500, Unknown: true}
			}
		case fault.KindLateAnswer:
			o.Fault, o.Reply, o.Delay = f.String(), ReplyLate, &f
		case fault.KindCrashAfter:
			if o.startsAnother(Consequence{Terminate, f}) {
				o.Reply, o.Discarded = ReplyLost, true
			}
		case fault.KindOverlap:
			o.startsAnother(Consequence{StartSecond, f})
		case fault.KindDelete, fault.KindEvict, fault.KindLabel, fault.KindFinalizer, fault.KindRecreate, fault.KindEdit:
			if code/100 == 2 {
				o.Then = append(o.Then, Consequence{Interfere, f})
			}
		}
	}
	return o
}

// startsAnother adds a consequence that starts an instance, unless there is one already: if each of two faults that meet
// a request started an instance, the client would have one too many for ever, which no Deployment has.
func (o *Outcome) startsAnother(c Consequence) bool {
	for _, then := range o.Then {
		if then.Effect != Interfere {
			return false
		}
	}
	o.Then = append(o.Then, c)
	return true
}
