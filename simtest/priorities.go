package simtest

import (
	"math"
	"strconv"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/verdict"
)

// A run with a schedule chooses the next action by priorities. Actions of one chain stay in their order: the requests
// and answers of one actor, and the lists, watches and events of one resource for one actor. All other orders are legal,
// because these actions arrive over different connections or streams.

// chain names what must stay in order.
type chain string

// requestChain returns the chain of a request and its answer. Lists and watches belong to the events that follow them.
func (w *World) requestChain(q *request) chain {
	switch q.call.Verb {
	case "list", "watch":
		return w.watchChain(q.from, q.call.Resource, q.call.Namespace)
	}
	return chain(q.from.name)
}

// watchChain returns the chain of the events of a resource for an instance. A trusted controller has one chain for
// everything: its actions stay in the order in which they became possible.
func (w *World) watchChain(to *instance, resource, namespace string) chain {
	if to.actor == nil || verdict.IsTrusted(w.policy.Trusted, to.name) {
		return chain(to.name)
	}
	return chain(to.name + " " + resource + " " + namespace)
}

// maxWait is the number of steps after which an action precedes those with higher priorities. Without this limit an
// actor that retries at once could delay for ever the event that it waits for. A watch request and then its first event may both
// wait so long, while the actor sends fewer equal requests than count as a hot loop.
const maxWait = 20

// priorities choose the next action according to a schedule.
type priorities struct {
	history.Schedule
	choices int              // how often several chains had an action that could be next
	points  map[int]uint64   // choice -> the number of its change point, from 1
	ranks   map[chain]uint64 // a higher one precedes
}

// newPriorities returns the priorities of a schedule.
func newPriorities(s history.Schedule) priorities {
	p := priorities{Schedule: s}
	if s.IsZero() {
		return p
	}
	p.points, p.ranks = map[int]uint64{}, map[chain]uint64{}
	for n := 1; n < s.Depth; n++ {
		at := 1 + fault.Pick(max(1, s.Choices), s.Seed, "change point", strconv.Itoa(n))
		for p.points[at] != 0 {
			at++
		}
		p.points[at] = uint64(n)
	}
	return p
}

// rank returns the priority of a chain. It depends on the schedule's seed and the chain's name, until a change point.
func (p *priorities) rank(c chain) uint64 {
	r, known := p.ranks[c]
	if !known {
		r = fault.Draw(p.Seed, "chain", string(c)) | 1<<63
		p.ranks[c] = r
	}
	return r
}

// changes counts a choice whose result is the chain best. It returns true if the choice is a change point: best now has a priority
// below all others, and the choice must be made again.
func (p *priorities) changes(best chain) bool {
	p.choices++
	n, ok := p.points[p.choices]
	if ok {
		p.ranks[best] = n
	}
	return ok
}

// ready is an action that may be next.
type ready struct {
	place
	chain chain
	do    func()
}

// urgency returns the priority of an action at a step: that of its chain, unless the action has waited too long or must
// precede all others (contends, contended).
func (p *priorities) urgency(a *ready, step int) uint64 {
	switch {
	case p.IsZero():
		return 0
	case a.age < 0, step-a.age > maxWait:
		return math.MaxUint64
	}
	return p.rank(a.chain)
}

// precedes reports whether action a is before b.
func (p *priorities) precedes(a, b *ready, step int) bool {
	if x, y := p.urgency(a, step), p.urgency(b, step); x != y {
		return x > y
	}
	return a.before(b.place)
}

// splits reports whether the answer to a request becomes an action of its own, because events for the same instance
// have a higher priority. Otherwise the client receives it in the step of the request.
func (w *World) splits(p *parked) bool {
	o := &w.priorities
	if o.IsZero() || p.call.Verb == "list" || p.call.Verb == "watch" || p.reply == nil {
		return false
	}
	own := o.rank(p.chain)
	for _, s := range p.from.streams {
		if o.rank(s.chain) > own {
			return true
		}
	}
	return false
}
