package conformance

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	upstream "k8s.io/kubernetes/pkg/controller/job"

	"github.com/rehearse-k8s/rehearse/internal/controller/jobs"
	"github.com/rehearse-k8s/rehearse/internal/report"
	"github.com/rehearse-k8s/rehearse/internal/sim"
	workload "github.com/rehearse-k8s/rehearse/internal/workload/job"
	"github.com/rehearse-k8s/rehearse/simtest"
	"github.com/rehearse-k8s/rehearse/simtest/kubecontrollers"
)

// behaviour is a case: what both controllers must do, or how they differ.
type behaviour struct {
	name string
	// after contains the upstream tests that the case follows, separated by semicolons: the name of a Go test,
	// or "e2e: " and the text of an e2e test. Empty for cases without an upstream test.
	after string
	// differs contains the difference; nil if there is none.
	differs *difference
	// caps is the maximal number of pods that one sync creates or records; 0 for the defaults.
	caps int
	// collects: there is a garbage collector.
	collects bool
	scenario func(*play)
}

// difference is a row of the table in docs/reference/jobs.md.
type difference struct{ what, upstream, ours, why string }

// behaviours are all cases.
var behaviours = slices.Concat(
	plainCases, indexedCases, backoffCases, perIndexCases, failurePolicyCases, successPolicyCases,
	replacementCases, endingCases, suspendCases, ownershipCases, managedByCases, differenceCases,
)

var controllers = []struct {
	name string
	ours bool
}{{"ours", true}, {"upstream", false}}

func TestBehaviour(t *testing.T) {
	for _, b := range behaviours {
		t.Run(b.name, func(t *testing.T) {
			differed := false
			for _, c := range controllers {
				t.Run(c.name, func(t *testing.T) { b.run(t, c.ours, &differed) })
			}
			if differed != (b.differs != nil) && !t.Failed() {
				t.Errorf("the scenario expects a difference: %t; the case documents one: %t", differed, b.differs != nil)
			}
		})
	}
}

// run runs the scenario once, with one of the controllers.
func (b *behaviour) run(t *testing.T, ours bool, differed *bool) {
	limit(t, b.caps)
	f := runScenario(t, ours, b.caps, func(p *play) {
		p.differed = differed
		if b.collects {
			p.Controller("gc", kubecontrollers.GarbageCollectorOf("jobs.batch", "pods"))
		}
		b.scenario(p)
	})
	if f != nil {
		t.Errorf("%s: %s", f.Run.Failure.Oracle, f.Run.Failure.Message)
		if testing.Verbose() {
			t.Log(report.Cause(f.Run, f.Nearest))
		}
	}
}

// limit caps upstream's syncs, with the variables that exist for its tests.
func limit(t *testing.T, caps int) {
	if caps == 0 {
		return
	}
	uncounted, pods := upstream.MaxUncountedPods, upstream.MaxPodCreateDeletePerSync
	upstream.MaxUncountedPods, upstream.MaxPodCreateDeletePerSync = caps, caps
	t.Cleanup(func() { upstream.MaxUncountedPods, upstream.MaxPodCreateDeletePerSync = uncounted, pods })
}

// runScenario runs a scenario in its own world with one of the controllers, without faults, and returns the failure,
// nil if there is none.
func runScenario(t *testing.T, ours bool, caps int, scenario func(*play)) *sim.Failure {
	t.Helper()
	o := jobs.Options{All: true, Workers: 1, Writes: 1, Audit: -1}
	if caps != 0 {
		o.Limits = workload.DefaultLimits
		o.Limits.Uncounted, o.Limits.Pods = caps, caps
	}
	start := simtest.Constructor(kubecontrollers.Job)
	if ours {
		start = jobs.Runner(o)
	}
	return simtest.Explore(t, simtest.Seeds(1), func(w *simtest.World) {
		w.Faults() // only the scenario causes failures
		p := &play{World: w, ours: ours, power: newPower(), differed: new(bool)}
		client, err := kubernetes.NewForConfig(w.Config())
		p.must(err)
		p.client = client
		w.Controller("job", p.power.switched(start))
		w.Advance(time.Second) // the controller starts
		scenario(p)
		p.tidy()
	}).Failure
}

// The table of differences is between these lines of the page.
const (
	page  = "../../../docs/reference/jobs.md"
	first = "<!-- differences: from test/jobs/conformance; UPDATE_GOLDEN=1 go test -run TestDifferences ./test/jobs/conformance -->\n"
	last  = "<!-- end of differences -->\n"
)

// TestDifferences checks that the table in the documentation matches the cases.
func TestDifferences(t *testing.T) {
	var table strings.Builder
	table.WriteString("| | Kubernetes 1.36 | Ours | Why |\n|---|---|---|---|\n")
	for _, b := range behaviours {
		if d := b.differs; d != nil {
			table.WriteString("| " + strings.Join([]string{d.what, d.upstream, d.ours, d.why}, " | ") + " |\n")
		}
	}
	data, err := os.ReadFile(filepath.FromSlash(page))
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(data), first)
	_, after, ended := strings.Cut(rest, last)
	if !found || !ended {
		t.Fatalf("%s has no markers for the table", page)
	}
	want := before + first + table.String() + last + after
	switch {
	case want == string(data):
	case os.Getenv("UPDATE_GOLDEN") != "":
		if err := os.WriteFile(filepath.FromSlash(page), []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("%s differs from the cases; UPDATE_GOLDEN=1 updates it:\n%s", page, table.String())
	}
}

// TestAfter checks that the upstream tests that the cases name exist.
func TestAfter(t *testing.T) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/kubernetes").Output()
	if err != nil {
		t.Fatal(err)
	}
	var source strings.Builder
	for _, pattern := range []string{"test/integration/job/*.go", "test/e2e/apps/job.go", "pkg/controller/job/*_test.go", "pkg/controller/*_test.go"} {
		files, _ := filepath.Glob(filepath.Join(strings.TrimSpace(string(out)), filepath.FromSlash(pattern)))
		for _, f := range files {
			data, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			source.Write(data)
		}
	}
	for _, b := range behaviours {
		for _, name := range strings.Split(b.after, "; ") {
			words, says := strings.Fields(name), "func "
			switch {
			case len(words) == 0, words[0] == "kubernetes": // an issue
				continue
			case words[0] == "e2e:":
				says = "\"" + strings.TrimPrefix(name, "e2e: ")
			default:
				says += words[0] + "("
			}
			if !strings.Contains(source.String(), says) {
				t.Errorf("case %q: upstream has no %q", b.name, says)
			}
		}
	}
}

// TestNames checks that the names of cases are unique and that each case is complete.
func TestNames(t *testing.T) {
	seen := map[string]bool{}
	for _, b := range behaviours {
		if seen[b.name] || b.name == "" || b.scenario == nil {
			t.Errorf("case %q is incomplete, or exists twice", b.name)
		}
		seen[b.name] = true
	}
}
