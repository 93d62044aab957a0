package stages

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// twoHalves has a stage of two writes and one for pods that are being deleted.
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

// TestDeletionCancelsResume: a pod whose stage stopped half way, because the API rejects its
// second write each time, goes at once when it is deleted, whatever the stage waits for.
func TestDeletionCancelsResume(t *testing.T) {
	b := newBench(t, twoHalves)
	b.see(pendingPod(2))
	b.table.done(b.now, b.want("halves"), outcome{kind: failed, permanent: true, problem: "no", stopped: true, step: 1, object: pendingPod(3, "half")})
	b.pass(time.Second)
	b.table.done(b.now, b.want("halves"), outcome{kind: failed, permanent: true, problem: "no"})
	deleted := pendingPod(4, "half")
	at := metav1.NewTime(b.now)
	deleted.DeletionTimestamp = &at
	b.see(deleted)
	b.want("gone")
}

// TestRejectionsCancelResume: after mostRejections the rest of the stage is given up.
func TestRejectionsCancelResume(t *testing.T) {
	for _, kind := range []outcomeKind{failed, outdated} {
		b := newBench(t, twoHalves)
		b.see(pendingPod(2))
		b.table.done(b.now, b.want("halves"), outcome{kind: failed, permanent: kind == failed, problem: "no", stopped: true, step: 1, object: pendingPod(3, "half")})
		attempts := 0
		for end := b.now.Add(time.Hour); b.now.Before(end); b.pass(time.Second) {
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
		b.see(pendingPod(4))
		b.want("halves") // it is no longer half done
	}
}

// TestRejectionDrawsAfresh: a stage that the API rejects each time does not keep another one
// that matches from being drawn.
func TestRejectionDrawsAfresh(t *testing.T) {
	act := testStages[:strings.Index(testStages, "---")]
	b := newBench(t, testStages+"---"+strings.NewReplacer("name: act", "name: too", "acted", "too").Replace(act))
	b.see(testPod(2, "go"))
	tried := map[string]int{}
	for end := b.now.Add(time.Hour); b.now.Before(end); b.pass(time.Second) {
		if j, ok := b.take(); ok {
			tried[j.decision.Stage]++
			b.table.done(b.now, j, outcome{kind: failed, permanent: true, problem: "no"})
		}
	}
	if tried["act"] < 3 || tried["too"] < 3 {
		t.Errorf("tried %v", tried)
	}
}

// TestTurns: two stages without delay that undo one another are slowed down, and one
// trouble names both.
func TestTurns(t *testing.T) {
	b := newBench(t, `
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
	b.see(see())
	writes := 0
	for end := b.now.Add(time.Minute); b.now.Before(end); b.pass(100 * time.Millisecond) {
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

// TestBlockedStageIsReported: that a stage is left out of the draw for its delay is reported once, while
// another stage is played.
func TestBlockedStageIsReported(t *testing.T) {
	b := newBench(t, testStages+`
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
	b.see(testPod(2, "go"))
	for i := range 3 {
		b.pass(20 * time.Second)
		b.play(b.want("act"), testPod(3+i, "go"))
	}
	if len(reported) != 1 || reported[0].stage != "never" || !strings.Contains(reported[0].text, "soon") {
		t.Errorf("reported %+v", reported)
	}
}
