package workload

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// TestFreshness checks that a cache counts as fresh only when it has reached every own write, shows every own
// delete, and no write has an unknown result.
func TestFreshness(t *testing.T) {
	at := map[string]string{"pods": "10", "jobs": "10"}
	there := map[types.UID]bool{}
	reached := func(resource string) string { return at[resource] }
	still := func(uid types.UID) bool { return there[uid] }

	var f Freshness
	expect := func(what string) {
		t.Helper()
		if _, got := f.Behind(reached, still); what == "" && got != "" || !strings.Contains(got, what) {
			t.Errorf("behind: %q, want %q", got, what)
		}
	}
	expect("")
	f.Wrote("pods", "12")
	f.Wrote("pods", "11") // answers may arrive in any order
	expect("the cache of pods is at revision 10, the last own write at 12")
	at["pods"] = "11"
	expect("the cache of pods")
	at["pods"] = "13"
	expect("")

	f.Gone("a")
	there["a"] = true
	expect("UID a")
	delete(there, "a")
	expect("")

	f.Unsettled("pi-x")
	expect("the result of this write is not known yet: pi-x")
	if open := f.Open(); len(open) != 1 || open[0] != "pi-x" {
		t.Errorf("open: %v", open)
	}
	f.Settled("pi-x")
	expect("")

	f.Wrote("pods", "100")
	at["pods"] = "" // a cache that does not report its revision
	expect("")
}

func TestOlder(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{{"9", "10", true}, {"10", "9", false}, {"9", "9", false}, {"", "9", false}, {"9", "", false}, {"x", "9", false}, {"9", "0", false}} {
		if got := Older(c.a, c.b); got != c.want {
			t.Errorf("%q is older than %q: %t", c.a, c.b, got)
		}
	}
}

func TestSoonest(t *testing.T) {
	for _, c := range [][3]int64{{0, 0, 0}, {0, 2, 2}, {2, 0, 2}, {2, 3, 2}, {3, 2, 2}} {
		if got := Soonest(time.Duration(c[0]), time.Duration(c[1])); got != time.Duration(c[2]) {
			t.Errorf("%v: %s", c, got)
		}
	}
}
