package sim

import (
	"time"

	"github.com/rehearse-k8s/rehearse/fault"
)

// Pace says for how long faults hold things back, the shortest first: until nothing else
// can happen, over one or two writes of anybody, and for times.
type Pace struct {
	lags, holds, pauses []fault.Fault
	// whiles are how long a second instance or a foreign finalizer is there.
	whiles []fault.Fault
	// chance: names that the API server makes up are others in every run.
	chance bool
}

// Virtual is for runs whose time costs nothing: times that pass the usual delays of
// controllers, such as retries, resyncs of a cache and expectations that expire.
var Virtual = Pace{
	lags:   []fault.Fault{{}, {Writes: 1}, {For: 40 * time.Second}, {Writes: 2}, {For: 3 * time.Second}, {Writes: 3}, {For: 6 * time.Minute}},
	holds:  []fault.Fault{{}, {Writes: 1}, {For: 20 * time.Second}, {Writes: 2}},
	pauses: []fault.Fault{{For: 20 * time.Second}, {For: time.Minute}},
	whiles: []fault.Fault{{}, {For: 30 * time.Second}},
}

// Live is for runs by the machine's clock. Delays of minutes are not tried there.
var Live = Pace{
	lags:   []fault.Fault{{}, {Writes: 1}, {Writes: 2}, {For: 2 * time.Second}, {Writes: 3}},
	holds:  []fault.Fault{{}, {Writes: 1}, {For: 2 * time.Second}},
	pauses: []fault.Fault{{For: 2 * time.Second}},
	whiles: []fault.Fault{{}, {For: 2 * time.Second}},
	chance: true,
}
