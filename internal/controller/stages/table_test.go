package stages

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rehearse-k8s/rehearse/stage"
)

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// Stage "act" waits 20 s on pods labelled go=yes; "other" waits 10 s on pods
// labelled other=yes; "create" and "ready" are the pair of kwok #1002.
const testStages = `
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: act}
spec:
  resourceRef: {kind: Pod}
  selector: {matchLabels: {go: "yes"}}
  delay: {durationMilliseconds: 20000}
  next: {statusTemplate: "message: acted"}
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: other}
spec:
  resourceRef: {kind: Pod}
  selector: {matchLabels: {other: "yes"}}
  delay: {durationMilliseconds: 10000}
  next: {statusTemplate: "message: other"}
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: node}
spec:
  resourceRef: {kind: Node}
  selector: {matchLabels: {fresh: "yes"}}
  next: {statusTemplate: "phase: Running"}
`

func testSet(t testing.TB, yaml string) *stage.Set {
	t.Helper()
	stages, err := stage.Load("test.yaml", []byte(yaml))
	if err != nil {
		t.Fatal(err)
	}
	set, err := stage.Compile(stages)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// bench is a table with a clock that the test moves.
type bench struct {
	*testing.T
	table *table
	now   time.Time
}

func newBench(t *testing.T, yaml string) *bench {
	b := &bench{T: t, now: start}
	b.table = newTable(testSet(t, yaml), 1, func(n *corev1.Node) bool { return n.Labels["real"] == "" })
	b.see(testNode(1))
	return b
}

func testNode(version int) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1", UID: "node-1-uid", ResourceVersion: strconv.Itoa(version)}}
}

func testPod(version int, labels ...string) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "default", UID: "p-uid", ResourceVersion: strconv.Itoa(version), Labels: map[string]string{}},
		Spec:       corev1.PodSpec{NodeName: "node-1"},
	}
	for _, l := range labels {
		p.Labels[l] = "yes"
	}
	return p
}

func (b *bench) see(o stage.Object) { b.table.observe(b.now, o, false) }

func (b *bench) pass(d time.Duration) { b.now = b.now.Add(d) }

// take takes out the next job as the dispatcher and a worker would do together,
// or that it has none.
func (b *bench) take() (job, bool) {
	b.Helper()
	for {
		uid, _, ok := b.table.pop(b.now)
		if !ok {
			return job{}, false
		}
		if j, ok := b.table.begin(b.now, uid); ok {
			return j, true
		}
	}
}

func (b *bench) want(stage string) job {
	b.Helper()
	j, ok := b.take()
	if !ok || j.decision.Stage != stage || j.confirm {
		b.Fatalf("got %q (confirm %v, any %v), want stage %s", j.decision.Stage, j.confirm, ok, stage)
	}
	return j
}

func (b *bench) wantConfirm() job {
	b.Helper()
	j, ok := b.take()
	if !ok || !j.confirm {
		b.Fatalf("got stage %q (any %v), want a live read", j.decision.Stage, ok)
	}
	return j
}

func (b *bench) wantNothing() {
	b.Helper()
	if j, ok := b.take(); ok {
		b.Fatalf("got stage %q (confirm %v) on version %s, want nothing", j.decision.Stage, j.confirm, j.object.GetResourceVersion())
	}
}

// wantEmpty checks that nothing is left of pods anywhere.
func (b *bench) wantEmpty() {
	b.Helper()
	t := b.table
	if len(t.entries) != 1 || len(t.names) != 1 || len(t.podsOf) != 0 || t.due.len() != 0 {
		b.Fatalf("left behind: %d entries, %d names, %d nodes with pods, %d due", len(t.entries), len(t.names), len(t.podsOf), t.due.len())
	}
}

func (b *bench) play(j job, o stage.Object) {
	b.table.done(b.now, j, outcome{kind: played, object: o, wrote: o != nil})
}

// The rows of the table of what an update does to a stage that waits
// (each is a way a naive engine fails).

func TestSameVersionAgainChangesNothing(t *testing.T) {
	b := newBench(t, testStages)
	b.see(testPod(2, "go"))
	b.pass(15 * time.Second)
	b.see(testPod(2, "go"))
	b.pass(5 * time.Second)
	b.want("act")
}

func TestUpdateThatStillMatchesDoesNotRestartTheDelay(t *testing.T) {
	b := newBench(t, testStages)
	b.see(testPod(2, "go"))
	for i := range 19 { // an object updated more often than the delay
		b.pass(time.Second)
		b.see(testPod(3+i, "go", "touched"))
		b.wantNothing()
	}
	b.pass(time.Second)
	if j := b.want("act"); j.object.GetResourceVersion() != "21" || j.decision.ResourceVersion != "21" {
		t.Errorf("decided on version %s", j.decision.ResourceVersion)
	}
}

// kwok #958, a1: the job was lost when an event out of order matched nothing.
func TestOlderVersionIsIgnored(t *testing.T) {
	b := newBench(t, testStages)
	b.see(testPod(2, "go"))
	b.see(testPod(1))
	b.see(testPod(2, "go"))
	b.pass(21 * time.Second)
	b.play(b.want("act"), testPod(3))
	b.pass(time.Hour)
	b.wantNothing()
}

// kwok #958, a2: a stage that no longer matches must not fire.
func TestNoLongerMatching(t *testing.T) {
	b := newBench(t, testStages)
	b.see(testPod(2, "go"))
	b.pass(10 * time.Second)
	b.see(testPod(3))
	b.pass(time.Hour)
	b.wantNothing()
	b.see(testPod(4, "go"))
	b.pass(19 * time.Second)
	b.wantNothing() // its delay starts again
	b.pass(time.Second)
	b.want("act")
}

func TestAnotherStageTakesOver(t *testing.T) {
	b := newBench(t, testStages)
	b.see(testPod(2, "go"))
	b.pass(15 * time.Second)
	b.see(testPod(3, "other"))
	b.pass(6 * time.Second)
	b.wantNothing() // 21 s, but act is not the chosen one any more
	b.pass(4 * time.Second)
	b.play(b.want("other"), testPod(4))
	b.pass(time.Hour)
	b.wantNothing()
}

// The job has left the heap and waits for a worker when the object changes.
func TestChangeWhileHandedOut(t *testing.T) {
	for name, c := range map[string]struct {
		newer *corev1.Pod
		runs  string
	}{
		"still matches":   {testPod(3, "go"), "act"},
		"matches no more": {testPod(3), ""},
		"another stage":   {testPod(3, "other"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, testStages)
			b.see(testPod(2, "go"))
			b.pass(20 * time.Second)
			uid, _, ok := b.table.pop(b.now)
			if !ok {
				t.Fatal("not due")
			}
			b.see(c.newer)
			if _, _, again := b.table.pop(b.now); again {
				t.Fatal("handed out twice")
			}
			j, runs := b.table.begin(b.now, uid)
			if runs != (c.runs != "") {
				t.Fatalf("runs: %v (%s)", runs, j.decision.Stage)
			}
			if runs {
				if j.decision.ResourceVersion != "3" {
					t.Errorf("runs on version %s", j.decision.ResourceVersion)
				}
				b.play(j, testPod(4))
			}
			b.pass(10 * time.Second)
			if c.newer.Labels["other"] != "" {
				b.want("other")
			} else {
				b.wantNothing()
			}
		})
	}
}

// A change that comes while the write is under way is decided on afterwards.
func TestChangeWhileWriting(t *testing.T) {
	b := newBench(t, testStages)
	b.see(testPod(2, "go"))
	b.pass(20 * time.Second)
	j := b.want("act")
	b.see(testPod(4, "other")) // newer than the answer to the write
	b.wantNothing()
	b.play(j, testPod(3, "go"))
	b.pass(10 * time.Second)
	if j := b.want("other"); j.decision.ResourceVersion != "4" {
		t.Errorf("decided on version %s", j.decision.ResourceVersion)
	}
}

// kwok, b3: the retry of a failed stage must not displace newer work.
func TestRetryDoesNotDisplaceNewerWork(t *testing.T) {
	b := newBench(t, testStages)
	b.see(testPod(2, "go"))
	b.pass(20 * time.Second)
	j := b.want("act")
	b.see(testPod(3, "other"))
	b.table.done(b.now, j, outcome{kind: failed})
	b.pass(9 * time.Second)
	b.wantNothing()
	b.pass(time.Second)
	b.play(b.want("other"), testPod(4))
	b.pass(time.Hour)
	b.wantNothing()
}

func TestFailingObjectBacksOffAlone(t *testing.T) {
	b := newBench(t, testStages)
	b.see(testPod(2, "go"))
	other := testPod(2, "go")
	other.Name, other.UID = "q", "q-uid"
	b.see(other)
	b.pass(20 * time.Second)
	first, second := b.want("act"), b.want("act")
	if first.uid == second.uid {
		t.Fatal("one object twice")
	}
	b.play(second, nil)
	var waits []time.Duration
	for range 12 {
		b.table.done(b.now, first, outcome{kind: failed})
		b.wantNothing()
		_, next, _ := b.table.pop(b.now)
		waits = append(waits, next.Sub(b.now))
		b.now = next
		first = b.want("act")
	}
	for i, w := range waits {
		most := min(backoffFirst<<i, backoffMost)
		if w < most/2 || w > most {
			t.Errorf("wait %d is %s, want %s to %s", i, w, most/2, most)
		}
	}
	b.table.done(b.now, first, outcome{kind: failed, retryAfter: 5 * time.Minute})
	if _, next, _ := b.table.pop(b.now); next.Sub(b.now) != 5*time.Minute {
		t.Errorf("Retry-After of 5m gave %s", next.Sub(b.now))
	}
}

// An update does not let a failing object jump its back-off.
func TestUpdateDoesNotEndTheBackoff(t *testing.T) {
	b := newBench(t, testStages)
	b.see(testPod(2, "go"))
	b.pass(20 * time.Second)
	b.table.done(b.now, b.want("act"), outcome{kind: failed, retryAfter: 30 * time.Second})
	b.see(testPod(3, "go", "touched"))
	b.pass(29 * time.Second)
	b.wantNothing()
	b.pass(time.Second)
	b.want("act")
}

func TestConflict(t *testing.T) {
	t.Run("the newer version is here already", func(t *testing.T) {
		b := newBench(t, testStages)
		b.see(testPod(2, "go"))
		b.pass(20 * time.Second)
		j := b.want("act")
		b.see(testPod(3, "go", "touched"))
		b.table.done(b.now, j, outcome{kind: outdated})
		if j := b.want("act"); j.decision.ResourceVersion != "3" {
			t.Errorf("on version %s", j.decision.ResourceVersion)
		}
	})
	t.Run("the informer shows it later", func(t *testing.T) {
		b := newBench(t, testStages)
		b.see(testPod(2, "go"))
		b.pass(20 * time.Second)
		b.table.done(b.now, b.want("act"), outcome{kind: outdated})
		b.wantNothing()
		b.pass(100 * time.Millisecond)
		b.see(testPod(3, "go", "touched"))
		b.want("act")
	})
	t.Run("the informer never shows it", func(t *testing.T) {
		b := newBench(t, testStages)
		b.see(testPod(2, "go"))
		b.pass(20 * time.Second)
		b.table.done(b.now, b.want("act"), outcome{kind: outdated})
		b.pass(confirmAfter)
		j := b.wantConfirm()
		b.table.done(b.now, j, outcome{kind: found, object: testPod(5, "go")})
		if j := b.want("act"); j.decision.ResourceVersion != "5" {
			t.Errorf("on version %s", j.decision.ResourceVersion)
		}
	})
	t.Run("the object is gone", func(t *testing.T) {
		b := newBench(t, testStages)
		b.see(testPod(2, "go"))
		b.pass(20 * time.Second)
		b.table.done(b.now, b.want("act"), outcome{kind: outdated})
		b.pass(confirmAfter)
		b.table.done(b.now, b.wantConfirm(), outcome{kind: absent})
		b.wantEmpty()
	})
	t.Run("the live read fails", func(t *testing.T) {
		b := newBench(t, testStages)
		b.see(testPod(2, "go"))
		b.pass(20 * time.Second)
		b.table.done(b.now, b.want("act"), outcome{kind: outdated})
		b.pass(confirmAfter)
		b.table.done(b.now, b.wantConfirm(), outcome{kind: failed})
		b.wantNothing()
		b.pass(backoffFirst)
		b.wantConfirm()
	})
}

func TestDelete(t *testing.T) {
	t.Run("while waiting", func(t *testing.T) {
		b := newBench(t, testStages)
		b.see(testPod(2, "go"))
		b.table.forget(b.now, "p-uid")
		b.wantEmpty()
		b.pass(time.Hour)
		b.wantNothing()
	})
	t.Run("while handed out", func(t *testing.T) {
		b := newBench(t, testStages)
		b.see(testPod(2, "go"))
		b.pass(20 * time.Second)
		uid, _, _ := b.table.pop(b.now)
		b.table.forget(b.now, "p-uid")
		if _, runs := b.table.begin(b.now, uid); runs {
			t.Fatal("runs on an object that is gone")
		}
		b.wantEmpty()
	})
	t.Run("while writing", func(t *testing.T) {
		b := newBench(t, testStages)
		b.see(testPod(2, "go"))
		b.pass(20 * time.Second)
		j := b.want("act")
		b.table.forget(b.now, "p-uid")
		b.play(j, testPod(3, "go")) // the answer comes after the delete
		b.wantEmpty()
	})
	t.Run("found out about without the object", func(t *testing.T) {
		b := newBench(t, testStages)
		b.see(testPod(2, "go"))
		b.table.forgetName(b.now, objectKey{kind: stage.KindPod, namespace: "default", name: "p"})
		b.wantEmpty()
	})
	t.Run("of something unknown", func(t *testing.T) {
		b := newBench(t, testStages)
		b.table.forget(b.now, "absent")
		b.table.forgetName(b.now, objectKey{kind: stage.KindPod, name: "absent"})
		b.wantEmpty()
	})
}

// A relist that missed the delete shows another object under the same name.
func TestSameNameOtherUID(t *testing.T) {
	again := func(version int, labels ...string) *corev1.Pod {
		p := testPod(version, labels...)
		p.UID = "second"
		return p
	}
	t.Run("while waiting", func(t *testing.T) {
		b := newBench(t, testStages)
		b.see(testPod(2, "go"))
		b.pass(15 * time.Second)
		b.see(again(9, "go"))
		b.pass(19 * time.Second)
		b.wantNothing() // the first one's delay is not the second one's
		b.pass(time.Second)
		if j := b.want("act"); j.uid != "second" {
			t.Errorf("acts on %s", j.uid)
		}
	})
	t.Run("while writing", func(t *testing.T) {
		b := newBench(t, testStages)
		b.see(testPod(2, "go"))
		b.pass(20 * time.Second)
		j := b.want("act")
		b.see(again(9))
		b.play(j, testPod(3, "go"))
		b.pass(time.Hour)
		b.wantNothing()
		b.table.forget(b.now, "p-uid") // the delete of the first comes last
		b.table.forget(b.now, "second")
		b.wantEmpty()
	})
	t.Run("the old one shown late", func(t *testing.T) {
		b := newBench(t, testStages)
		b.see(again(9, "go"))
		b.see(testPod(2, "go"))
		b.pass(20 * time.Second)
		if j := b.want("act"); j.uid != "second" {
			t.Errorf("acts on %s", j.uid)
		}
	})
}

// After a delete that succeeded nothing is tried again until the cache shows
// what became of the object, or a live read does.
func TestAfterADelete(t *testing.T) {
	b := newBench(t, `
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: delete}
spec:
  resourceRef: {kind: Pod}
  selector: {}
  next: {delete: true}
`)
	b.see(testPod(2))
	j := b.want("delete")
	b.table.done(b.now, j, outcome{kind: deleted, wrote: true})
	b.pass(confirmDelete - 1)
	b.wantNothing()
	b.pass(1)
	j = b.wantConfirm()
	// It is still there, held by a finalizer.
	b.table.done(b.now, j, outcome{kind: found, object: testPod(3)})
	// This time the stage wrote something first.
	b.table.done(b.now, b.want("delete"), outcome{kind: deleted, wrote: true, object: testPod(4)})
	b.pass(confirmDelete - 1)
	b.wantNothing()
	b.table.forget(b.now, "p-uid")
	b.wantEmpty()
}

func TestNodes(t *testing.T) {
	t.Run("pods wait for their node", func(t *testing.T) {
		b := newBench(t, testStages)
		b.table.forget(b.now, "node-1-uid")
		b.see(testPod(2, "go"))
		b.pass(time.Hour)
		b.wantNothing()
		b.see(testNode(7))
		b.pass(20 * time.Second)
		b.want("act")
	})
	t.Run("a node that goes takes its pods' plans along", func(t *testing.T) {
		b := newBench(t, testStages)
		b.see(testPod(2, "go"))
		b.table.forget(b.now, "node-1-uid")
		b.pass(time.Hour)
		b.wantNothing()
	})
	t.Run("a node that is no longer ours", func(t *testing.T) {
		b := newBench(t, testStages)
		b.see(testPod(2, "go"))
		n := testNode(8)
		n.Labels = map[string]string{"real": "yes", "fresh": "yes"}
		b.see(n)
		b.pass(time.Hour)
		b.wantNothing()
	})
	t.Run("nodes have stages too", func(t *testing.T) {
		b := newBench(t, testStages)
		n := testNode(8)
		n.Labels = map[string]string{"fresh": "yes"}
		b.see(n)
		b.play(b.want("node"), nil)
		b.pass(time.Hour)
		b.wantNothing() // nothing to change on this version
	})
}

// Delays go on over a restart: what was there at the start counts from its own
// last change.
func TestDelaysSurviveARestart(t *testing.T) {
	b := newBench(t, testStages)
	b.table.forget(b.now, "node-1-uid")
	p := testPod(2, "go")
	p.CreationTimestamp = metav1.NewTime(start.Add(-time.Minute))
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, LastTransitionTime: metav1.NewTime(start.Add(-15 * time.Second))}}
	b.table.observe(b.now, p, true)
	b.table.observe(b.now, testNode(5), true)
	b.pass(4 * time.Second)
	b.wantNothing()
	b.pass(time.Second)
	b.want("act")
}

// kwok #1002, b1: a pod that runs never goes back, whatever order the writes
// and their echoes come in.
func TestNeverBack(t *testing.T) {
	const yaml = `
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: create}
spec:
  resourceRef: {kind: Pod}
  selector: {matchExpressions: [{key: .status.podIP, operator: DoesNotExist}]}
  delay: {durationMilliseconds: 1000, jitterDurationMilliseconds: 5000}
  next: {finalizers: {add: [{value: kwok.x-k8s.io/fake}]}, statusTemplate: "{phase: Pending, podIP: 10.0.0.1}"}
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: ready}
spec:
  resourceRef: {kind: Pod}
  selector: {matchExpressions: [{key: .status.podIP, operator: Exists}, {key: .status.phase, operator: NotIn, values: [Running]}]}
  delay: {durationMilliseconds: 1000, jitterDurationMilliseconds: 5000}
  next: {statusTemplate: "phase: Running"}
`
	for seed := range uint64(50) {
		b := newBench(t, yaml)
		b.table.seed = seed
		var log []string
		p := testPod(2)
		b.see(p)
		version := 2
		for range 400 {
			b.pass(50 * time.Millisecond)
			if b.now.Sub(start)%time.Second == 0 && version < 20 { // another client writes the pod all the time
				version++
				p = p.DeepCopy()
				p.ResourceVersion = strconv.Itoa(version)
				b.see(p)
			}
			j, ok := b.take()
			if !ok {
				continue
			}
			e, err := b.table.stages.Play(b.now, j.object, j.decision, nil)
			if err != nil {
				t.Fatal(err)
			}
			if e.ResourceVersion != p.ResourceVersion {
				t.Fatalf("decided on %s, newest is %s", e.ResourceVersion, p.ResourceVersion)
			}
			version++
			p = e.Object.(*corev1.Pod).DeepCopy()
			p.ResourceVersion = strconv.Itoa(version)
			log = append(log, j.decision.Stage)
			b.play(j, p)
			b.see(p) // and the echo of the write
		}
		if fmt.Sprint(log) != "[create ready]" {
			t.Fatalf("seed %d: played %v", seed, log)
		}
	}
}

// TestNothingIsLost: whatever happens in whatever order, an object that has a
// stage to play is in the agenda or busy, and one that is gone is nowhere.
func TestNothingIsLost(t *testing.T) { checkTable(t) }

// TestRestoredStore: an older version is accepted from a live read that began when the newer one was known, and from
// nothing else; what comes after it is then newer.
func TestRestoredStore(t *testing.T) {
	b := newBench(t, testStages)
	b.see(testNode(1))
	b.see(testPod(900, "other"))
	key := keyOf(testPod(900))
	b.table.doubt(b.now, key)
	j := b.wantConfirm()
	b.see(testPod(901, "other")) // the read began before this was known
	b.table.done(b.now, j, outcome{kind: found, object: testPod(500, "go")})
	if got := b.table.entries[b.table.names[key]].version; got != 901 {
		t.Fatalf("version %d after a read that may be older than it", got)
	}
	b.table.doubt(b.now, key)
	b.table.done(b.now, b.wantConfirm(), outcome{kind: found, object: testPod(500, "go")})
	if got := b.table.entries[b.table.names[key]].version; got != 500 {
		t.Fatalf("version %d after a live read", got)
	}
	b.see(testPod(501, "go"))
	if got := b.table.entries[b.table.names[key]].version; got != 501 {
		t.Fatalf("version %d after an event", got)
	}
	b.table.doubt(b.now, key)
	b.table.done(b.now, b.wantConfirm(), outcome{kind: absent})
	if len(b.table.entries) != 1 {
		t.Errorf("%d objects, want the node", len(b.table.entries))
	}
	b.table.doubt(b.now, key) // of an object that is not known
}

func TestUnorderedRevision(t *testing.T) {
	if revision("12") >= revision("not a number") {
		t.Error("a version that is no number counts as newest")
	}
}
