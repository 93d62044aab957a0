package simtest_test

import (
	"runtime"
	"testing"

	"github.com/rehearse-k8s/rehearse/simtest"
)

// TestParallel: tests that run beside each other wait for each other's runs, and leave
// the process as it was.
func TestParallel(t *testing.T) {
	before := runtime.GOMAXPROCS(0)
	t.Run("together", func(t *testing.T) {
		for _, name := range []string{"a", "b", "c"} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				simtest.Run(t, simtest.Seeds(20), podStory(2))
			})
		}
	})
	if now := runtime.GOMAXPROCS(0); now != before {
		t.Errorf("GOMAXPROCS is %d and was %d", now, before)
	}
}
