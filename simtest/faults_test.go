package simtest_test

import (
	"strings"
	"testing"
	"time"

	"github.com/rehearse-k8s/rehearse/examples/careful"
	"github.com/rehearse-k8s/rehearse/examples/kubelet"
	sites "github.com/rehearse-k8s/rehearse/examples/operator"
	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/sim"
	"github.com/rehearse-k8s/rehearse/invariant"
	"github.com/rehearse-k8s/rehearse/simtest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// carefulTest has everything that a fault can act on: creates, updates and patches, pods of an
// owner, watch events, and virtual time.
func carefulTest(w *simtest.World) {
	set := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Labels: map[string]string{careful.Label: "yes"}},
		Data:       map[string]string{"replicas": "2"},
	}
	w.Controller("careful", careful.Run)
	w.Controller("kubelet", kubelet.Run)
	w.Create(set)
	w.Settle()
	w.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "other"}})
	w.Advance(2 * time.Minute)
	w.Eventually(5*time.Minute, invariant.Ready(invariant.OwnerOf(set), 2))
}

// siteTest has an operator built with controller-runtime.
func siteTest(w *simtest.World) {
	w.Manager("operator", sites.SetupWithManager)
	w.Create(&corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "stays", Labels: map[string]string{sites.Label: "yes"}},
		Data:       map[string]string{"image": "site:1", "replicas": "2"},
	})
}

// TestEveryFault runs a test with one fault of each kind. The fault takes effect, a step records
// it, and a correct controller passes if the fault is legal.
func TestEveryFault(t *testing.T) {
	for _, kind := range fault.Kinds(fault.Adversarial) {
		if kind == fault.KindStaleList || kind == fault.KindExpiredPage {
			continue // need an earlier write, or pages: TestStaleList and TestExpiredPage
		}
		t.Run(string(kind), func(t *testing.T) {
			f, test := fault.Fault{Kind: kind, Actor: "careful", Resource: "pods"}, carefulTest
			switch kind {
			case fault.KindEvict:
				f.Actor = "kubelet"
			case fault.KindConflict: // needs a controller whose writes carry a resourceVersion
				f.Actor, f.Resource, test = "operator", "", siteTest
			case fault.KindDropBookmark:
				f.Actor, f.Resource = "", ""
			}
			run := simtest.Play(t, simtest.Options{}, sim.Plan{Faults: []fault.Fault{f}}, test).Run
			if run.Failure != nil && kind.Level() == fault.Legal {
				t.Errorf("%s: %s", run.Failure.Oracle, run.Failure.Message)
			}
			acted := false
			for _, s := range run.Steps {
				acted = acted || s.Fault == f.String() && (kind != fault.KindEvict || s.Subresource == "eviction" && s.Code == 201)
			}
			if !acted {
				t.Errorf("%s: none of the %d steps records it", f, len(run.Steps))
			}
		})
	}
}

// TestStaleWritesAreReported checks that the search reports, and does not fail for, stale
// own-writes that the API rejects: a correct controller has some.
func TestStaleWritesAreReported(t *testing.T) {
	r := simtest.Explore(t, simtest.Seeds(30), siteTest)
	if r.Failure != nil {
		t.Fatal(r.Failure.Run.Failure)
	}
	if r.Reported == 0 || r.Report == nil || !strings.Contains(r.Report.Text, "before it had observed its own write of step") {
		t.Errorf("%d runs reported; the first: %+v", r.Reported, r.Report)
	}
}

// TestTimeTravel checks that the next instance lists an older revision.
func TestTimeTravel(t *testing.T) {
	f := fault.Fault{Kind: fault.KindTimeTravel, Actor: "careful", Verb: "create", Nth: 2}
	run := simtest.Play(t, simtest.Options{}, sim.Plan{Faults: []fault.Fault{f}}, carefulTest).Run
	crashed := false
	for _, s := range run.Steps {
		crashed = crashed || s.Kind == history.Crash
		if crashed && s.Actor == "careful" && s.Verb == "list" {
			if s.Revision >= s.Truth {
				t.Errorf("step %d lists %s at %d; the truth is %d", s.N, s.Resource, s.Revision, s.Truth)
			}
			return
		}
	}
	t.Error("nothing was listed after the crash")
}

// TestServiceAddressFromSeed checks that Service addresses follow from the seed, and that different
// addresses do not count as different outcomes.
func TestServiceAddressFromSeed(t *testing.T) {
	simtest.Run(t, simtest.Seeds(120), func(w *simtest.World) {
		w.Controller("runner", runner)
		w.Create(pod("p0"), &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}})
	})
}
