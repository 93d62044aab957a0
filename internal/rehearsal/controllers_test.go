package rehearsal

import (
	"strings"
	"testing"
)

func TestHasNodeLifecycle(t *testing.T) {
	for list, want := range map[string]bool{
		"": false, "stage,scheduler": false, "stage,node-lifecycle-controller": true, "nodelifecycle": true, "*": true,
		"-node-lifecycle-controller,*": false, "*,-nodelifecycle": true, "stage,-nodelifecycle": false,
	} {
		if got := hasNodeLifecycle(strings.Split(list, ",")); got != want {
			t.Errorf("%q: %t", list, got)
		}
	}
}
