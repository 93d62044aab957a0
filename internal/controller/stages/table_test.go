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

// Stage "act" waits 20 s on pods labelled go=yes; "other" waits 10 s on pods labelled other=yes; "create" and
// "ready" are the pair of kwok #1002.
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

// harness is a table with a clock that the test advances.
type harness struct {
	*testing.T
	table *table
	now   time.Time
}

func newHarness(t *testing.T, yaml string) *harness {
	b := &harness{T: t, now: start}
	b.table = newTable(testSet(t, yaml), 1, func(n *corev1.Node) bool { return n.Labels["real"] == "" })
	b.observe(testNode(1))
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

func (b *harness) observe(o stage.Object) { b.table.observe(b.now, o, false) }

func (b *harness) advance(d time.Duration) { b.now = b.now.Add(d) }

// take returns the next job as the dispatcher and a worker would get it, and false if there is none.
func (b *harness) take() (job, bool) {
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

func (b *harness) want(stage string) job {
	b.Helper()
	j, ok := b.take()
	if !ok || j.decision.Stage != stage || j.confirm {
		b.Fatalf("got %q (confirm %v, any %v), want stage %s", j.decision.Stage, j.confirm, ok, stage)
	}
	return j
}

func (b *harness) wantConfirm() job {
	b.Helper()
	j, ok := b.take()
	if !ok || !j.confirm {
		b.Fatalf("got stage %q (any %v), want a live read", j.decision.Stage, ok)
	}
	return j
}

func (b *harness) wantNothing() {
	b.Helper()
	if j, ok := b.take(); ok {
		b.Fatalf("got stage %q (confirm %v) on version %s, want nothing", j.decision.Stage, j.confirm, j.object.GetResourceVersion())
	}
}

// wantEmpty checks that the table keeps nothing of any pod.
func (b *harness) wantEmpty() {
	b.Helper()
	t := b.table
	if len(t.entries) != 1 || len(t.names) != 1 || len(t.podsOf) != 0 || t.due.len() != 0 {
		b.Fatalf("left behind: %d entries, %d names, %d nodes with pods, %d due", len(t.entries), len(t.names), len(t.podsOf), t.due.len())
	}
}

func (b *harness) play(j job, o stage.Object) {
	b.table.done(b.now, j, outcome{kind: played, object: o, wrote: o != nil})
}

// The following tests check the effect of an update on a waiting stage. Each is a case in which a naive engine
// fails.

func TestSameVersionAgainChangesNothing(t *testing.T) {
	b := newHarness(t, testStages)
	b.observe(testPod(2, "go"))
	b.advance(15 * time.Second)
	b.observe(testPod(2, "go"))
	b.advance(5 * time.Second)
	b.want("act")
}

func TestUpdateThatStillMatchesDoesNotRestartTheDelay(t *testing.T) {
	b := newHarness(t, testStages)
	b.observe(testPod(2, "go"))
	for i := range 19 { // an object that is updated more often than the delay
		b.advance(time.Second)
		b.observe(testPod(3+i, "go", "touched"))
		b.wantNothing()
	}
	b.advance(time.Second)
	if j := b.want("act"); j.object.GetResourceVersion() != "21" || j.decision.ResourceVersion != "21" {
		t.Errorf("decided on version %s", j.decision.ResourceVersion)
	}
}

// kwok #958, a1: the job was lost when an event out of order matched no stage.
func TestOlderVersionIsIgnored(t *testing.T) {
	b := newHarness(t, testStages)
	b.observe(testPod(2, "go"))
	b.observe(testPod(1))
	b.observe(testPod(2, "go"))
	b.advance(21 * time.Second)
	b.play(b.want("act"), testPod(3))
	b.advance(time.Hour)
	b.wantNothing()
}

// kwok #958, a2: a stage that no longer matches must not run.
func TestStageThatNoLongerMatchesIsNotRun(t *testing.T) {
	b := newHarness(t, testStages)
	b.observe(testPod(2, "go"))
	b.advance(10 * time.Second)
	b.observe(testPod(3))
	b.advance(time.Hour)
	b.wantNothing()
	b.observe(testPod(4, "go"))
	b.advance(19 * time.Second)
	b.wantNothing() // its delay starts again
	b.advance(time.Second)
	b.want("act")
}

func TestAnotherStageTakesOver(t *testing.T) {
	b := newHarness(t, testStages)
	b.observe(testPod(2, "go"))
	b.advance(15 * time.Second)
	b.observe(testPod(3, "other"))
	b.advance(6 * time.Second)
	b.wantNothing() // 21 s, but act is not the chosen stage any more
	b.advance(4 * time.Second)
	b.play(b.want("other"), testPod(4))
	b.advance(time.Hour)
	b.wantNothing()
}

// TestChangeWhileHandedOut checks an object that changes after its key was dispatched and before a worker
// takes it.
func TestChangeWhileHandedOut(t *testing.T) {
	for name, c := range map[string]struct {
		newer *corev1.Pod
		runs  string
	}{
		"still matches":     {testPod(3, "go"), "act"},
		"no longer matches": {testPod(3), ""},
		"another stage":     {testPod(3, "other"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			b := newHarness(t, testStages)
			b.observe(testPod(2, "go"))
			b.advance(20 * time.Second)
			uid, _, ok := b.table.pop(b.now)
			if !ok {
				t.Fatal("not due")
			}
			b.observe(c.newer)
			if _, _, again := b.table.pop(b.now); again {
				t.Fatal("dispatched twice")
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
			b.advance(10 * time.Second)
			if c.newer.Labels["other"] != "" {
				b.want("other")
			} else {
				b.wantNothing()
			}
		})
	}
}

// TestChangeWhileWriting checks that a change during a write is decided on afterwards.
func TestChangeWhileWriting(t *testing.T) {
	b := newHarness(t, testStages)
	b.observe(testPod(2, "go"))
	b.advance(20 * time.Second)
	j := b.want("act")
	b.observe(testPod(4, "other")) // newer than the answer to the write
	b.wantNothing()
	b.play(j, testPod(3, "go"))
	b.advance(10 * time.Second)
	if j := b.want("other"); j.decision.ResourceVersion != "4" {
		t.Errorf("decided on version %s", j.decision.ResourceVersion)
	}
}

// kwok, b3: the retry of a failed stage must not replace newer work.
func TestRetryDoesNotDisplaceNewerWork(t *testing.T) {
	b := newHarness(t, testStages)
	b.observe(testPod(2, "go"))
	b.advance(20 * time.Second)
	j := b.want("act")
	b.observe(testPod(3, "other"))
	b.table.done(b.now, j, outcome{kind: failed})
	b.advance(9 * time.Second)
	b.wantNothing()
	b.advance(time.Second)
	b.play(b.want("other"), testPod(4))
	b.advance(time.Hour)
	b.wantNothing()
}

func TestFailingObjectBacksOffAlone(t *testing.T) {
	b := newHarness(t, testStages)
	b.observe(testPod(2, "go"))
	other := testPod(2, "go")
	other.Name, other.UID = "q", "q-uid"
	b.observe(other)
	b.advance(20 * time.Second)
	first, second := b.want("act"), b.want("act")
	if first.uid == second.uid {
		t.Fatal("one object is dispatched twice")
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

// TestUpdateDoesNotEndTheBackoff checks that an update does not end the backoff of a failing object.
func TestUpdateDoesNotEndTheBackoff(t *testing.T) {
	b := newHarness(t, testStages)
	b.observe(testPod(2, "go"))
	b.advance(20 * time.Second)
	b.table.done(b.now, b.want("act"), outcome{kind: failed, retryAfter: 30 * time.Second})
	b.observe(testPod(3, "go", "touched"))
	b.advance(29 * time.Second)
	b.wantNothing()
	b.advance(time.Second)
	b.want("act")
}

func TestConflict(t *testing.T) {
	t.Run("the informer has shown the newer version", func(t *testing.T) {
		b := newHarness(t, testStages)
		b.observe(testPod(2, "go"))
		b.advance(20 * time.Second)
		j := b.want("act")
		b.observe(testPod(3, "go", "touched"))
		b.table.done(b.now, j, outcome{kind: outdated})
		if j := b.want("act"); j.decision.ResourceVersion != "3" {
			t.Errorf("on version %s", j.decision.ResourceVersion)
		}
	})
	t.Run("the informer shows it later", func(t *testing.T) {
		b := newHarness(t, testStages)
		b.observe(testPod(2, "go"))
		b.advance(20 * time.Second)
		b.table.done(b.now, b.want("act"), outcome{kind: outdated})
		b.wantNothing()
		b.advance(100 * time.Millisecond)
		b.observe(testPod(3, "go", "touched"))
		b.want("act")
	})
	t.Run("the informer never shows it", func(t *testing.T) {
		b := newHarness(t, testStages)
		b.observe(testPod(2, "go"))
		b.advance(20 * time.Second)
		b.table.done(b.now, b.want("act"), outcome{kind: outdated})
		b.advance(confirmAfter)
		j := b.wantConfirm()
		b.table.done(b.now, j, outcome{kind: found, object: testPod(5, "go")})
		if j := b.want("act"); j.decision.ResourceVersion != "5" {
			t.Errorf("on version %s", j.decision.ResourceVersion)
		}
	})
	t.Run("the object is gone", func(t *testing.T) {
		b := newHarness(t, testStages)
		b.observe(testPod(2, "go"))
		b.advance(20 * time.Second)
		b.table.done(b.now, b.want("act"), outcome{kind: outdated})
		b.advance(confirmAfter)
		b.table.done(b.now, b.wantConfirm(), outcome{kind: absent})
		b.wantEmpty()
	})
	t.Run("the live read fails", func(t *testing.T) {
		b := newHarness(t, testStages)
		b.observe(testPod(2, "go"))
		b.advance(20 * time.Second)
		b.table.done(b.now, b.want("act"), outcome{kind: outdated})
		b.advance(confirmAfter)
		b.table.done(b.now, b.wantConfirm(), outcome{kind: failed})
		b.wantNothing()
		b.advance(backoffFirst)
		b.wantConfirm()
	})
}

func TestDelete(t *testing.T) {
	t.Run("while waiting", func(t *testing.T) {
		b := newHarness(t, testStages)
		b.observe(testPod(2, "go"))
		b.table.forget(b.now, "p-uid")
		b.wantEmpty()
		b.advance(time.Hour)
		b.wantNothing()
	})
	t.Run("while handed out", func(t *testing.T) {
		b := newHarness(t, testStages)
		b.observe(testPod(2, "go"))
		b.advance(20 * time.Second)
		uid, _, _ := b.table.pop(b.now)
		b.table.forget(b.now, "p-uid")
		if _, runs := b.table.begin(b.now, uid); runs {
			t.Fatal("runs on a deleted object")
		}
		b.wantEmpty()
	})
	t.Run("while writing", func(t *testing.T) {
		b := newHarness(t, testStages)
		b.observe(testPod(2, "go"))
		b.advance(20 * time.Second)
		j := b.want("act")
		b.table.forget(b.now, "p-uid")
		b.play(j, testPod(3, "go")) // the answer arrives after the delete
		b.wantEmpty()
	})
	t.Run("while addresses are assigned", func(t *testing.T) {
		b, a := newHarness(t, testStages), newTestAddresses()
		b.table.podChanged = a.observePod
		b.observe(testPod(2, "go"))
		b.advance(20 * time.Second)
		j := b.want("act")
		b.table.forget(b.now, "p-uid")
		if _, err := a.podIPs(j.uid, "node-1"); err != nil { // the template is rendered after the delete
			t.Fatal(err)
		}
		b.table.done(b.now, j, outcome{kind: outdated})
		if len(a.pods) > 0 || len(a.owners) > 0 {
			t.Errorf("addresses are kept: %v", a.owners)
		}
	})
	t.Run("detected without the object", func(t *testing.T) {
		b := newHarness(t, testStages)
		b.observe(testPod(2, "go"))
		b.table.forgetName(b.now, objectKey{kind: stage.KindPod, namespace: "default", name: "p"})
		b.wantEmpty()
	})
	t.Run("of an unknown object", func(t *testing.T) {
		b := newHarness(t, testStages)
		b.table.forget(b.now, "absent")
		b.table.forgetName(b.now, objectKey{kind: stage.KindPod, name: "absent"})
		b.wantEmpty()
	})
}

// TestSameNameOtherUID checks a relist that shows another object under the same name, without the delete in
// between.
func TestSameNameOtherUID(t *testing.T) {
	again := func(version int, labels ...string) *corev1.Pod {
		p := testPod(version, labels...)
		p.UID = "second"
		return p
	}
	t.Run("while waiting", func(t *testing.T) {
		b := newHarness(t, testStages)
		b.observe(testPod(2, "go"))
		b.advance(15 * time.Second)
		b.observe(again(9, "go"))
		b.advance(19 * time.Second)
		b.wantNothing() // the delay of the first object does not apply to the second
		b.advance(time.Second)
		if j := b.want("act"); j.uid != "second" {
			t.Errorf("acts on %s", j.uid)
		}
	})
	t.Run("while writing", func(t *testing.T) {
		b := newHarness(t, testStages)
		b.observe(testPod(2, "go"))
		b.advance(20 * time.Second)
		j := b.want("act")
		b.observe(again(9))
		b.play(j, testPod(3, "go"))
		b.advance(time.Hour)
		b.wantNothing()
		b.table.forget(b.now, "p-uid") // the delete of the first object arrives last
		b.table.forget(b.now, "second")
		b.wantEmpty()
	})
	t.Run("the old object is shown late", func(t *testing.T) {
		b := newHarness(t, testStages)
		b.observe(again(9, "go"))
		b.observe(testPod(2, "go"))
		b.advance(20 * time.Second)
		if j := b.want("act"); j.uid != "second" {
			t.Errorf("acts on %s", j.uid)
		}
	})
}

// TestAfterADelete checks that, after a delete that succeeded, the engine waits until the cache or a live read
// shows the object's new state.
func TestAfterADelete(t *testing.T) {
	b := newHarness(t, `
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: delete}
spec:
  resourceRef: {kind: Pod}
  selector: {}
  next: {delete: true}
`)
	b.observe(testPod(2))
	j := b.want("delete")
	b.table.done(b.now, j, outcome{kind: deleted, wrote: true})
	b.advance(confirmDelete - 1)
	b.wantNothing()
	b.advance(1)
	j = b.wantConfirm()
	// The object still exists because of a finalizer.
	b.table.done(b.now, j, outcome{kind: found, object: testPod(3)})
	// This time the stage has written something first.
	b.table.done(b.now, b.want("delete"), outcome{kind: deleted, wrote: true, object: testPod(4)})
	b.advance(confirmDelete - 1)
	b.wantNothing()
	b.table.forget(b.now, "p-uid")
	b.wantEmpty()
}

func TestNodes(t *testing.T) {
	t.Run("pods wait for their node", func(t *testing.T) {
		b := newHarness(t, testStages)
		b.table.forget(b.now, "node-1-uid")
		b.observe(testPod(2, "go"))
		b.advance(time.Hour)
		b.wantNothing()
		b.observe(testNode(7))
		b.advance(20 * time.Second)
		b.want("act")
	})
	t.Run("deleting a node drops the plans of its pods", func(t *testing.T) {
		b := newHarness(t, testStages)
		b.observe(testPod(2, "go"))
		b.table.forget(b.now, "node-1-uid")
		b.advance(time.Hour)
		b.wantNothing()
	})
	t.Run("a node that is not managed any more", func(t *testing.T) {
		b := newHarness(t, testStages)
		b.observe(testPod(2, "go"))
		n := testNode(8)
		n.Labels = map[string]string{"real": "yes", "fresh": "yes"}
		b.observe(n)
		b.advance(time.Hour)
		b.wantNothing()
	})
	t.Run("nodes have stages too", func(t *testing.T) {
		b := newHarness(t, testStages)
		n := testNode(8)
		n.Labels = map[string]string{"fresh": "yes"}
		b.observe(n)
		b.play(b.want("node"), nil)
		b.advance(time.Hour)
		b.wantNothing() // nothing to change on this version
	})
}

// TestDelaysSurviveARestart checks that delays continue after a restart: for existing objects they count from
// the object's own last change.
func TestDelaysSurviveARestart(t *testing.T) {
	b := newHarness(t, testStages)
	b.table.forget(b.now, "node-1-uid")
	p := testPod(2, "go")
	p.CreationTimestamp = metav1.NewTime(start.Add(-time.Minute))
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, LastTransitionTime: metav1.NewTime(start.Add(-15 * time.Second))}}
	b.table.observe(b.now, p, true)
	b.table.observe(b.now, testNode(5), true)
	b.advance(4 * time.Second)
	b.wantNothing()
	b.advance(time.Second)
	b.want("act")
}

// TestPhaseNeverGoesBack checks that a running pod never returns to an earlier phase, in whatever order the
// writes and their events arrive (kwok #1002, b1).
func TestPhaseNeverGoesBack(t *testing.T) {
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
		b := newHarness(t, yaml)
		b.table.seed = seed
		var log []string
		p := testPod(2)
		b.observe(p)
		version := 2
		for range 400 {
			b.advance(50 * time.Millisecond)
			if b.now.Sub(start)%time.Second == 0 && version < 20 { // another client writes the pod continuously
				version++
				p = p.DeepCopy()
				p.ResourceVersion = strconv.Itoa(version)
				b.observe(p)
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
			b.observe(p) // and the event of the write
		}
		if fmt.Sprint(log) != "[create ready]" {
			t.Fatalf("seed %d: played %v", seed, log)
		}
	}
}

// TestNothingIsLost checks, for random operations, that an object that has a stage due is in the agenda or
// busy, and that the table keeps nothing of deleted objects.
func TestNothingIsLost(t *testing.T) { checkTable(t) }

// TestRestoredStore checks that the table accepts an older version only from a live read that began when the
// newer one was known, and that later versions are then newer.
func TestRestoredStore(t *testing.T) {
	b := newHarness(t, testStages)
	b.observe(testNode(1))
	b.observe(testPod(900, "other"))
	key := keyOf(testPod(900))
	b.table.requestRead(b.now, key)
	j := b.wantConfirm()
	b.observe(testPod(901, "other")) // the read began before this version was known
	b.table.done(b.now, j, outcome{kind: found, object: testPod(500, "go")})
	if got := b.table.entries[b.table.names[key]].version; got != 901 {
		t.Fatalf("version %d after a read that may be older than it", got)
	}
	b.table.requestRead(b.now, key)
	b.table.done(b.now, b.wantConfirm(), outcome{kind: found, object: testPod(500, "go")})
	if got := b.table.entries[b.table.names[key]].version; got != 500 {
		t.Fatalf("version %d after a live read", got)
	}
	b.observe(testPod(501, "go"))
	if got := b.table.entries[b.table.names[key]].version; got != 501 {
		t.Fatalf("version %d after an event", got)
	}
	b.table.requestRead(b.now, key)
	b.table.done(b.now, b.wantConfirm(), outcome{kind: absent})
	if len(b.table.entries) != 1 {
		t.Errorf("%d objects, want the node", len(b.table.entries))
	}
	b.table.requestRead(b.now, key) // of an unknown object
}

func TestUnorderedRevision(t *testing.T) {
	if revision("12") >= revision("not a number") {
		t.Error("a version that is not a number must count as newest")
	}
}
