package cluster_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/rehearse-k8s/rehearse/cluster"
)

// TestComponents: the list of controllers decides which parts run, with short names and with the choice of the Job controller.
func TestComponents(t *testing.T) {
	const all = "scheduler kube-controller-manager job-controller cloneset-controller stage"
	for list, want := range map[string]string{
		"":                       all,
		"*":                      all,
		"*,-scheduler,-cloneset": "kube-controller-manager job-controller stage",
		"*,upstream-job":         "scheduler kube-controller-manager cloneset-controller stage",
		"stage,job":              "job-controller stage",
		"upstream-job":           "kube-controller-manager",
		"-stage":                 "",
	} {
		var got []string
		for _, c := range cluster.Components(slices.DeleteFunc(strings.Split(list, ","), func(s string) bool { return s == "" })) {
			if c.Enabled {
				got = append(got, c.Name)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q: %q, want %q", list, got, want)
		}
	}
}
