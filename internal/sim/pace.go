package sim

import (
	"time"

	"github.com/rehearse-k8s/rehearse/fault"
)

// Pace lists the durations of faults to try, the shortest first: until nothing else can happen (the zero
// value), for one or more writes by any actor, and for times.
type Pace struct {
	lags, holds, pauses []fault.Fault
	// whiles are the durations for which a second instance runs, or an additional finalizer stays.
	whiles []fault.Fault
	// partitions are those of partitions. A timed one is longer than a client waits for the answer to the first write that it blocks: otherwise it
	// blocks no other, as a timeout does.
	partitions []fault.Fault
	// longer are holds that may raise the rate of a failure that reproduces rarely, the shortest first.
	longer []time.Duration
	// randomNames: generated names differ between runs.
	randomNames bool
}

// Virtual is the pace of virtual time, which costs nothing: it exceeds the usual delays of controllers, such
// as retries, resyncs of a cache and expectations that expire.
var Virtual = Pace{
	lags:       []fault.Fault{{}, {Writes: 1}, {For: 40 * time.Second}, {Writes: 2}, {For: 3 * time.Second}, {Writes: 3}, {For: 6 * time.Minute}},
	holds:      []fault.Fault{{}, {Writes: 1}, {For: 20 * time.Second}, {Writes: 2}},
	pauses:     []fault.Fault{{For: 20 * time.Second}, {For: time.Minute}},
	whiles:     []fault.Fault{{}, {For: 30 * time.Second}},
	partitions: []fault.Fault{{}, {For: time.Minute}},
	longer:     []time.Duration{40 * time.Second, 6 * time.Minute},
}

// Live is the pace of runs on the machine's clock. It has no delays of minutes.
var Live = Pace{
	lags:        []fault.Fault{{}, {Writes: 1}, {Writes: 2}, {For: 2 * time.Second}, {Writes: 3}},
	holds:       []fault.Fault{{}, {Writes: 1}, {For: 2 * time.Second}},
	pauses:      []fault.Fault{{For: 2 * time.Second}},
	whiles:      []fault.Fault{{}, {For: 2 * time.Second}},
	partitions:  []fault.Fault{{}, {For: 5 * time.Second}},
	longer:      []time.Duration{2 * time.Second, 5 * time.Second},
	randomNames: true,
}
