package truth

import (
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/rehearse-k8s/rehearse/history"
)

// Again shows the world once more as each step of a record has left it, from the beginning:
// seen is called after each step that changed something, with the record up to that step,
// until it says that it wants no more. changes are those that Follow told, by the step that
// made them. It returns the world as it was in the end.
//
// It is for runs by the machine's clock, where a write and its record come at different
// times.
func (t *Truth) Again(record *history.Run, changes map[int][]Change, seen func(*Truth) bool) *Truth {
	grown := &history.Run{Header: record.Header}
	again := &Truth{base: t.base, read: t.base, first: t.first, entries: maps.Clone(t.first), sorted: map[string][]*unstructured.Unstructured{}}
	again.o = t.o
	again.o.Run = func() *history.Run { return grown }
	again.o.Elapsed = func() time.Duration { return grown.Steps[len(grown.Steps)-1].At }
	again.o.Now = func() time.Time { return record.Start.Add(again.o.Elapsed()) }
	for n := range record.Steps {
		grown.Steps = record.Steps[:n+1]
		for _, c := range changes[n] {
			again.take(c)
		}
		if len(changes[n]) > 0 && !seen(again) {
			break
		}
	}
	grown.Steps = record.Steps
	again.o.Now, again.o.Elapsed = t.o.Now, t.o.Elapsed
	return again
}
