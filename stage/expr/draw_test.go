package expr_test

import (
	"testing"

	"github.com/rehearse-k8s/rehearse/stage/expr"
)

// TestDrawStays checks that a seed gives the same draws in later versions.
func TestDrawStays(t *testing.T) {
	if got := expr.Draw(7, "b3b5b1c2", "pod-ready", 3, expr.ForDelay); got != 0.48136913679951476 {
		t.Errorf("got %v", got)
	}
}
