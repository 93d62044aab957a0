package nearest_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/rehearse-k8s/rehearse/internal/nearest"
)

func TestNames(t *testing.T) {
	known := []string{"job", "job-controller", "cronjob-controller", "deployment-controller", "namespace-controller", "stage", "job"}
	for _, tc := range []struct {
		name string
		n    int
		want []string
	}{
		{"jobb", 3, []string{"job", "job-controller", "cronjob-controller"}},
		{"Job", 3, []string{"job", "job-controller", "cronjob-controller"}},
		{"deployment", 1, []string{"deployment-controller"}},
		{"namspace-controller", 1, []string{"namespace-controller"}},
		{"stage", 1, []string{"stage"}},
		{"", 1, []string{"job"}},
		{"x", 0, nil},
		{"x", 100, []string{"job", "stage", "job-controller", "cronjob-controller", "namespace-controller", "deployment-controller"}},
		{strings.Repeat("x", 200), 1, []string{"cronjob-controller"}}, // all are equally far
	} {
		if got := nearest.Names(tc.name, known, tc.n); !slices.Equal(got, tc.want) {
			t.Errorf("Names(%q, %d) = %q, want %q", tc.name, tc.n, got, tc.want)
		}
	}
	if known[0] != "job" || known[6] != "job" {
		t.Error("Names changes its argument")
	}
	if got := nearest.Names("x", nil, 5); len(got) != 0 {
		t.Errorf("of no names: %q", got)
	}
}

func TestDistance(t *testing.T) {
	for _, tc := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"", "abc", 3}, {"abc", "abc", 0}, {"abc", "abd", 1}, {"abc", "bc", 1}, {"abc", "abcd", 1}, {"kitten", "sitting", 3},
		{strings.Repeat("a", 129), "a", 129}, {"a", strings.Repeat("a", 129), 129},
	} {
		if got := nearest.Distance(tc.a, tc.b); got != tc.want {
			t.Errorf("Distance(%q, %q) = %d, want %d", tc.a, tc.b, got, tc.want)
		}
		if got := nearest.Distance(tc.b, tc.a); got != tc.want {
			t.Errorf("Distance(%q, %q) = %d, want %d", tc.b, tc.a, got, tc.want)
		}
	}
}
