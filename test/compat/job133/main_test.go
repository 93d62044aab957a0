package main

import "testing"

// TestWithoutKubeconfig: it says what is missing, and does not fall back on a cluster that
// it happens to be in.
func TestWithoutKubeconfig(t *testing.T) {
	if err := run("no-such-file"); err == nil {
		t.Error("it ran")
	}
}
