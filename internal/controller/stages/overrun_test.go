package stages

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rehearse-k8s/rehearse/stage"
)

const hungryStage1 = `
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: hungry}
spec:
  resourceRef: {kind: Pod}
  selector: {matchExpressions: [{key: '"x" * 2000000000', operator: Exists}]}
  next: {delete: true}
`

// TestOverruns checks that a stage that exceeds its budget is reported on the object, and is left out after
// mostOverruns times, while other stages run, and that it runs again after it was changed.
func TestOverruns(t *testing.T) {
	b := newHarness(t, testStages+hungryStage1)
	var reported, left []string
	b.table.troubled = func(t trouble) { reported = append(reported, t.stage+": "+t.text) }
	b.table.leftOut = func(name, problem string) { left = append(left, name+": "+problem) }
	for i := range 2 * mostOverruns {
		p := testPod(2+i, "go")
		p.Name, p.UID = strings.Repeat("p", i+1), types.UID(strings.Repeat("u", i+1))
		b.observe(p)
	}
	if len(reported) != mostOverruns || !strings.Contains(reported[0], "hungry: the program does too much") || len(left) != 1 {
		t.Errorf("reported %q, left out %q", reported, left)
	}
	b.advance(20 * time.Second)
	for range 2 * mostOverruns {
		b.play(b.want("act"), nil)
	}
	b.table.setStages(b.now, testSet(t, testStages+strings.Replace(hungryStage1, `"x" * 2000000000`, ".metadata", 1)))
	b.want("hungry")
}

// TestTemplateOverruns checks the same for a stage whose template exceeds its budget.
func TestTemplateOverruns(t *testing.T) {
	b := newHarness(t, testStages)
	left := 0
	b.table.leftOut = func(string, string) { left++ }
	b.observe(testPod(2, "go"))
	for range mostOverruns {
		b.advance(time.Hour)
		b.table.done(b.now, b.want("act"), outcome{kind: failed, permanent: true, overran: true, problem: "too much"})
	}
	b.advance(time.Hour)
	b.wantNothing()
	if left != 1 {
		t.Errorf("left out %d times", left)
	}
}

// TestOverrunOfEarlierStage checks that a job of a stage that was corrected meanwhile does not count against the corrected one.
func TestOverrunOfEarlierStage(t *testing.T) {
	b := newHarness(t, testStages)
	b.table.leftOut = func(name, problem string) { t.Errorf("%s is left out: %s", name, problem) }
	for i := range mostOverruns {
		p := testPod(2+i, "go")
		p.Name, p.UID = strings.Repeat("p", i+1), types.UID(strings.Repeat("u", i+1))
		b.observe(p)
	}
	b.advance(time.Hour)
	var jobs []job
	for range mostOverruns {
		jobs = append(jobs, b.want("act"))
	}
	b.table.setStages(b.now, testSet(t, testStages))
	for _, j := range jobs {
		b.table.done(b.now, j, outcome{kind: failed, permanent: true, overran: true, problem: "too much"})
	}
	b.advance(time.Hour)
	b.want("act")
}

// lockTaker is an object that takes the table's lock when a decision on it is made.
type lockTaker struct {
	stage.Object
	table *table
	asked *int
}

func (l lockTaker) GetResourceVersion() string {
	l.table.size()
	*l.asked++
	return l.Object.GetResourceVersion()
}

// TestDecisionsNeedNoLock checks that decisions are made without the table's lock. With the lock, this test
// would deadlock.
func TestDecisionsNeedNoLock(t *testing.T) {
	b := newHarness(t, testStages)
	asked := 0
	object := lockTaker{Object: testPod(2, "go"), table: b.table, asked: &asked}
	e := &entry{id: "p-uid", uid: "p-uid", key: keyOf(object.Object), object: object, node: "node-1"}
	b.table.entries["p-uid"], b.table.names[e.key] = e, "p-uid"
	b.table.setStages(b.now, testSet(t, testStages))
	b.table.begin(b.now, "p-uid")
	if asked < 2 {
		t.Errorf("decided %d times", asked)
	}
}
