package rehearsal

import "time"

// timeouts are how long a harness waits for things.
type timeouts struct {
	// firstRequest is how long a client may take until its first request.
	firstRequest time.Duration
	// quiet is how long nothing may have been written before a run counts as quiescent, and settle
	// before a step of the scenario continues.
	quiet, settle time.Duration
	// end is how long after the last step of the scenario a run may take to satisfy what must hold at
	// its end, and writes how long actors may write.
	end, writes time.Duration
	// finalizer is how long a deleted object of an external cluster may wait for its finalizers: the
	// clients under test no longer run by then.
	finalizer time.Duration
	// restore is how long restoring an external cluster may take.
	restore time.Duration
}

var defaultTimeouts = timeouts{
	firstRequest: 30 * time.Second, quiet: time.Second, settle: 300 * time.Millisecond,
	end: 10 * time.Second, writes: 30 * time.Second, finalizer: time.Second, restore: time.Minute,
}
