package rehearsal

import "time"

// timeouts are the durations for which a harness waits.
type timeouts struct {
	// firstRequest limits the time until a client's first request.
	firstRequest time.Duration
	// quiet is how long no actor may write before a run counts as quiescent, and settle before a settle step
	// ends.
	quiet, settle time.Duration
	// end limits the time after the last step of the scenario until what must hold at the end holds, and
	// writes the time until actors stop writing.
	end, writes time.Duration
	// finalizer limits how long a deleted object of an external cluster may wait for its finalizers. The
	// clients under test no longer run then.
	finalizer time.Duration
	// restore limits the time to restore an external cluster.
	restore time.Duration
}

var defaultTimeouts = timeouts{
	firstRequest: 30 * time.Second, quiet: time.Second, settle: 300 * time.Millisecond,
	end: 10 * time.Second, writes: 30 * time.Second, finalizer: time.Second, restore: time.Minute,
}
