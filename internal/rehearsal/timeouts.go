package rehearsal

import (
	"time"

	"github.com/rehearse-k8s/rehearse/internal/proxy"
	"github.com/rehearse-k8s/rehearse/internal/verdict"
)

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
	// observe is for how long a run is observed after its end, to learn which fields change later: twice a resync of
	// 30 s. It is also the longest time for which a difference of a final state is given time to disappear.
	observe time.Duration
	// finalizer limits how long a deleted object of an external cluster may wait for its finalizers. The
	// clients under test no longer run then.
	finalizer time.Duration
	// recreate limits how long the user waits for an object that a fault deletes and creates again.
	recreate time.Duration
	// collect is how long an object exists after a fault has deleted all its owners, in a run without a garbage collector.
	collect time.Duration
	// restore limits the time to restore an external cluster.
	restore time.Duration
}

var defaultTimeouts = timeouts{
	firstRequest: 30 * time.Second, quiet: time.Second, settle: 300 * time.Millisecond,
	end: 10 * time.Second, writes: 30 * time.Second, observe: time.Minute, finalizer: time.Second, recreate: proxy.Longest, collect: time.Second, restore: time.Minute,
}

// differenceTimeout is how long a run may differ from the runs without faults: longer than their longest period, with a bound.
func (t timeouts) differenceTimeout(periodic []verdict.Periodic) time.Duration {
	return max(t.end, min(verdict.DifferenceTimeout(t.end, periodic), t.observe))
}
