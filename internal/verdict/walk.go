package verdict

import (
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/rehearse-k8s/rehearse/history"
)

// Walk replays a record from its first step: after each step that changed an object, it calls visit with the
// objects and the record up to that step, until visit returns false. changes are those that Take returned, by
// the step that wrote them. Walk returns the objects after the last step.
//
// It is for runs on the machine's clock, where a write and its record arrive at different times.
func (o *Objects) Walk(record *history.Run, changes map[int][]Change, visit func(*Objects) bool) *Objects {
	sofar := &history.Run{Header: record.Header}
	walked := &Objects{start: o.start, revision: o.start, initial: o.initial, entries: maps.Clone(o.initial), sorted: map[string][]*unstructured.Unstructured{}}
	walked.o = o.o
	walked.o.Run = func() *history.Run { return sofar }
	walked.o.Elapsed = func() time.Duration { return sofar.Steps[len(sofar.Steps)-1].At }
	walked.o.Now = func() time.Time { return record.Start.Add(walked.o.Elapsed()) }
	for n := range record.Steps {
		sofar.Steps = record.Steps[:n+1]
		for _, c := range changes[n] {
			walked.apply(c)
		}
		if len(changes[n]) > 0 && !visit(walked) {
			break
		}
	}
	sofar.Steps = record.Steps
	walked.o.Now, walked.o.Elapsed = o.o.Now, o.o.Elapsed
	return walked
}
