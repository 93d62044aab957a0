package snapshot

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestPacer tests the commands with a clock of the test.
func TestPacer(t *testing.T) {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	at := func(s float64) time.Time { return start.Add(time.Duration(s * float64(time.Second))) }
	p := NewPacer(1, false, start)
	expect := func(what string, change time.Duration, now, due float64) {
		t.Helper()
		got, ok := p.Due(change, at(now))
		if !ok || !got.Equal(at(due)) {
			t.Errorf("%s: due %s, %v; want %s", what, got.Sub(start), ok, at(due).Sub(start))
		}
	}
	expect("speed 1", 10*time.Second, 0, 10)
	p.Control(Faster, at(2))
	expect("speed 2 from second 2", 10*time.Second, 2, 6)
	p.Control(Pause, at(4))
	if _, ok := p.Due(10*time.Second, at(60)); ok || !p.Paused() || p.Position(at(60)) != 6*time.Second {
		t.Errorf("paused: due %v at %s", ok, p.Position(at(60)))
	}
	p.Control(Next, at(60))
	expect("next", 10*time.Second, 60, 60)
	if _, ok := p.Due(11*time.Second, at(61)); ok || p.Position(at(61)) != 10*time.Second {
		t.Errorf("next applies one change: at %s", p.Position(at(61)))
	}
	p.Control(Pause, at(70))
	expect("continued at the next change", 12*time.Second, 70, 71)
	p.Control(Slower, at(70.5))
	expect("speed 1 from second 11", 12*time.Second, 70.5, 71.5)
	p.Control(Next, at(70.5))
	expect("next without a pause", 20*time.Second, 70.5, 70.5)
	expect("the recording continues there", 21*time.Second, 70.5, 71.5)
	for range 50 {
		p.Control(Faster, at(71))
	}
	if p.Speed() != MaxSpeed {
		t.Error(p.Speed())
	}
	for range 50 {
		p.Control(Slower, at(71))
	}
	if p.Speed() != MinSpeed {
		t.Error(p.Speed())
	}
}

// TestPacerProperty: the position never goes back, whatever the commands, and a change is due exactly when the position reaches it.
func TestPacerProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.Unix(0, 0)
		p := NewPacer(rapid.Float64Range(0.1, 10).Draw(t, "speed"), rapid.Bool().Draw(t, "paused"), now)
		for range rapid.IntRange(0, 20).Draw(t, "steps") {
			before := p.Position(now)
			switch n := rapid.IntRange(0, 4).Draw(t, "step"); n {
			case 4:
				now = now.Add(time.Duration(rapid.Int64Range(0, 1e10).Draw(t, "pause")))
			default:
				p.Control(Control(n), now)
			}
			if p.Position(now) < before {
				t.Fatalf("the position went back from %s to %s", before, p.Position(now))
			}
			change := p.Position(now) + time.Duration(rapid.Int64Range(0, 1e10).Draw(t, "change"))
			if due, ok := p.Due(change, now); ok && due.After(now) {
				if d := p.Position(due) - change; d.Abs() > time.Microsecond {
					t.Fatalf("the position is %s away from the change when it is due", d)
				}
			}
		}
	})
}
