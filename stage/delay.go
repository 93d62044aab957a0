package stage

import (
	"time"

	"github.com/rehearse-k8s/rehearse/api/kwok/v1alpha1"
	"github.com/rehearse-k8s/rehearse/stage/expr"
)

// delay is the compiled spec.delay.
type delay struct {
	base       time.Duration
	hasBase    bool
	baseFrom   *Expression
	jitter     time.Duration
	hasJitter  bool
	jitterFrom *Expression
}

func (c *compiling) compileDelay(d *v1alpha1.StageDelay) (*delay, *Error) {
	if d == nil {
		return nil, nil
	}
	out := &delay{}
	if d.DurationMilliseconds != nil {
		out.base, out.hasBase = milliseconds(*d.DurationMilliseconds), true
	}
	if d.JitterDurationMilliseconds != nil {
		out.jitter, out.hasJitter = milliseconds(*d.JitterDurationMilliseconds), true
	}
	var err *Error
	if out.baseFrom, err = c.compileFrom("spec.delay.durationFrom", d.DurationFrom); err != nil {
		return nil, err
	}
	if out.jitterFrom, err = c.compileFrom("spec.delay.jitterDurationFrom", d.JitterDurationFrom); err != nil {
		return nil, err
	}
	if out.hasJitter && out.baseFrom == nil && out.jitterFrom == nil && out.jitter < out.base {
		c.warn("spec.delay.jitterDurationMilliseconds", "is below durationMilliseconds, and so it is the delay itself: the jitter is the upper bound of the whole delay")
	}
	return out, nil
}

func milliseconds(n int64) time.Duration {
	const most = int64(1<<63-1) / int64(time.Millisecond)
	return time.Duration(min(max(n, -most), most)) * time.Millisecond
}

// mayHold reports whether the stage is held if the expression for its delay fails: there is no fixed duration.
func (d *delay) mayHold() bool {
	return d != nil && (d.baseFrom != nil && !d.hasBase || d.baseFrom == nil && d.jitterFrom != nil && !d.hasJitter && !d.hasBase)
}

// after returns the delay, counted from since, the time at which the stage was chosen. The rules are KWOK's: a
// bound at or below the duration is the delay itself, otherwise the delay is uniform in [duration, bound). It is
// never negative.
//
// For a time that is read from the object, KWOK counts from now. Here it counts from since, so a later decision
// gives the same due time.
//
// trouble is the error of an expression. The stage then uses the fixed durations. Without one it is held, because
// it does not define an immediate transition.
func (d *delay) after(v *expr.View, since time.Time, stage string) (wait time.Duration, held bool, trouble string) {
	least, most, held, trouble := d.bounds(v, since, stage)
	if most > least {
		// The distance may not fit a Duration; the sum always does.
		distance := uint64(most) - uint64(least)
		least = time.Duration(uint64(least) + uint64(expr.Draw(v.Seed, v.UID, stage, v.Played, expr.ForDelay)*float64(distance)))
	}
	return max(least, 0), held, trouble
}

// bounds returns the bounds of the delay; they are equal if the delay is not random. A bound may be negative, the
// delay is not.
func (d *delay) bounds(v *expr.View, since time.Time, stage string) (least, most time.Duration, held bool, trouble string) {
	if d == nil {
		return 0, 0, false, ""
	}
	base := d.base
	jitter, hasJitter := d.jitter, d.hasJitter
	if d.baseFrom != nil {
		switch got, found, err := d.baseFrom.duration(v, since, stage); {
		case err != "":
			trouble, held = err, !d.hasBase
		case found == saidNone:
			return 0, 0, false, ""
		case found == given:
			base = got
		}
	}
	if d.jitterFrom != nil {
		switch got, found, err := d.jitterFrom.duration(v, since, stage); {
		case err != "":
			trouble, held = err, held || !d.hasJitter && !d.hasBase && d.baseFrom == nil
		case found == saidNone:
			hasJitter = false
		case found == given:
			jitter, hasJitter = got, true
		}
	}
	switch {
	case !hasJitter:
		jitter = base
	case jitter < base:
		base = jitter
	}
	return base, jitter, held, trouble
}

// found describes the result of an expression for a duration.
type found uint8

const (
	notSaid  found = iota // no result: the fixed value applies
	saidNone              // an empty string: no delay, or no jitter
	given
)

// duration reads a time, counted from since, or a duration. If the value is neither, err describes it.
func (x *Expression) duration(v *expr.View, since time.Time, stage string) (d time.Duration, f found, err string) {
	got, failed := x.read(v, stage)
	if failed != nil {
		return 0, notSaid, failed.Error()
	}
	switch got.Kind {
	case expr.None:
		return 0, notSaid, ""
	case expr.Time:
		return got.Time.Sub(since), given, ""
	case expr.Duration:
		return got.Duration, given, ""
	case expr.Number:
		if x.cel != nil { // nanoseconds, as in KWOK
			return nanoseconds(got.Number), given, ""
		}
	case expr.Text:
		if got.Text == "" {
			return 0, saidNone, ""
		}
		if looksLikeTime(got.Text) {
			if at, err := time.Parse(time.RFC3339, got.Text); err == nil {
				return at.Sub(since), given, ""
			}
		}
		if d, err := time.ParseDuration(got.Text); err == nil {
			return d, given, ""
		}
	}
	return 0, notSaid, x.Field + ": " + got.Describe() + " is neither an RFC 3339 time nor a duration such as 5s"
}

// looksLikeTime avoids parsing durations, which are more frequent, as times: this would allocate an error.
func looksLikeTime(text string) bool {
	return len(text) >= len("2006-01-02T15:04:05Z") && text[4] == '-' && text[10] == 'T'
}

func nanoseconds(n float64) time.Duration {
	const most = 1<<63 - 1
	switch {
	case n >= most:
		return most
	case n <= -most:
		return -most
	case n != n:
		return 0
	}
	return time.Duration(n)
}
