package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// watchLoad is many watches of the same pods, and one of many objects.
type watchLoad struct {
	load
	watchers, objects int
	rate              float64
	lasts             time.Duration
}

func watchesCommand(binary *string, out *figures) *cobra.Command {
	l := watchLoad{load: load{out: out}}
	c := &cobra.Command{
		Use:   "watches [-- UP-FLAGS]",
		Short: "Count the events and the ends of watches: nodes created at once, many watches of pods, a watch-list of many objects",
		Long: `Four measurements on one server. Nodes are created while one watch reads them; pods are created until they are Running; then
--watchers watches read patches of these pods; last, one watch-list reads --objects ConfigMaps. A watch that ends is counted
with its reason and is not resumed. "Ended by the watch cache" is the server's metric apiserver_terminated_watchers_total:
the server resumes these watches itself, so their readers do not observe it.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			l.args = args
			return l.run(cmd.Context(), binary)
		},
	}
	l.addFlags(c, 1000, 10000, 32)
	c.Flags().IntVar(&l.watchers, "watchers", 1000, "watches of all pods")
	c.Flags().IntVar(&l.objects, "objects", 100000, "objects of the watch-list")
	c.Flags().Float64Var(&l.rate, "rate", 20, "patches of pods a second; each is an event for each watch")
	c.Flags().DurationVar(&l.lasts, "for", 30*time.Second, "how long pods are patched")
	return c
}

func (l watchLoad) run(ctx context.Context, binary *string) error {
	nodes := l.nodes
	empty := l.load
	empty.nodes = 0 // they are created below
	s, client, err := empty.connect(ctx, binary)
	if err != nil {
		return err
	}
	defer s.stop()
	config, err := s.config()
	if err != nil {
		return err
	}
	b, err := newBare(config, false)
	if err != nil {
		return err
	}
	for _, step := range []func() error{
		func() error { return l.createdNodes(ctx, b, client, nodes) },
		func() error {
			return l.cut(ctx, client, fmt.Sprintf("%d pods created until Running", l.pods), func() error { return l.fill(ctx, client) })
		},
		func() error { return l.churned(ctx, b, client) },
		func() error { return l.watchList(ctx, b, client) },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// cut adds how many watches the watch cache has ended during a step.
func (l watchLoad) cut(ctx context.Context, client kubernetes.Interface, name string, step func() error) error {
	before, err := terminated(ctx, client)
	if err != nil {
		return err
	}
	start := time.Now()
	if err := step(); err != nil {
		return err
	}
	took := time.Since(start)
	after, err := terminated(ctx, client)
	if err != nil {
		return err
	}
	var parts []string
	for _, resource := range slices.Sorted(maps.Keys(after)) {
		if n := after[resource] - before[resource]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d of %s", n, resource))
		}
	}
	if parts == nil {
		parts = []string{"none"}
	}
	l.out.add(name, "%.1f s; ended by the watch cache and resumed by the server: %s", took.Seconds(), strings.Join(parts, ", "))
	return nil
}

// createdNodes creates the nodes while one watch reads them, until all are Ready.
func (l watchLoad) createdNodes(ctx context.Context, b *bare, client kubernetes.Interface, nodes int) error {
	w := b.open(ctx, "/api/v1/nodes", 1)
	defer w.stop()
	err := l.cut(ctx, client, fmt.Sprintf("%d nodes created until Ready", nodes), func() error {
		err := l.each(ctx, nodes, func(ctx context.Context, i int) error {
			_, err := client.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: simulatedNode(i)}, metav1.CreateOptions{})
			return err
		})
		if err != nil {
			return err
		}
		return nodesReady(ctx, client, nodes)
	})
	l.out.add("one watch of these nodes", "%s", w)
	return err
}

// churned patches pods while many watches read them, and waits until every watch has received every patch or has ended.
func (l watchLoad) churned(ctx context.Context, b *bare, client kubernetes.Interface) error {
	w := b.open(ctx, "/api/v1/namespaces/default/pods", l.watchers)
	defer w.stop()
	if err := reach(ctx, &w.opened, int64(l.watchers)); err != nil {
		return err
	}
	var patches atomic.Int64
	err := l.cut(ctx, client, fmt.Sprintf("%d watches of %d pods, %g patches a second", l.watchers, l.pods, l.rate), func() error {
		until, cancel := context.WithTimeout(ctx, l.lasts)
		defer cancel()
		pace := pace(l.rate)
		group := errgroup.Group{}
		var next atomic.Int64
		for range l.workers {
			group.Go(func() error {
				for pace.Wait(until) == nil {
					i := int(next.Add(1))
					label := fmt.Appendf(nil, `{"metadata":{"labels":{"patch":"%d"}}}`, i)
					if _, err := client.CoreV1().Pods("default").Patch(ctx, l.pod(i%l.pods).Name, types.StrategicMergePatchType, label, metav1.PatchOptions{}); err != nil {
						return err
					}
					patches.Add(1)
				}
				return nil
			})
		}
		if err := group.Wait(); err != nil {
			return err
		}
		return w.drain(ctx, patches.Load())
	})
	l.out.add("these watches", "%s; %d patches, so %d events were due", w, patches.Load(), patches.Load()*int64(l.watchers))
	return err
}

// watchList creates objects, and reads them with one watch.
func (l watchLoad) watchList(ctx context.Context, b *bare, client kubernetes.Interface) error {
	if l.objects == 0 {
		return nil
	}
	err := l.each(ctx, l.objects, func(ctx context.Context, i int) error {
		_, err := client.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("object-%06d", i)}}, metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	start := time.Now()
	var n int
	err = l.cut(ctx, client, fmt.Sprintf("watch-list of %d ConfigMaps", l.objects), func() error {
		n, err = b.initialEvents(ctx, "/api/v1/namespaces/default/configmaps?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true")
		return err
	})
	if err == nil {
		l.out.add("this watch-list", "%d events before its bookmark, %.0f per second", n, float64(n)/time.Since(start).Seconds())
	}
	return err
}

// watches are open watches of one resource and what they have received.
type watches struct {
	stop                   context.CancelFunc
	opened, events, active atomic.Int64
	received               []atomic.Int64 // the events of each watch
	mu                     sync.Mutex
	reasons                map[string]int // why watches ended, and how often
}

// open starts watches after the current revision.
func (b *bare) open(ctx context.Context, path string, n int) *watches {
	ctx, stop := context.WithCancel(ctx)
	w := &watches{stop: stop, reasons: map[string]int{}, received: make([]atomic.Int64, n)}
	w.active.Store(int64(n))
	for i := range n {
		go func() {
			reason := w.read(ctx, b, path, &w.received[i])
			if ctx.Err() == nil {
				w.mu.Lock()
				w.reasons[reason]++
				w.mu.Unlock()
			}
			w.active.Add(-1)
		}()
	}
	return w
}

// read reads one watch to its end and returns the reason.
func (w *watches) read(ctx context.Context, b *bare, path string, received *atomic.Int64) string {
	now := metav1.ListMeta{}
	list, err := b.send(ctx, http.MethodGet, path+"?limit=1", "", nil)
	if err != nil {
		return err.Error()
	}
	text, err := io.ReadAll(list)
	_ = list.Close()
	if err == nil {
		now, err = listMeta(text)
	}
	if err != nil {
		return err.Error()
	}
	stream, err := b.send(ctx, http.MethodGet, path+"?watch=true&resourceVersion="+now.ResourceVersion, "", nil)
	if err != nil {
		return err.Error()
	}
	defer stream.Close()
	w.opened.Add(1)
	frames := protobuf.LengthDelimitedFramer.NewFrameReader(stream)
	for buffer := make([]byte, 64<<10); ; {
		n, err := frames.Read(buffer)
		if err != nil {
			return "the stream ended: " + err.Error()
		}
		var e metav1.WatchEvent
		if err := e.Unmarshal(buffer[:n]); err != nil {
			return err.Error()
		}
		if e.Type == "ERROR" {
			return "ERROR event: " + statusMessage(e.Object.Raw)
		}
		w.events.Add(1)
		received.Add(1)
	}
}

// listMeta returns the metadata of any list in protobuf: the first field of every list.
func listMeta(body []byte) (metav1.ListMeta, error) {
	var list corev1.PodList
	err := decode(body, &listOfAny{&list})
	return list.ListMeta, err
}

// listOfAny decodes the metadata of a list, and no items.
type listOfAny struct{ list *corev1.PodList }

// Unmarshal reads the first field, which is the metadata.
func (l *listOfAny) Unmarshal(data []byte) error {
	if len(data) < 2 || data[0] != 0x0a {
		return fmt.Errorf("a list does not begin with its metadata")
	}
	length, size := 0, 1
	for shift := 0; size < len(data); shift += 7 {
		c := data[size]
		size++
		length |= int(c&0x7f) << shift
		if c < 0x80 {
			break
		}
	}
	if length < 0 || length > len(data)-size {
		return fmt.Errorf("the metadata of a list is truncated")
	}
	return l.list.ListMeta.Unmarshal(data[size : size+length])
}

// statusMessage returns the text of a Status in protobuf.
func statusMessage(raw []byte) string {
	var status metav1.Status
	if err := decode(raw, &status); err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%d %s", status.Code, status.Message)
}

// drain waits until every watch that has not ended has received n events.
func (w *watches) drain(ctx context.Context, n int64) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		complete := int64(0)
		for i := range w.received {
			if w.received[i].Load() >= n {
				complete++
			}
		}
		w.mu.Lock()
		for _, ended := range w.reasons {
			complete += int64(ended) // an upper bound: a watch may have ended after its last event
		}
		w.mu.Unlock()
		if complete >= int64(len(w.received)) {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// String implements fmt.Stringer.
func (w *watches) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	text := fmt.Sprintf("%d events received", w.events.Load())
	if len(w.reasons) == 0 {
		return text + "; no watch ended"
	}
	for _, reason := range slices.Sorted(maps.Keys(w.reasons)) {
		text += fmt.Sprintf("; %d ended: %s", w.reasons[reason], reason)
	}
	return text
}

// initialEvents reads a watch-list up to the bookmark that ends its initial events, and counts these.
func (b *bare) initialEvents(ctx context.Context, path string) (n int, err error) {
	stream, err := b.send(ctx, http.MethodGet, path, "", nil)
	if err != nil {
		return 0, err
	}
	defer stream.Close()
	frames := protobuf.LengthDelimitedFramer.NewFrameReader(stream)
	for buffer := make([]byte, 64<<10); ; n++ {
		size, err := frames.Read(buffer)
		if err != nil {
			return n, fmt.Errorf("the watch-list ended after %d events: %w", n, err)
		}
		var e metav1.WatchEvent
		if err := e.Unmarshal(buffer[:size]); err != nil {
			return n, err
		}
		switch {
		case e.Type == "ERROR":
			return n, fmt.Errorf("the watch-list ended after %d events: %s", n, statusMessage(e.Object.Raw))
		case e.Type == "BOOKMARK" && bytes.Contains(e.Object.Raw, []byte(metav1.InitialEventsAnnotationKey)):
			return n, nil
		}
	}
}

// terminated reads how many watches of each resource the watch cache has ended.
func terminated(ctx context.Context, client kubernetes.Interface) (map[string]int64, error) {
	text, err := client.Discovery().RESTClient().Get().AbsPath("/metrics").SetHeader("Accept", runtime.ContentTypeJSON+",text/plain").DoRaw(ctx)
	if err != nil {
		return nil, err
	}
	return parseTerminated(text), nil
}

func parseTerminated(text []byte) map[string]int64 {
	all := map[string]int64{}
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		rest, ok := strings.CutPrefix(lines.Text(), "apiserver_terminated_watchers_total{")
		if !ok {
			continue
		}
		labels, value, _ := strings.Cut(rest, "} ")
		_, resource, _ := strings.Cut(labels, `resource="`)
		resource, _, _ = strings.Cut(resource, `"`)
		if n, err := strconv.ParseFloat(value, 64); err == nil {
			all[resource] += int64(n)
		}
	}
	return all
}

// simulatedNode returns the metadata of a node that the stage engine manages.
func simulatedNode(i int) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: fmt.Sprintf("node-%d", i), Annotations: map[string]string{"kwok.x-k8s.io/node": "fake"}}
}
