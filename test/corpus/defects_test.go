package corpus_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	examples "github.com/rehearse-k8s/rehearse/examples/verdict"
	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/report"
	"github.com/rehearse-k8s/rehearse/invariant"
	"github.com/rehearse-k8s/rehearse/simtest"
	"github.com/rehearse-k8s/rehearse/test/corpus"
)

// write is the nth write of a controller to an object: harmful in the failing run, or missing there and present in
// the nearest passing run. A name that ends with "-" is a prefix.
type write struct {
	verb, resource, name string
	nth                  int
}

// in returns the write in a run.
func (w write) in(run *history.Run) *history.Step {
	if run == nil {
		return nil
	}
	n := 0
	for i := range run.Steps {
		s := &run.Steps[i]
		named := s.Name == w.name || strings.HasSuffix(w.name, "-") && strings.HasPrefix(s.Name, w.name)
		if s.Actor == "corpus" && s.Wrote() && s.Verb == w.verb && s.Resource == w.resource && s.Subresource == "" && named {
			if n++; n == w.nth {
				return s
			}
		}
	}
	return nil
}

// parts counts the parts of the Deployment.
func parts(v invariant.View) (n int) {
	for _, o := range v.List("configmaps") {
		if o.GetLabels()["part-of"] == "web" {
			n++
		}
	}
	return n
}

var atMostTwo = invariant.Func("at most two parts", func(v invariant.View) error {
	if n := parts(v); n > 2 {
		return fmt.Errorf("%d", n)
	}
	return nil
})

// userImage is violated by a controller that reverts what the user wrote.
var userImage = invariant.Func("the Deployment has the image web:2", func(v invariant.View) error {
	for _, o := range v.List("deployments.apps") {
		containers, _, _ := unstructured.NestedSlice(o.Object, "spec", "template", "spec", "containers")
		if c, ok := containers[0].(map[string]any); ok && c["image"] == "web:2" {
			return nil
		}
	}
	return errors.New("it has not")
})

// defects maps the name of each defect to what is known of it.
var defects = map[string]struct {
	violates string
	harmful  write      // violates what must hold always
	missing  write      // violates what must hold at the end
	needs    fault.Kind // the only kind of fault of the search, and the one fault of the failure; "": it needs none
	says     string     // if no passing run has the missing write
}{
	"counts generated names in its cache":    {violates: "at most two parts", harmful: write{"create", "configmaps", "web-", 3}},
	"counts creates in memory":               {violates: "at most two parts", harmful: write{"create", "configmaps", "web-", 3}, needs: fault.KindLostAnswer},
	"records a name after the create":        {violates: "at most two parts", harmful: write{"create", "configmaps", "web-", 3}, needs: fault.KindCrashAfter},
	"updates without a revision":             {violates: "once true, stays true: the Deployment has the image web:2", harmful: write{"update", "deployments.apps", "web", 1}, needs: fault.KindLag},
	"increments a counter":                   {violates: "ends as without faults", missing: write{"patch", "deployments.apps", "web", 2}, needs: fault.KindCrashAfter},
	"returns nil after an error":             {violates: "two parts have the image web:2", missing: write{"update", "configmaps", "web-0", 1}, needs: fault.KindError},
	"remembers a create before it succeeded": {violates: "two parts have the image web:2", missing: write{"create", "configmaps", "web-0", 1}, needs: fault.KindError},
	"does not watch its parts":               {violates: "two parts have the image web:2", says: "another actor deleted the object", needs: fault.KindDelete},
	"returns nil on conflict, unwatched":     {violates: "two parts have the image web:2", missing: write{"update", "configmaps", "web-0", 1}, needs: fault.KindConflict},
	"does not watch what it cleans up":       {violates: "ends as without faults", harmful: write{"create", "configmaps", "web-outside", 2}, says: "carried out after corpus+'s delete of configmaps default/web-outside", needs: fault.KindDeposedWrite},
	"replaces a claim after an error":        {violates: "no controller deletes a PersistentVolumeClaim", harmful: write{"delete", "persistentvolumeclaims", "web-data", 1}, needs: fault.KindLostAnswer},
	"repeats an invalid write":               {violates: "no controller repeats an invalid write", says: "corpus", needs: fault.KindError},
	"keeps an old condition":                 {violates: "no object has contradictory conditions", says: "deployments.apps default/web waits: its last change was corpus' update of status", needs: fault.KindError},
	"deletes by name":                        {violates: "no controller deletes the successor", harmful: write{"delete", "deployments.apps", "web", 1}, needs: fault.KindLag},
	"records by name":                        {violates: "ends as without faults", says: "corpus patched deployments/status default/web (step ", needs: fault.KindLag},
	"clears the revision":                    {violates: "no controller removes what another user has written", harmful: write{"update", "deployments.apps", "web", 1}, needs: fault.KindConflict},
	"leaves goroutines behind":               {violates: "goroutines do not grow with repetitions", says: "monitor"},
	"ignores changes of labels":              {violates: "two parts have the image web:2", says: "deployments.apps default/web waits: its last change was user's patch"},
}

// TestKnownDefects compares each failure with what is known: the violated invariant, the write that its cause names,
// and the faults, of which none can be left out.
func TestKnownDefects(t *testing.T) {
	if a, b := slices.Sorted(maps.Keys(defects)), slices.Sorted(maps.Keys(corpus.Defects)); !slices.Equal(a, b) {
		t.Fatalf("known: %q; defects: %q", a, b)
	}
	for name, d := range defects {
		t.Run(name, func(t *testing.T) {
			test := func(w *simtest.World) {
				w.Manager("corpus", corpus.Defects[name])
				if d.needs != "" {
					w.Faults(fault.Fault{Kind: d.needs, Actor: "corpus"})
				}
				if name == "does not watch what it cleans up" {
					useStyle(w, "cleanup by finalizer")
					return
				}
				if createsTwice(w, name) {
					return
				}
				if name == "leaves goroutines behind" {
					w.Create(deployment())
					w.Settle()
					scaleRepeatedly(w)
					return
				}
				w.Always(atMostTwo)
				w.Always(invariant.Stays(userImage))
				web := deployment()
				w.Create(web)
				if name != "updates without a revision" {
					w.Settle()
				}
				w.Patch(web, types.StrategicMergePatchType, `{"spec":{"template":{"spec":{"containers":[{"name":"main","image":"web:2"}]}}}}`)
				w.Settle()
				if name == "ignores changes of labels" {
					w.Patch(web, types.MergePatchType, `{"metadata":{"labels":{"approved":"yes"}}}`)
				}
				w.Eventually(10*time.Minute, updated)
			}
			r := simtest.Explore(t, simtest.Seeds(400), test)
			if r.Failure == nil || len(r.SeenOnce) > 0 {
				t.Fatalf("failure %v, seen once %v", r.Failure, r.SeenOnce)
			}
			f := r.Failure
			run, cause := f.Run, report.Cause(f.Run, f.Nearest)
			if !strings.HasPrefix(run.Failure.Oracle, d.violates) {
				t.Errorf("violated: %s: %s", run.Failure.Oracle, run.Failure.Message)
			}
			if f.Repeats == 0 || f.Same != f.Repeats || f.Identical != f.Repeats {
				t.Errorf("%+v, although the runs have no other source of chance", f.Tally)
			}
			want := d.says
			if d.harmful.nth > 0 {
				s := d.harmful.in(run)
				if s == nil {
					t.Fatalf("the run has no %v", d.harmful)
				}
				resource, _, _ := strings.Cut(s.Resource, ".")
				want = fmt.Sprintf("corpus %sd %s default/%s (step %d)", s.Verb, resource, s.Name, s.N)
			}
			if d.missing.nth > 0 {
				s := d.missing.in(f.Nearest)
				if s == nil {
					t.Fatalf("the nearest run has no %v", d.missing)
				}
				want = fmt.Sprintf("the nearest passing run has corpus' %s of %s default/%s (step %d there), which is missing here", s.Verb, s.Resource, s.Name, s.N)
			}
			if !strings.Contains(cause, want) {
				t.Errorf("the cause is\n%s\nwant\n%s", cause, want)
			}
			if d.needs == "" {
				if len(run.Faults) > 0 {
					t.Errorf("it needs no fault, and has %q", run.Faults)
				}
				return
			}
			if len(f.Plan.Faults) != 1 || f.Plan.Faults[0].Kind != d.needs || !strings.Contains(cause, run.Faults[0]) {
				t.Errorf("faults %q, want one %s; the cause is %s", run.Faults, d.needs, cause)
			}
			examples.Minimal(t, f, simtest.Options{}, test)
		})
	}
}
