package simtest_test

import (
	"testing"
	"time"

	"github.com/rehearse-k8s/rehearse/internal/sim"
	"github.com/rehearse-k8s/rehearse/simtest"
)

// benchRuns plays a story b.N times, with faults, and reports runs per second.
func benchRuns(b *testing.B, o simtest.Options, story func(*simtest.World)) {
	simtest.Explore(b, o.Seeds(3), story) // the server and the first world
	b.ResetTimer()
	result := simtest.Explore(b, o.Seeds(max(b.N, 4)), story)
	if result.Failure != nil {
		b.Fatal(result.Failure.Run.Failure)
	}
	b.ReportMetric(float64(result.Runs)/result.Elapsed.Seconds(), "runs/s")
}

func BenchmarkPods3(b *testing.B)  { benchRuns(b, simtest.Options{}, podStory(3)) }
func BenchmarkPods10(b *testing.B) { benchRuns(b, simtest.Options{}, podStory(10)) }

// BenchmarkSetUp is a world in which nothing happens: what every run costs before its
// first step. The first world of the process starts the API server; run it alone to
// see what that costs.
func BenchmarkSetUp(b *testing.B) {
	began := time.Now()
	simtest.Play(b, simtest.Options{}, sim.Plan{}, func(*simtest.World) {})
	first := time.Since(began)
	b.ResetTimer()
	for range b.N {
		simtest.Play(b, simtest.Options{}, sim.Plan{}, func(*simtest.World) {})
	}
	b.ReportMetric(first.Seconds()*1000, "ms-first")
}
