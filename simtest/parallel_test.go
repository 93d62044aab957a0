package simtest_test

import (
	"runtime"
	"testing"

	"github.com/rehearse-k8s/rehearse/simtest"
)

// TestParallel checks that parallel tests execute their runs one after another, and restore
// GOMAXPROCS.
func TestParallel(t *testing.T) {
	before := runtime.GOMAXPROCS(0)
	t.Run("together", func(t *testing.T) {
		for _, name := range []string{"a", "b", "c"} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				simtest.Run(t, simtest.Seeds(20), podTest(2))
			})
		}
	})
	if now := runtime.GOMAXPROCS(0); now != before {
		t.Errorf("GOMAXPROCS is %d and was %d", now, before)
	}
}
