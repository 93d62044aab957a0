package verdict

import (
	"fmt"
	"time"

	"github.com/rehearse-k8s/rehearse/history"
)

// QuiescenceOracle names the rule that a run becomes quiescent.
const QuiescenceOracle = "becomes quiescent"

// Quiescence configures when a run whose scenario has ended is over.
type Quiescence struct {
	// Quiet is how long no actor may write before the run is quiescent, without bookkeeping.
	Quiet time.Duration
	// Timeout limits the time after the scenario's last step during which actors may write.
	Timeout time.Duration
	// QuietFirst: unmet rules fail the run only once it is quiet. Use it if a check is expensive and the run
	// is on the machine's clock.
	QuietFirst bool
	// Optional: a run that is not quiescent at the timeout is over, and not failed.
	Optional bool
}

// Moment is the state of a run at one moment after the last step of its scenario.
type Moment struct {
	// Now is the time on the run's clock.
	Now time.Duration
	// Ended is the time at which the scenario had ended and no fault delayed anything.
	Ended time.Duration
	// LastWrite is the time of the last write, without bookkeeping.
	LastWrite time.Duration
	// BusySince is the time of the first write after which there was no quiet time. Actors that write without a pause
	// since then for longer than the timeout never stop. An actor that writes now and then, such as a heartbeat, does not
	// write without a pause, also if a rule does not hold and the run continues only because of that.
	BusySince time.Duration
	// Held is the total time during which faults delayed something. Every timeout is extended by it: a
	// controller whose requests failed during that time may back off for as long again, because the last of
	// several doubling delays is about as long as all before it.
	Held time.Duration
	// LastFault is the time at which a fault last took effect. If that is after Ended, the timeouts begin again, and
	// are extended by the time in between too.
	LastFault time.Duration
	// Holding: a fault delays something now, so the run cannot be over.
	Holding bool
}

// Writes are the times of writes, without bookkeeping, that a Moment contains.
type Writes struct{ Last, BusySince time.Duration }

// Add adds a write.
func (w *Writes) Add(at, quiet time.Duration) {
	if at-w.Last >= quiet {
		w.BusySince = at
	}
	w.Last = at
}

// Decision is the result of Decide. A run that is neither over nor failed continues.
type Decision struct {
	Over bool
	// Failure is the rule that the run violated, or nil.
	Failure *history.Failure
	// Wait is the maximal time until the next decision.
	Wait time.Duration
}

// maxWait limits Decision.Wait.
const maxWait = time.Hour

// Decide decides whether a run is over, failed, or continues. unmet returns the rules that do not hold now,
// and lastWriter describes the last write.
func (q Quiescence) Decide(m Moment, unmet func() []Unmet, lastWriter func() string) Decision {
	if later := m.LastFault - m.Ended; later > 0 {
		m.Ended, m.Held = m.LastFault, m.Held+later
	}
	quietIn := m.LastWrite + q.Quiet - m.Now
	d := Decision{Wait: maxWait}
	timedOut := quietIn > 0 && m.Now >= max(m.Ended, m.BusySince)+q.Timeout+m.Held
	if quietIn <= 0 || !q.QuietFirst || timedOut && q.Optional {
		all := unmet()
		if (quietIn <= 0 || timedOut && q.Optional) && len(all) == 0 && !m.Holding {
			return Decision{Over: true}
		}
		for _, u := range all {
			left := m.Ended + u.Within + m.Held - m.Now
			if left <= 0 {
				return Decision{Failure: &history.Failure{Oracle: u.Oracle, Message: u.Message, At: m.Now, AtEnd: u.Step == 0, Step: u.Step, Resource: u.Resource, Path: u.Path}}
			}
			d.Wait = min(d.Wait, left)
		}
	}
	if quietIn > 0 {
		if timedOut && !q.Optional {
			message := fmt.Sprintf("an actor still writes %s after the last step of the scenario: %s", (m.Now - m.Ended).Round(time.Millisecond), lastWriter())
			return Decision{Failure: &history.Failure{Oracle: QuiescenceOracle, Message: message, At: m.Now}}
		}
		d.Wait = min(d.Wait, quietIn)
	}
	return d
}
