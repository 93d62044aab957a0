package store

import (
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"
	testingclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
)

// bigPod has about the size of a pod in a real cluster: 1 to 2 KB.
func bigPod(i int) *example.Pod {
	p := pod(fmt.Sprintf("ns%d", i%10), fmt.Sprintf("pod-%06d", i))
	p.Labels, p.Annotations = map[string]string{}, map[string]string{}
	for n := range 10 {
		p.Labels[fmt.Sprintf("label-%d.example.com", n)] = fmt.Sprintf("value-%d-%d", n, i)
		p.Annotations[fmt.Sprintf("annotation-%d.example.com", n)] = fmt.Sprintf("a rather longer value %d of pod %d", n, i)
	}
	p.Spec = example.PodSpec{RestartPolicy: "Always", NodeName: fmt.Sprintf("node-%d", i%100), TerminationGracePeriodSeconds: ptr.To(int64(30))}
	return p
}

func filled(b *testing.B, n int) *objects {
	b.Helper()
	s := pods(b, New(Options{}), nil)
	for i := range n {
		p := bigPod(i)
		if err := s.Create(b.Context(), podKey(p), p, nil, 0); err != nil {
			b.Fatal(err)
		}
	}
	return s
}

func BenchmarkCreate(b *testing.B) {
	s := pods(b, New(Options{}), nil)
	in := make([]*example.Pod, b.N)
	for i := range in {
		in[i] = bigPod(i)
	}
	b.ReportAllocs()
	b.ResetTimer()
	for _, p := range in {
		if err := s.Create(b.Context(), podKey(p), p, &example.Pod{}, 0); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkGuaranteedUpdate(b *testing.B) {
	s := filled(b, 1000)
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		p := pod(fmt.Sprintf("ns%d", i%10), fmt.Sprintf("pod-%06d", i%1000))
		err := s.GuaranteedUpdate(b.Context(), podKey(p), &example.Pod{}, false, nil, storage.SimpleUpdate(func(obj runtime.Object) (runtime.Object, error) {
			obj.(*example.Pod).Generation = int64(i + 1)
			return obj, nil
		}), nil)
		if err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkWrite measures the part of a write that the world's lock serializes, with ten watches of all objects: no number of
// processors makes more writes per second than this.
func BenchmarkWrite(b *testing.B) {
	s := filled(b, 1000)
	drainedWatches(b, s, 10)
	w := s.world(b.Context())
	keys, versions := make([]string, 1000), make([]*version, 1000)
	for i := range keys {
		var err error
		if keys[i], err = s.key(podKey(pod(fmt.Sprintf("ns%d", i%10), fmt.Sprintf("pod-%06d", i))), false); err != nil {
			b.Fatal(err)
		}
		versions[i], _ = w.live(keys[i])
	}
	b.ResetTimer()
	for i := range b.N {
		v := &version{value: versions[i%1000].value}
		v.decoded.Store(versions[i%1000].decoded.Load())
		if _, _, ok := w.write(keys[i%1000], anyRevision, v, 0); !ok {
			b.Fatal("not written")
		}
	}
}

// drainedWatches starts watches of all objects, whose events are read and dropped.
func drainedWatches(b *testing.B, s *objects, n int) {
	b.Helper()
	for range n {
		w, err := s.Watch(b.Context(), "/pods/", storage.ListOptions{Predicate: storage.Everything, Recursive: true})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(w.Stop)
		go func() {
			for range w.ResultChan() {
			}
		}()
	}
}

// BenchmarkWaitingUpdates measures updates that wait for 2 ms between their read and their write, as one does for an admission webhook:
// one update at a time for each processor (-cpu 1,2,4,8), each of its own object, with ten watches of all objects. While they wait they use no
// CPU, so the rate grows with -cpu also on a machine with fewer cores, unless a lock is held meanwhile.
func BenchmarkWaitingUpdates(b *testing.B) {
	s := filled(b, 1000)
	drainedWatches(b, s, 10)
	var next atomic.Int64
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		own := next.Add(1) % 1000
		key := podKey(pod(fmt.Sprintf("ns%d", own%10), fmt.Sprintf("pod-%06d", own)))
		for pb.Next() {
			err := s.GuaranteedUpdate(b.Context(), key, &example.Pod{}, false, nil, storage.SimpleUpdate(func(obj runtime.Object) (runtime.Object, error) {
				<-time.After(2 * time.Millisecond)
				obj.(*example.Pod).Generation++
				return obj, nil
			}), nil)
			if err != nil {
				b.Error(err)
				return
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "updates/s")
}

func BenchmarkGet(b *testing.B) {
	s := filled(b, 10_000)
	keys := make([]string, 10_000)
	for i := range keys {
		keys[i] = podKey(pod(fmt.Sprintf("ns%d", i%10), fmt.Sprintf("pod-%06d", i)))
	}
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		if err := s.Get(b.Context(), keys[i%len(keys)], storage.GetOptions{}, &example.Pod{}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkList10k(b *testing.B) {
	s := filled(b, 10_000)
	most := storage.SelectionPredicate{Label: labels.Everything(), Field: fields.OneTermNotEqualSelector("spec.nodeName", "absent"), GetAttrs: podAttrs}
	for _, c := range []struct {
		name  string
		pred  storage.SelectionPredicate
		limit int64
	}{
		{"whole", storage.Everything, 0},
		{"page of 500", storage.Everything, 500},
		{"whole with a selector", most, 0},
		{"page of 500 with a selector", most, 500},
	} {
		b.Run(c.name, func(b *testing.B) {
			c.pred.Limit = c.limit
			b.ReportAllocs()
			for range b.N {
				out := &example.PodList{}
				if err := s.GetList(b.Context(), "/pods/", storage.ListOptions{Predicate: c.pred, Recursive: true}, out); err != nil {
					b.Fatal(err)
				}
				if want := int(c.limit); want > 0 && len(out.Items) != want {
					b.Fatalf("%d items, want %d", len(out.Items), want)
				}
			}
		})
	}
}

// BenchmarkPages reads 100,000 objects in pages of 500, as kubectl does.
func BenchmarkPages(b *testing.B) {
	s := filled(b, 100_000)
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		pred, read := storage.Everything, 0
		pred.Limit = 500
		for first := true; first || pred.Continue != ""; first = false {
			out := &example.PodList{}
			if err := s.GetList(b.Context(), "/pods/", storage.ListOptions{Predicate: pred, Recursive: true}, out); err != nil {
				b.Fatal(err)
			}
			read, pred.Continue = read+len(out.Items), out.Continue
		}
		if read != 100_000 {
			b.Fatalf("read %d objects", read)
		}
	}
}

// BenchmarkExpire deletes 300,000 expired Events, as an hour after a busy cluster wrote them in a
// few seconds, and reports the longest wait of a concurrent writer.
func BenchmarkExpire(b *testing.B) {
	for range b.N {
		b.StopTimer()
		clock := testingclock.NewFakePassiveClock(time.Unix(1000, 0))
		ws := New(Options{Clock: clock})
		s, w := pods(b, ws, nil), ws.World("")
		for i := range 300_000 {
			p := pod("ns", strconv.Itoa(i))
			if err := s.Create(b.Context(), podKey(p), p, nil, 3600); err != nil {
				b.Fatal(err)
			}
		}
		var longest time.Duration
		var writes int
		ended, written := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(written)
			for {
				select {
				case <-ended:
					return
				default:
				}
				began := time.Now()
				w.RawPut("/other/key", nil, anyRevision)
				longest = max(longest, time.Since(began))
				writes++
			}
		}()
		b.StartTimer()
		w.Expire(clock.Now().Add(time.Hour))
		b.StopTimer()
		close(ended)
		<-written
		b.ReportMetric(float64(longest.Microseconds())/1000, "ms-longest-wait")
		b.ReportMetric(float64(writes), "writes")
	}
}

// BenchmarkWatchFanOut updates one pod that many watches select; an operation is one update and its
// events.
func BenchmarkWatchFanOut(b *testing.B) {
	for _, watches := range []int{1, 10, 100, 1000} {
		b.Run(fmt.Sprint(watches), func(b *testing.B) {
			s := filled(b, 1)
			done := make(chan struct{}, watches)
			for range watches {
				w, err := s.Watch(b.Context(), "/pods/", everything(2))
				if err != nil {
					b.Fatal(err)
				}
				b.Cleanup(func() { stop(w) })
				go func() {
					for range b.N {
						<-w.ResultChan()
					}
					done <- struct{}{}
				}()
			}
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N {
				mustUpdate(b, b.Context(), s, "/pods/ns0/pod-000000", func(p *example.Pod) { p.Generation = int64(i + 1) })
			}
			for range watches {
				<-done
			}
			b.ReportMetric(float64(b.N)*float64(watches)/b.Elapsed().Seconds(), "events/s")
		})
	}
}
