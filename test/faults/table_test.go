package faults_test

import (
	"strings"
	"testing"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/test/faults"
)

// TestEveryKind checks that each kind of fault has a row, or a reason why not.
func TestEveryKind(t *testing.T) {
	rows := map[fault.Kind]bool{}
	for _, r := range faults.Table {
		if !strings.Contains(r.Text, ";") {
			for _, f := range r.Faults(t, "default") {
				rows[f.Kind] = true
			}
		}
	}
	for _, kind := range fault.Kinds(fault.Adversarial) {
		if _, elsewhere := faults.Elsewhere[kind]; rows[kind] == elsewhere {
			t.Errorf("%s: in the table %t, elsewhere %t", kind, rows[kind], elsewhere)
		}
	}
}
