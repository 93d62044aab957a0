package simulate

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/rehearse-k8s/rehearse/internal/controller/stages"
)

// shortElection has durations that are short for a test, and long enough for a process that waits two seconds for a processor.
func shortElection() *Election {
	return &Election{
		Namespace: "default", Name: "rehearse-simulate",
		LeaseDuration: 6 * time.Second, RenewDeadline: 3 * time.Second, RetryPeriod: 100 * time.Millisecond,
	}
}

// A leader that cannot renew the lease, but can send all other requests, stops writing before another replica
// may start. The other replica continues, and the first one becomes a standby again.
func TestLeaderThatCannotRenewStopsWriting(t *testing.T) {
	w := newWorld(t, 1)
	elect := func(o *Options) {
		o.Election = shortElection()
		o.Stage.LeaseDuration = time.Second // a write four times a second, in any case
	}
	first := w.replica(w.admin, elect)
	first.hears("This replica leads")
	w.awaitReadyNodes(1)
	second := w.replica(w.admin, elect)
	second.hears("standby for the lease default/rehearse-simulate")
	if n := len(second.wire.written("/nodes/")) + len(second.wire.written("/kube-node-lease/")); n != 0 {
		t.Errorf("%d writes of a replica that stands by", n)
	}
	const lease = "/namespaces/default/leases/rehearse-simulate"
	first.wire.silence(func(r *http.Request) bool { return strings.Contains(r.URL.Path, lease) })
	// Pods are created continuously, so that there is always something to write.
	for i := range 40 {
		w.pod(fmt.Sprintf("pod-%d", i), "node-0")
		time.Sleep(90 * time.Millisecond) // uses a real connection and a real clock
	}
	first.hears("is lost: this replica has stopped writing")
	renewals := first.wire.written(lease) // without those that were lost, and with one that was on its way before
	renewed := renewals[len(renewals)-1].answered
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
	// Half a second for a busy machine; the other replica may start three seconds after the deadline.
	if after := last.Sub(renewed); after > shortElection().RenewDeadline+500*time.Millisecond {
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

// TestLeaseIsGivenBack: the lease is released even if the elector's single attempt fails, as it does when an
// interrupted renewal arrives in between, and also if such a renewal arrives between reading and releasing it.
func TestLeaseIsGivenBack(t *testing.T) {
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		renewal  bool // arrives during the second attempt
		attempts int  // at least; a real interrupted renewal costs another
	}{
		"the elector's attempt fails":  {false, 2},
		"a renewal arrives in between": {true, 3},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1)
			leases := w.client.CoordinationV1().Leases("default")
			r := w.replica(w.admin, func(o *Options) { o.Election = shortElection() })
			r.hears("This replica leads")
			attempts := 0
			r.wire.cut(func(q *http.Request) bool {
				if q.Method != http.MethodPut || !strings.HasSuffix(q.URL.Path, "/leases/rehearse-simulate") {
					return false
				}
				body, err := q.GetBody()
				if err != nil {
					return false
				}
				data, err := io.ReadAll(body)
				if err != nil || bytes.Contains(data, []byte(host+"_")) { // a renewal
					return false
				}
				attempts++
				if attempts == 2 && test.renewal {
					lease, err := leases.Get(t.Context(), "rehearse-simulate", metav1.GetOptions{})
					if err == nil {
						lease.Spec.RenewTime = ptr.To(metav1.NowMicro())
						_, err = leases.Update(t.Context(), lease, metav1.UpdateOptions{})
					}
					if err != nil {
						t.Error(err)
					}
				}
				return attempts == 1
			})
			r.end(nil)
			lease, err := leases.Get(t.Context(), "rehearse-simulate", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if holder := ptr.Deref(lease.Spec.HolderIdentity, ""); holder != "" || attempts < test.attempts {
				t.Errorf("the lease is held by %q; %d attempts to release it, expected %d or more", holder, attempts, test.attempts)
			}
		})
	}
}

func TestElectionOfAShard(t *testing.T) {
	e := *shortElection()
	if got := e.ForShard(stages.Shard{}).String(); got != "default/rehearse-simulate" {
		t.Error(got)
	}
	if got := e.ForShard(stages.Shard{Index: 1, Count: 3}).String(); got != "default/rehearse-simulate-1-of-3" {
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
