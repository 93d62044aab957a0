package stages

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

// BenchmarkLateness measures how late 10,000 stages start that are due within ten seconds, a thousand a
// second, if each write is answered after 5 ms: the delay that the table, the agenda and the workers add, with
// an event for each write. It takes 11 s: -benchtime 1x.
func BenchmarkLateness(b *testing.B) {
	const many, answer, workers = 10_000, 5 * time.Millisecond, 16
	const stages = `
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: act}
spec:
  resourceRef: {kind: Pod}
  selector: {matchLabels: {go: "yes"}}
  delay: {durationMilliseconds: 1000, jitterDurationMilliseconds: 11000}
  next: {statusTemplate: "message: acted"}
`
	for b.Loop() {
		t := newTable(testSet(b, stages), 1, func(*corev1.Node) bool { return true })
		wake, due := make(chan struct{}, 1), make(chan types.UID)
		t.wake = func() { notify(wake) }
		t.observe(time.Now(), testNode(1), false)
		for i := range many {
			p := testPod(i+2, "go")
			p.Name, p.UID = fmt.Sprint("p-", i), types.UID(fmt.Sprint("uid-", i))
			t.observe(time.Now(), p, false)
		}
		ctx, cancel := context.WithCancel(b.Context())
		var running, all sync.WaitGroup
		var mu sync.Mutex
		var late []time.Duration
		all.Add(many)
		running.Go(func() { dispatch(ctx, clock.RealClock{}, t.pop, wake, due) })
		for range workers {
			running.Go(func() {
				for uid := range due {
					now := time.Now()
					j, ok := t.begin(now, uid)
					if !ok {
						continue
					}
					<-time.After(answer)
					after := j.object.(*corev1.Pod).DeepCopy()
					after.Labels, after.ResourceVersion = nil, strconv.FormatUint(revision(after.ResourceVersion)+many, 10)
					t.done(time.Now(), j, outcome{kind: played, object: after, wrote: true})
					t.observe(time.Now(), after.DeepCopy(), false) // the watch delivers it too
					mu.Lock()
					late = append(late, now.Sub(j.decision.Due))
					mu.Unlock()
					all.Done()
				}
			})
		}
		all.Wait()
		cancel()
		running.Wait()
		slices.Sort(late)
		b.ReportMetric(float64(late[many/2].Microseconds())/1000, "ms-p50")
		b.ReportMetric(float64(late[many*99/100].Microseconds())/1000, "ms-p99")
		b.ReportMetric(float64(late[many-1].Microseconds())/1000, "ms-most")
	}
}
