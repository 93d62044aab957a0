package corpus_test

import (
	"testing"
	"time"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/simtest"
	"github.com/rehearse-k8s/rehearse/test/corpus"
)

// TestPassesNow searches the combinations of the faults with which a search of 10,000 runs of each style reported a
// correct controller, each with the reason for which the report was wrong.
func TestPassesNow(t *testing.T) {
	for name, c := range map[string]struct {
		style  string // "": two replicas with leader election
		faults []string
	}{
		// The controller backed off for eleven minutes after a fault that came after the end of the lag.
		"a fault after a lag": {"expectations with a live check", []string{
			"lag actor=corpus resource=configmaps object=default/web-1 nth=1 for=6m0s",
			"deny actor=corpus verb=update resource=configmaps object=default/web-1 nth=2",
			"timeout actor=corpus verb=update resource=configmaps object=default/web-1 nth=1",
		}},
		// Two faults terminated the same instance, each of them started a new one, and the two never ended.
		"one instance terminated twice": {"two controllers, one slow", []string{
			"conflict actor=corpus verb=update resource=deployments.apps/status object=default/web nth=2",
			"relist actor=corpus resource=deployments.apps object=default/web nth=7",
			"crash-after actor=corpus verb=update resource=deployments.apps/status object=default/web nth=1",
			"deposed-write actor=corpus verb=create resource=configmaps object=default/web-0 nth=1",
			"crash-after actor=corpus+ verb=update resource=deployments.apps/status object=default/web nth=1",
		}},
		// The old leader had ten seconds until it gave up its lost lease, and no time passed.
		"two leaders for a time": {"", []string{
			"lag actor=corpus/0 resource=deployments.apps object=default/web nth=2 for=6m0s",
			"delete actor=corpus/0 verb=update resource=leases.coordination.k8s.io object=default/corpus nth=143",
		}},
		// The controller had a real defect: see "does not watch what it cleans up".
		"a create after the cleanup": {"cleanup by finalizer", []string{
			"deposed-write actor=corpus verb=create resource=configmaps object=default/web-outside nth=2 for=40s",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			var faults []fault.Fault
			for _, text := range c.faults {
				f, err := fault.Parse(text)
				if err != nil {
					t.Fatal(err)
				}
				faults = append(faults, f)
			}
			r := simtest.Explore(t, simtest.Seeds(100), func(w *simtest.World) {
				w.Faults(faults...)
				if c.style == "" {
					w.ManagerReplicas("corpus", 2, corpus.Styles["nil on conflict"])
					use(w)
					w.Eventually(10*time.Minute, updated)
					return
				}
				w.Manager("corpus", corpus.Styles[c.style])
				useStyle(w, c.style)
			})
			if r.Failure != nil {
				t.Error(r.Failure.Run.Failure, r.Failure.Run.Faults)
			}
		})
	}
}
