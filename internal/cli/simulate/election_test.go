package simulate

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/rehearse-k8s/rehearse/controller"
)

func shortElection() *Election {
	return &Election{
		Namespace: "default", Name: "rehearse-simulate",
		LeaseDuration: 3 * time.Second, RenewDeadline: 1500 * time.Millisecond, RetryPeriod: 100 * time.Millisecond,
	}
}

// A leader that cannot renew, and reaches the API server for all else, stops
// writing before another one may begin. The other goes on, and the first stands
// by again.
func TestLeaderThatCannotRenewStopsWriting(t *testing.T) {
	w := newWorld(t, 1)
	elect := func(o *Options) {
		o.Election = shortElection()
		o.Stage.LeaseDuration = time.Second // a write four times a second, whatever else happens
	}
	first := w.replica(w.admin, elect)
	first.hears("This replica leads")
	w.awaitReadyNodes(1)
	second := w.replica(w.admin, elect)
	second.hears("standing by for the lease default/rehearse-simulate")
	if n := len(second.wire.written("/nodes/")) + len(second.wire.written("/kube-node-lease/")); n != 0 {
		t.Errorf("%d writes of a replica that stands by", n)
	}
	const lease = "/namespaces/default/leases/rehearse-simulate"
	first.wire.silence(func(r *http.Request) bool { return strings.Contains(r.URL.Path, lease) })
	renewals := first.wire.written(lease)
	renewed := renewals[len(renewals)-1].answered
	// Pods all the while, so that there is always something to write.
	for i := range 40 {
		w.pod(fmt.Sprintf("pod-%d", i), "node-0")
		time.Sleep(50 * time.Millisecond) // a wire and a clock are real here
	}
	first.hears("is lost: this replica has stopped writing")
	second.hears("This replica leads")
	for i := range 40 {
		w.awaitRunning(fmt.Sprintf("pod-%d", i))
	}
	last := renewed
	for _, one := range first.wire.written("") {
		if !strings.Contains(one.path, lease) && one.at.After(last) && !strings.Contains(one.path, "selfsubject") {
			last = one.at
		}
	}
	// Half a second for a busy machine; the other may begin at 3 s.
	if after := last.Sub(renewed); after > 2*time.Second {
		t.Errorf("the first replica wrote %s after its last renewal", after)
	}
	begun := second.wire.written("/kube-node-lease/")[0].at
	if !begun.After(last) {
		t.Errorf("the second wrote %s before the first stopped", last.Sub(begun))
	}
	first.wire.cut(nil)
	second.end(nil)
	first.hears("This replica leads")
	w.pod("after", "node-0")
	w.awaitRunning("after")
	first.end(nil)
}

func TestElectionOfAShard(t *testing.T) {
	e := *shortElection()
	if got := e.ForShard(controller.Shard{}).String(); got != "default/rehearse-simulate" {
		t.Error(got)
	}
	if got := e.ForShard(controller.Shard{Index: 1, Count: 3}).String(); got != "default/rehearse-simulate-1-of-3" {
		t.Error(got)
	}
}

func TestElectionDurations(t *testing.T) {
	if err := shortElection().Validate(); err != nil {
		t.Error(err)
	}
	for flag, spoil := range map[string]func(*Election){
		"--leader-elect-retry-period":   func(e *Election) { e.RetryPeriod = 0 },
		"--leader-elect-renew-deadline": func(e *Election) { e.RenewDeadline = e.RetryPeriod },
		"--leader-elect-lease-duration": func(e *Election) { e.LeaseDuration = e.RenewDeadline },
	} {
		e := shortElection()
		spoil(e)
		if err := e.Validate(); err == nil || !strings.HasPrefix(err.Error(), flag) {
			t.Errorf("%s: %v", flag, err)
		}
	}
}
