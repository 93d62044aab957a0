package simtest_test

import (
	"testing"

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
