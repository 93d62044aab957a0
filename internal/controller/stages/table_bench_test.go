package stages

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// BenchmarkWaiting measures the memory that the engine needs for 100,000 pods that wait in delays, in addition
// to the pods themselves, in bytes per pod, and the time to observe one.
func BenchmarkWaiting(b *testing.B) {
	const many = 100_000
	pods := make([]*corev1.Pod, many)
	for i := range pods {
		p := testPod(i+2, "go")
		p.Name, p.UID = fmt.Sprintf("p-%06d", i), types.UID(fmt.Sprintf("394bdcd3-1340-45cc-9d6f-%012d", i))
		pods[i] = p
	}
	heapNow := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	for b.Loop() {
		before := heapNow()
		t := newTable(testSet(b, testStages), 1, func(*corev1.Node) bool { return true })
		t.observe(start, testNode(1), false)
		began := time.Now()
		for _, p := range pods {
			t.observe(start, p, false)
		}
		took := time.Since(began)
		if known, planned := t.size(); known != many+1 || planned < many {
			b.Fatalf("%d known, %d planned", known, planned)
		}
		b.ReportMetric(float64(heapNow()-before)/many, "B/pod")
		b.ReportMetric(float64(took.Nanoseconds())/many, "ns/pod")
		runtime.KeepAlive(t)
	}
}
