package verdict

import (
	"fmt"
	"time"

	"github.com/rehearse-k8s/rehearse/history"
)

// QuiescenceOracle names the rule that a run becomes quiescent.
const QuiescenceOracle = "becomes quiescent"

// Quiescence says when a run whose scenario has ended is over.
type Quiescence struct {
	// Quiet is how long nothing may have been written, bookkeeping aside.
	Quiet time.Duration
	// Timeout is how long after the scenario's last step actors may write.
	Timeout time.Duration
	// QuietFirst says that unmet rules fail the run only once it is quiet. Where a check is
	// expensive and time is the machine's, they are not checked before.
	QuietFirst bool
}

// Moment is a run at one moment after the last step of its scenario.
type Moment struct {
	// Now is the run's clock.
	Now time.Duration
	// Ended is when the scenario had ended and no fault held anything back.
	Ended time.Duration
	// LastWrite is when an actor last wrote something, bookkeeping aside.
	LastWrite time.Duration
	// Held is for how long faults held something back, in all. Every timeout is longer by that much:
	// a controller whose requests failed for so long may back off for as long again, since delays
	// that double are about as long as all delays before them.
	Held time.Duration
	// Holding says that a fault holds something back now: the run cannot be over.
	Holding bool
}

// Decision is what Decide concludes. If the run is neither over nor failed, it goes on.
type Decision struct {
	Over bool
	// Failure is the rule that the run violated; nil: none.
	Failure *history.Failure
	// Wait is how long to wait at most before deciding again.
	Wait time.Duration
}

// maxWait bounds Decision.Wait.
const maxWait = time.Hour

// Decide decides whether a run is over, failed, or goes on. unmet returns the rules that do not hold
// now, and lastWriter describes the last write.
func (q Quiescence) Decide(m Moment, unmet func() []Unmet, lastWriter func() string) Decision {
	quietIn := m.LastWrite + q.Quiet - m.Now
	d := Decision{Wait: maxWait}
	if quietIn <= 0 || !q.QuietFirst {
		all := unmet()
		if quietIn <= 0 && len(all) == 0 && !m.Holding {
			return Decision{Over: true}
		}
		for _, u := range all {
			left := m.Ended + u.Within + m.Held - m.Now
			if left <= 0 {
				return m.fails(u.Oracle, u.Message)
			}
			d.Wait = min(d.Wait, left)
		}
	}
	if quietIn > 0 {
		if m.Now >= m.Ended+q.Timeout+m.Held {
			return m.fails(QuiescenceOracle, fmt.Sprintf("an actor still writes %s after the last step of the scenario: %s", (m.Now-m.Ended).Round(time.Millisecond), lastWriter()))
		}
		d.Wait = min(d.Wait, quietIn)
	}
	return d
}

func (m Moment) fails(oracle, message string) Decision {
	return Decision{Failure: &history.Failure{Oracle: oracle, Message: message, At: m.Now}}
}
