package stages

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// twoHalves has a stage with two writes, and one for terminating pods.
const twoHalves = `
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: halves}
spec:
  resourceRef: {kind: Pod}
  selector:
    matchExpressions:
    - {key: .metadata.labels.half, operator: DoesNotExist}
    - {key: .status.phase, operator: In, values: [Pending]}
  steps:
  - patch: {type: merge, root: metadata, template: "labels: {half: 'yes'}"}
  - patch: {type: merge, subresource: status, root: status, template: "phase: Running"}
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: gone}
spec:
  resourceRef: {kind: Pod}
  selector: {matchExpressions: [{key: .metadata.deletionTimestamp, operator: Exists}]}
  next: {delete: true}
`

func pendingPod(version int, labels ...string) *corev1.Pod {
	p := testPod(version, labels...)
	p.Status.Phase = corev1.PodPending
	return p
}

// TestDeletionCancelsResume checks that a pod whose stage stopped after its first write, because the API
// rejects the second one each time, is deleted at once, without waiting for the backoff of that stage.
func TestDeletionCancelsResume(t *testing.T) {
	b := newHarness(t, twoHalves)
	b.observe(pendingPod(2))
	b.table.done(b.now, b.want("halves"), outcome{kind: failed, permanent: true, problem: "no", stopped: true, step: 1, object: pendingPod(3, "half")})
	b.advance(time.Second)
	b.table.done(b.now, b.want("halves"), outcome{kind: failed, permanent: true, problem: "no"})
	deleted := pendingPod(4, "half")
	at := metav1.NewTime(b.now)
	deleted.DeletionTimestamp = &at
	b.observe(deleted)
	b.want("gone")
}

// TestRejectionsCancelResume checks that the rest of the stage is given up after mostRejections.
func TestRejectionsCancelResume(t *testing.T) {
	for _, kind := range []outcomeKind{failed, outdated} {
		b := newHarness(t, twoHalves)
		b.observe(pendingPod(2))
		b.table.done(b.now, b.want("halves"), outcome{kind: failed, permanent: kind == failed, problem: "no", stopped: true, step: 1, object: pendingPod(3, "half")})
		attempts := 0
		for end := b.now.Add(time.Hour); b.now.Before(end); b.advance(time.Second) {
			j, ok := b.take()
			switch {
			case !ok:
			case j.confirm:
				b.table.done(b.now, j, outcome{kind: found, object: pendingPod(3, "half")})
			default:
				attempts++
				b.table.done(b.now, j, outcome{kind: kind, permanent: kind == failed, problem: "no"})
			}
		}
		if attempts > mostRejections+1 {
			t.Errorf("the second half was tried %d times", attempts)
		}
		b.observe(pendingPod(4))
		b.want("halves") // the stage starts from the beginning
	}
}

// TestRejectionDrawsAfresh checks that a stage that the API rejects each time does not prevent another
// matching stage from being drawn.
func TestRejectionDrawsAfresh(t *testing.T) {
	act := testStages[:strings.Index(testStages, "---")]
	b := newHarness(t, testStages+"---"+strings.NewReplacer("name: act", "name: too", "acted", "too").Replace(act))
	b.observe(testPod(2, "go"))
	tried := map[string]int{}
	for end := b.now.Add(time.Hour); b.now.Before(end); b.advance(time.Second) {
		if j, ok := b.take(); ok {
			tried[j.decision.Stage]++
			b.table.done(b.now, j, outcome{kind: failed, permanent: true, problem: "no"})
		}
	}
	if tried["act"] < 3 || tried["too"] < 3 {
		t.Errorf("tried %v", tried)
	}
}

// TestStagesUndoEachOther checks that two stages without delay that undo each other's changes are slowed down,
// and that one report names both.
func TestStagesUndoEachOther(t *testing.T) {
	b := newHarness(t, `
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: up}
spec:
  resourceRef: {kind: Pod}
  selector: {matchLabels: {half: "yes"}}
  steps: [{patch: {type: merge, root: metadata, template: "labels: {half: null}"}}]
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: down}
spec:
  resourceRef: {kind: Pod}
  selector: {matchExpressions: [{key: .metadata.labels.half, operator: DoesNotExist}]}
  steps: [{patch: {type: merge, root: metadata, template: "labels: {half: 'yes'}"}}]
`)
	var reported []trouble
	b.table.troubled = func(t trouble) { reported = append(reported, t) }
	version, half := 2, false
	see := func() *corev1.Pod {
		version++
		if half = !half; half {
			return testPod(version, "half")
		}
		return testPod(version)
	}
	b.observe(see())
	writes := 0
	for end := b.now.Add(time.Minute); b.now.Before(end); b.advance(100 * time.Millisecond) {
		for {
			j, ok := b.take()
			if !ok {
				break
			}
			writes++
			b.play(j, see())
		}
	}
	if writes < 80 || writes > 100 {
		t.Errorf("%d writes in a minute", writes)
	}
	if len(reported) != 1 || !strings.Contains(reported[0].text, "being down and up") {
		t.Errorf("reported %+v", reported)
	}
}

// TestBlockedStageIsReported checks that a stage that is left out of the draw because of its delay is reported
// once, while another stage runs.
func TestBlockedStageIsReported(t *testing.T) {
	b := newHarness(t, testStages+`
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: never}
spec:
  resourceRef: {kind: Pod}
  selector: {matchLabels: {go: "yes"}}
  weight: 1000
  delay: {durationFrom: {jq: {expression: '"soon"'}}}
  next: {delete: true}
`)
	var reported []trouble
	b.table.troubled = func(t trouble) { reported = append(reported, t) }
	b.observe(testPod(2, "go"))
	for i := range 3 {
		b.advance(20 * time.Second)
		b.play(b.want("act"), testPod(3+i, "go"))
	}
	if len(reported) != 1 || reported[0].stage != "never" || !strings.Contains(reported[0].text, "soon") {
		t.Errorf("reported %+v", reported)
	}
}
