package simtest_test

import (
	"testing"
	"time"

	"github.com/rehearse-k8s/rehearse/internal/sim"
	"github.com/rehearse-k8s/rehearse/simtest"
)

// benchRuns executes a test b.N times, with faults, and reports runs per second.
func benchRuns(b *testing.B, o simtest.Options, test func(*simtest.World)) {
	simtest.Explore(b, o.Seeds(3), test) // starts the server and the first world
	b.ResetTimer()
	result := simtest.Explore(b, o.Seeds(max(b.N, 4)), test)
	if result.Failure != nil {
		b.Fatal(result.Failure.Run.Failure)
	}
	b.ReportMetric(float64(result.Runs)/result.Elapsed.Seconds(), "runs/s")
}

func BenchmarkPods3(b *testing.B)  { benchRuns(b, simtest.Options{}, podTest(3)) }
func BenchmarkPods10(b *testing.B) { benchRuns(b, simtest.Options{}, podTest(10)) }

// BenchmarkSetUp measures a run without actions: the cost of each run before its first step.
// ms-first is the first run, which starts the API server if the benchmark runs alone.
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
