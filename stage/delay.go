package stage

import (
	"time"

	"github.com/rehearse-k8s/rehearse/api/v1alpha1"
	"k8s.io/apimachinery/pkg/types"
)

// delay is the compiled spec.delay.
type delay struct {
	base       time.Duration
	baseFrom   *query
	jitter     time.Duration
	hasJitter  bool
	jitterFrom *query
}

func compileDelay(d *v1alpha1.StageDelay, kind Kind) (*delay, *Error) {
	if d == nil {
		return nil, nil
	}
	out := &delay{}
	if d.DurationMilliseconds != nil {
		out.base = milliseconds(*d.DurationMilliseconds)
	}
	if d.JitterDurationMilliseconds != nil {
		out.jitter, out.hasJitter = milliseconds(*d.JitterDurationMilliseconds), true
	}
	var err *Error
	if out.baseFrom, err = compileFrom("spec.delay.durationFrom", d.DurationFrom, kind); err != nil {
		return nil, err
	}
	if out.jitterFrom, err = compileFrom("spec.delay.jitterDurationFrom", d.JitterDurationFrom, kind); err != nil {
		return nil, err
	}
	return out, nil
}

func milliseconds(n int64) time.Duration {
	const most = int64(1<<63-1) / int64(time.Millisecond)
	return time.Duration(min(max(n, -most), most)) * time.Millisecond
}

func compileFrom(field string, from *v1alpha1.ExpressionFrom, kind Kind) (*query, *Error) {
	if from == nil {
		return nil, nil
	}
	text := from.ExpressionFrom
	switch {
	case from.CEL != nil:
		return nil, notYet(field+".cel", "write the expression with jq")
	case from.JQ != nil && text != "":
		return nil, problem(field, "write either jq or expressionFrom, not both")
	case from.JQ != nil:
		field, text = field+".jq.expression", from.JQ.Expression
	default:
		field += ".expressionFrom"
	}
	if text == "" {
		return nil, problem(field, "is empty")
	}
	q, err := compileQuery(text, kind, true)
	if err != nil {
		return nil, problem(field, err.Error())
	}
	return q, nil
}

// after is the delay counted from since, the moment the stage became the chosen
// one. Rules as in KWOK: a bound at or below the duration is the delay itself,
// otherwise the delay is uniform in [duration, bound). Never negative.
//
// KWOK counts a time read from the object from now; here it is counted from
// since, so that deciding again later gives the same due time.
func (d *delay) after(v *view, since time.Time, seed uint64, uid types.UID, stage string, played uint64) time.Duration {
	if d == nil {
		return 0
	}
	base := durationFrom(d.baseFrom, v, since, d.base)
	jitter, hasJitter := d.jitter, d.hasJitter
	if d.jitterFrom != nil {
		const absent = time.Duration(-1 << 63)
		if found := durationFrom(d.jitterFrom, v, since, absent); found != absent {
			jitter, hasJitter = found, true
		}
	}
	switch {
	case !hasJitter:
	case jitter <= base:
		base = jitter
	default:
		base += time.Duration(draw(seed, uid, stage, played, drawDelay) * float64(jitter-base))
	}
	return max(base, 0)
}

// durationFrom reads an RFC 3339 time or a Go duration. An empty string is no
// delay; what is absent, no string, or neither form is fallback.
func durationFrom(q *query, v *view, since time.Time, fallback time.Duration) time.Duration {
	if q == nil {
		return fallback
	}
	text, ok := q.first(v)
	if !ok {
		return fallback
	}
	if text == "" {
		return 0
	}
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at.Sub(since)
	}
	if d, err := time.ParseDuration(text); err == nil {
		return d
	}
	return fallback
}
