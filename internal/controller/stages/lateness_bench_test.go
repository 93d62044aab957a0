package stages

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

// acting is a stage of each pod with the label go; %s is its delay.
const acting = `
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: act}
spec:
  resourceRef: {kind: Pod}
  selector: {matchLabels: {go: "yes"}}
  delay: {%s}
  next: {statusTemplate: "message: acted"}
`

// BenchmarkLateness measures how late 10,000 stages start that are due within ten seconds, a thousand a
// second, if each write is answered after 5 ms: the delay that the table, the agenda and the workers add, with
// an event for each write. It takes 11 s: -benchtime 1x.
func BenchmarkLateness(b *testing.B) {
	const many = 10_000
	for b.Loop() {
		late := play(b, fmt.Sprintf(acting, "durationMilliseconds: 1000, jitterDurationMilliseconds: 11000"), many, 16)
		slices.Sort(late)
		b.ReportMetric(float64(late[many/2].Microseconds())/1000, "ms-p50")
		b.ReportMetric(float64(late[many*99/100].Microseconds())/1000, "ms-p99")
		b.ReportMetric(float64(late[many-1].Microseconds())/1000, "ms-most")
	}
}

// BenchmarkWorkers measures the rate of stages that are due at once, if each write is answered after 5 ms and each processor has four
// workers (-cpu 1,2,4,8). While they wait for the answer they use no CPU, so the rate grows with -cpu also on a machine with fewer cores,
// unless the table's lock, or the goroutine that gives the workers what is due, limits it.
func BenchmarkWorkers(b *testing.B) {
	const many = 4000
	for range b.N { // b.Loop runs all in the first call, before testing applies -cpu
		play(b, fmt.Sprintf(acting, "durationMilliseconds: 0"), many, 4*runtime.GOMAXPROCS(0))
	}
	b.ReportMetric(float64(many*b.N)/b.Elapsed().Seconds(), "stages/s")
}

// play runs the stage of many pods, each once, and returns how late each started. Each write is answered after 5 ms.
func play(b *testing.B, stages string, many, workers int) (late []time.Duration) {
	b.StopTimer()
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
	all.Add(many)
	b.StartTimer()
	running.Go(func() { dispatch(ctx, clock.RealClock{}, t.pop, wake, due) })
	for range workers {
		running.Go(func() {
			for uid := range due {
				now := time.Now()
				j, ok := t.begin(now, uid)
				if !ok {
					continue
				}
				<-time.After(5 * time.Millisecond)
				after := j.object.(*corev1.Pod).DeepCopy()
				after.Labels, after.ResourceVersion = nil, strconv.FormatUint(revision(after.ResourceVersion)+uint64(many), 10)
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
	return late
}
