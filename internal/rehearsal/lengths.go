package rehearsal

import "time"

// lengths are how long things are waited for.
type lengths struct {
	// begin is how long a client may take to its first request.
	begin time.Duration
	// calm is how long nobody may have written anything before a run counts as come to
	// rest, and settle before a step of the story goes on.
	calm, settle time.Duration
	// patience is how long after the story a world may take to come to rest, and to the
	// state of a run without faults.
	patience time.Duration
	// restless is how long after the story somebody may write.
	restless time.Duration
	// clinging is how long an object of a cluster of somebody else that is deleted may wait for
	// whoever has put finalizers on it: the clients under test are gone by then.
	clinging time.Duration
	// restoring is how long such a cluster may take to be as it was before.
	restoring time.Duration
}

var defaultLengths = lengths{begin: 30 * time.Second, calm: time.Second, settle: 300 * time.Millisecond, patience: 10 * time.Second, restless: 30 * time.Second, clinging: time.Second, restoring: time.Minute}
