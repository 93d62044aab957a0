package simtest

import (
	"fmt"
	"io"

	"github.com/rehearse-k8s/rehearse/history"
)

// holdStream begins and records the hold of a stream, starting with an event.
func (w *World) holdStream(s *stream, f *frame) *hold {
	object := f.event.Object
	object.Resource = s.call.Resource
	w.add(history.Step{
		Kind: history.Fault, Actor: s.to.name, Object: object, Type: f.event.Type, Stream: s.n, Revision: f.event.Revision,
		Fault: f.Fault, Note: "held, with all that follows on its stream", Causes: []int{f.cause},
	})
	return w.newHoldOf(*f.Hold, s.to, f.event.Revision)
}

// deliver delivers the oldest event of a stream, or applies its faults.
func (w *World) deliver(s *stream) {
	f := s.pending[0]
	if f.End {
		note := "the stream ends"
		if f.Expire {
			w.expiries.Expire(s.to.name, s.call.Resource, s.call.Namespace)
			note = fmt.Sprintf("the stream expires; %d events are left to the next list", len(s.pending))
		}
		w.cutStream(s, f.Fault, note)
		return
	}
	s.pending = s.pending[1:]
	step := frameStep(s, f)
	step.Fault, step.Reply, step.Causes = f.Fault, f.Reply(), []int{f.cause}
	n := w.add(step).N
	if f.Copies == 0 {
		return
	}
	if s.to.delivered == nil {
		s.to.delivered = map[string]int64{}
	}
	s.to.delivered[s.call.Resource] = max(s.to.delivered[s.call.Resource], f.event.Revision)
	for range f.Copies {
		s.body.push(f.raw)
	}
	s.to.last = n
}

// cutStream ends a watch for its client.
func (w *World) cutStream(s *stream, because, note string) {
	step := w.add(history.Step{Kind: history.Cut, Actor: s.to.name, Object: history.Object{Resource: s.call.Resource}, Stream: s.n, Fault: because, Note: note, Causes: []int{s.opened}})
	s.to.last = step.N
	w.dropPending(s)
	s.ended = true
	s.feed.cancel()
	s.body.end(io.EOF)
}

// frameStep returns the step of an event, as far as the event determines it.
func frameStep(s *stream, f *frame) history.Step {
	step := history.Step{
		Kind: history.Frame, Actor: s.to.name, Object: f.event.Object, Type: f.event.Type, Stream: s.n,
		Revision: f.event.Revision, Code: int(f.event.Code), Digest: f.event.Digest,
	}
	step.Resource = s.call.Resource
	if f.event.InitialEnd {
		step.Note = "the end of the initial events"
	}
	return step
}

// dropPending drops the events of a stream that ends. Its client does not receive them, but faults have counted them.
func (w *World) dropPending(s *stream) {
	for _, f := range s.pending {
		w.notRecorded(frameStep(s, f))
	}
	s.pending = nil
}
