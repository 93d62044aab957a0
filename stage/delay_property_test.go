package stage

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/rehearse-k8s/rehearse/internal/stage/stagetest"
	"github.com/rehearse-k8s/rehearse/stage/expr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
)

// TestDelaysLieWithinTheirBounds checks every pair of bounds: the delay is never negative, never under the lower
// bound, always under the upper one unless both are equal, and the same for the same seed.
func TestDelaysLieWithinTheirBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := &delay{hasBase: true, hasJitter: rapid.Bool().Draw(t, "has jitter")}
		d.base = time.Duration(rapid.Int64().Draw(t, "duration"))
		d.jitter = time.Duration(rapid.Int64().Draw(t, "jitter"))
		v := &expr.View{
			Object: stagetest.NewPod(), Now: stagetest.Start, Seed: rapid.Uint64().Draw(t, "seed"),
			UID: types.UID(rapid.String().Draw(t, "uid")), Played: rapid.Uint64().Draw(t, "played"),
		}
		wait, held, problem := d.after(v, v.Now, "s")
		if again, _, _ := d.after(v, v.Now.Add(time.Hour), "s"); again != wait {
			t.Fatalf("%s, and asked again %s", wait, again)
		}
		least, most := d.base, d.base
		if d.hasJitter {
			least, most = min(d.base, d.jitter), d.jitter
		}
		switch {
		case held || problem != "":
			t.Fatalf("a fixed delay is held: %s", problem)
		case wait < 0 || wait < least || wait > max(most, 0):
			t.Fatalf("%s is not between %s and %s", wait, least, most)
		case most > least && most > 0 && most-max(least, 0) > 1<<53 && wait == most:
			t.Fatalf("%s is the upper bound, which is not drawn", wait)
		}
	})
}

// TestDelaysAreUniform counts delays in ten equal parts of their range.
func TestDelaysAreUniform(t *testing.T) {
	set := mustCompile(t, podStage("s", "delay: {durationMilliseconds: 10000, jitterDurationMilliseconds: 20000}"))
	const n = 10000
	var parts [10]int
	for i := range n {
		p := stagetest.NewPod(labelled, func(p *corev1.Pod) { p.UID = types.UID(fmt.Sprint("uid-", i)) })
		d := set.Decide(stagetest.Start, 3, p, Past{}, Scene{})
		parts[(d.Due.Sub(d.Since)-10*time.Second)/time.Second]++
	}
	for i, count := range parts {
		if math.Abs(float64(count)-n/10) > 150 { // five standard deviations
			t.Errorf("part %d has %d of %d delays", i, count, n)
		}
	}
}

// TestDelaysDifferBetweenObjectsStagesAndRounds checks that the delays are drawn independently: objects that are
// created together do not all change together.
func TestDelaysDifferBetweenObjectsStagesAndRounds(t *testing.T) {
	const text = "delay: {durationMilliseconds: 0, jitterDurationMilliseconds: 3600000}"
	wait := func(stage string, seed uint64, uid types.UID, played uint64) time.Duration {
		p := stagetest.NewPod(labelled, func(p *corev1.Pod) { p.UID = uid })
		d := mustCompile(t, podStage(stage, text)).Decide(stagetest.Start, seed, p, Past{Played: played}, Scene{})
		return d.Due.Sub(d.Since)
	}
	first := wait("s", 1, "u", 0)
	for name, other := range map[string]time.Duration{
		"stage": wait("t", 1, "u", 0), "seed": wait("s", 2, "u", 0), "object": wait("s", 1, "v", 0), "round": wait("s", 1, "u", 1),
	} {
		if other == first {
			t.Errorf("another %s has the same delay, %s", name, other)
		}
	}
	if again := wait("s", 1, "u", 0); again != first {
		t.Errorf("%s, and again %s", first, again)
	}
}

// TestTimeFromTheObjectCountsFromTheChoice checks that a due time that the object holds does not move when the stage is
// decided again later.
func TestTimeFromTheObjectCountsFromTheChoice(t *testing.T) {
	set := mustCompile(t, podStage("s", `delay: {durationFrom: {jq: {expression: '.metadata.annotations.at'}}}`))
	at := stagetest.Start.Add(90 * time.Second)
	p := annotatedPod("at", at.Format(time.RFC3339))
	past := Past{}
	for _, passed := range []time.Duration{0, 30 * time.Second, 2 * time.Minute} {
		d := set.Decide(stagetest.Start.Add(passed), 1, p, past, Scene{})
		if !d.Due.Equal(at) {
			t.Errorf("after %s: due at %s, want %s", passed, d.Due, at)
		}
		past.Decided(&d)
	}
}

func TestFixedDurationsSaturate(t *testing.T) {
	const most = math.MaxInt64 / int64(time.Millisecond)
	for n, want := range map[int64]time.Duration{
		0: 0, 1500: 1500 * time.Millisecond, -2: -2 * time.Millisecond,
		most: time.Duration(most) * time.Millisecond, most + 1: time.Duration(most) * time.Millisecond,
		math.MaxInt64: time.Duration(most) * time.Millisecond, math.MinInt64: -time.Duration(most) * time.Millisecond,
	} {
		if got := milliseconds(n); got != want {
			t.Errorf("%d ms: %d ns, want %d", n, got, want)
		}
	}
	for n, want := range map[float64]time.Duration{
		0: 0, 1.9: 1, -1.9: -1, 3e9: 3 * time.Second, 1e300: math.MaxInt64, -1e300: -math.MaxInt64,
		math.Inf(1): math.MaxInt64, math.Inf(-1): -math.MaxInt64,
	} {
		if got := nanoseconds(n); got != want {
			t.Errorf("%g ns: %d, want %d", n, got, want)
		}
	}
	if got := nanoseconds(math.NaN()); got != 0 {
		t.Errorf("NaN: %d", got)
	}
}

// TestWhichDelaysMayHold checks when a delay that cannot be read stops its stage: only where no fixed duration stands
// in for it.
func TestWhichDelaysMayHold(t *testing.T) {
	x := &Expression{}
	for name, c := range map[string]struct {
		delay *delay
		want  bool
	}{
		"no delay":                              {nil, false},
		"fixed":                                 {&delay{hasBase: true, hasJitter: true}, false},
		"duration from the object":              {&delay{baseFrom: x}, true},
		"duration from the object, or fixed":    {&delay{baseFrom: x, hasBase: true}, false},
		"jitter from the object":                {&delay{jitterFrom: x}, true},
		"jitter from the object, or fixed":      {&delay{jitterFrom: x, hasJitter: true}, false},
		"jitter from the object, fixed minimum": {&delay{jitterFrom: x, hasBase: true}, false},
		"both from the object, fixed minimum":   {&delay{baseFrom: x, jitterFrom: x, hasBase: true}, false},
		"both from the object, fixed jitter":    {&delay{baseFrom: x, jitterFrom: x, hasJitter: true}, true},
	} {
		if got := c.delay.mayHold(); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// TestTextsThatAreNoTime checks that a delay text is either a time, a duration, or a problem that quotes it.
func TestTextsThatAreNoTime(t *testing.T) {
	set := mustCompile(t, podStage("s", `delay: {durationMilliseconds: 7000, durationFrom: {jq: {expression: '.metadata.annotations.at'}}}`))
	const field = "spec.delay.durationFrom.jq.expression: "
	for text, want := range map[string]string{
		"5s":                        "",
		"1h2m3s":                    "",
		"2026-03-01T12:00:10Z":      "",
		"2026-03-01T13:00:10+01:00": "",
		"2026-03-01T12:00:10.5Z":    "",
		"2026-03-01 12:00:10":       field + `"2026-03-01 12:00:10" is neither an RFC 3339 time nor a duration such as 5s`,
		"2026-02-30T12:00:10Z":      field + `"2026-02-30T12:00:10Z" is neither an RFC 3339 time nor a duration such as 5s`,
		"5":                         field + `"5" is neither an RFC 3339 time nor a duration such as 5s`,
		" 5s":                       field + `" 5s" is neither an RFC 3339 time nor a duration such as 5s`,
		"P5D":                       field + `"P5D" is neither an RFC 3339 time nor a duration such as 5s`,
	} {
		d := set.Decide(stagetest.Start, 1, annotatedPod("at", text), Past{}, Scene{})
		if d.Problem != want {
			t.Errorf("%q: problem %q, want %q", text, d.Problem, want)
		}
		if wait := d.Due.Sub(d.Since); want != "" && wait != 7*time.Second {
			t.Errorf("%q: waits %s instead of the fixed duration", text, wait)
		}
	}
}
