package snapshot

import "time"

// Control is a command of a user to a replay.
type Control int

// The commands.
const (
	Pause  Control = iota // pause, or continue
	Next                  // apply the next change now
	Faster                // double the speed
	Slower                // halve the speed
	Stop                  // end the replay
)

// MinSpeed and MaxSpeed limit the speed of a replay, in seconds of the recording per second.
const (
	MinSpeed = 0.001
	MaxSpeed = 1000
)

// Pacer maps the time of a recording to that of a clock. It has no clock: each method gets the time.
type Pacer struct {
	speed  float64
	paused bool
	next   int           // changes to apply regardless of their time
	base   time.Time     // when the recording is at position
	at     time.Duration // the position at base
}

// NewPacer returns a pacer that is at the start of a recording. A paused one waits for Pause or Next.
func NewPacer(speed float64, paused bool, now time.Time) *Pacer {
	return &Pacer{speed: speed, paused: paused, base: now}
}

// Speed returns the seconds of the recording per second.
func (p *Pacer) Speed() float64 { return p.speed }

// Paused reports whether no change becomes due.
func (p *Pacer) Paused() bool { return p.paused }

// Position returns the time of the recording.
func (p *Pacer) Position(now time.Time) time.Duration {
	if p.paused {
		return p.at
	}
	return p.at + time.Duration(float64(now.Sub(p.base))*p.speed)
}

// Control executes a command. Stop is a matter of the caller.
func (p *Pacer) Control(c Control, now time.Time) {
	if c == Next {
		p.next++
		return
	}
	p.at, p.base = p.Position(now), now
	switch c {
	case Pause:
		p.paused = !p.paused
	case Faster:
		p.speed = min(p.speed*2, MaxSpeed)
	case Slower:
		p.speed = max(p.speed/2, MinSpeed)
	}
}

// Due returns when a change is due, which is not after now if it is to be applied now. It is zero, and ok is false, if the pacer is paused.
// Changes must be passed in their order; a change that is due is passed for the last time.
func (p *Pacer) Due(change time.Duration, now time.Time) (due time.Time, ok bool) {
	if p.next > 0 { // the recording continues at this change
		p.next--
		p.at, p.base = max(change, p.Position(now)), now
		return now, true
	}
	if p.paused {
		return time.Time{}, false
	}
	return p.base.Add(time.Duration(float64(change-p.at) / p.speed)), true
}
