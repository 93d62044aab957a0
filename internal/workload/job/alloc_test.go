package job

import (
	"runtime"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestUnchangedPodsCostNothing checks that a plan for ten times as many pods, with the same work to do,
// allocates as often.
func TestUnchangedPodsCostNothing(t *testing.T) {
	for _, indexed := range []bool{false, true} {
		for _, fresh := range []int{0, 10} {
			count := func(all int) float64 {
				s := big(indexed, all, all/10, fresh)
				if d := Plan(noon, s); (d.Status != nil) != (fresh > 0) || len(d.Actions) > 0 {
					t.Fatalf("indexed %t, %d of %d: status %v, %d actions", indexed, fresh, all, d.Status, len(d.Actions))
				}
				return testing.AllocsPerRun(5, func() { benchmarked = Plan(noon, s) })
			}
			few, many := count(1_000), count(10_000)
			t.Logf("indexed %t, %d fresh: %.0f allocations for 1,000 pods, %.0f for 10,000", indexed, fresh, few, many)
			if many > few+12 { // slices that grow by doubling
				t.Errorf("indexed %t, %d fresh: %.0f allocations for 1,000 pods, %.0f for 10,000", indexed, fresh, few, many)
			}
		}
	}
}

// TestManyCompletions checks that an Indexed Job with two billion completions does not need memory in
// proportion.
func TestManyCompletions(t *testing.T) {
	s := State{Job: newJob("p=2 c=2147483647 indexed completed=0-2000000000,2000000002 started=9"), Pods: newPods("R #2000000001"), Limits: atOnce()}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	d := Plan(noon, s)
	runtime.ReadMemStats(&after)
	if len(d.Actions) != 1 || completionIndex(d.Actions[0].Object.(*corev1.Pod)) != 2000000003 {
		t.Errorf("%+v", d.Reasons)
	}
	if bytes := after.TotalAlloc - before.TotalAlloc; bytes > 1<<20 {
		t.Errorf("one plan takes %d bytes", bytes)
	}
}
