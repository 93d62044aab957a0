package podcache

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/features"
	featurestesting "k8s.io/client-go/features/testing"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
)

func testPod(name string, revision int, phase corev1.PodPhase) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: name, UID: types.UID("uid-" + name), ResourceVersion: fmt.Sprint(revision),
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m"}},
		},
		Status: corev1.PodStatus{Phase: phase},
	}
}

// listed returns the store of a cache whose reflector has listed pods at a revision.
func listed(t *testing.T, revision int, pods ...any) store {
	s := store{Unconnected()}
	if err := s.Replace(pods, fmt.Sprint(revision)); err != nil {
		t.Fatal(err)
	}
	return s
}

func running(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning }

func everyPod(*corev1.Pod) bool { return true }

var fromStart = metav1.ListOptions{SendInitialEvents: ptr.To(true)}

// read receives n events of a watch and formats them.
func read(t *testing.T, w watch.Interface, n int) []string {
	t.Helper()
	var out []string
	for range n {
		e, ok := <-w.ResultChan()
		if !ok {
			t.Fatalf("the watch ended after events %v", out)
		}
		p := e.Object.(*corev1.Pod)
		if p.ManagedFields != nil {
			t.Errorf("%s has managed fields", p.Name)
		}
		out = append(out, fmt.Sprintf("%s %s %s %s", e.Type, p.Name, p.ResourceVersion, p.Status.Phase))
	}
	return out
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestReaders checks that one reader observes all pods and another those that match its selector, each in the
// order of the changes, and that a third starts after a given revision.
func TestReaders(t *testing.T) {
	s := listed(t, 5, testPod("a", 3, corev1.PodRunning))
	all, err := s.watch(t.Context(), everyPod, fromStart)
	must(t, err)
	some, err := s.watch(t.Context(), running, fromStart)
	must(t, err)
	must(t, s.Add(testPod("b", 6, corev1.PodPending)))
	must(t, s.Update(testPod("b", 7, corev1.PodRunning)))
	must(t, s.Update(testPod("a", 8, corev1.PodSucceeded)))
	must(t, s.Bookmark("9"))
	must(t, s.Delete(testPod("a", 10, corev1.PodSucceeded)))
	must(t, s.Delete(testPod("b", 11, corev1.PodFailed)))
	later, err := s.watch(t.Context(), everyPod, metav1.ListOptions{ResourceVersion: "7"})
	must(t, err)
	for name, c := range map[string]struct {
		w    watch.Interface
		want []string
	}{
		"all": {all, []string{
			"ADDED a 3 Running", "BOOKMARK  5 ", "ADDED b 6 Pending", "MODIFIED b 7 Running", "MODIFIED a 8 Succeeded", "BOOKMARK  9 ", "DELETED a 10 Succeeded", "DELETED b 11 Failed",
		}},
		// The API, too, sends the last state that the selector matched, with the revision of the change.
		"some":  {some, []string{"ADDED a 3 Running", "BOOKMARK  5 ", "ADDED b 7 Running", "DELETED a 8 Running", "BOOKMARK  9 ", "DELETED b 11 Failed"}},
		"later": {later, []string{"MODIFIED a 8 Succeeded", "DELETED a 10 Succeeded", "DELETED b 11 Failed"}},
	} {
		if diff := cmp.Diff(c.want, read(t, c.w, len(c.want))); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", name, diff)
		}
	}
	list, err := s.list(t.Context(), everyPod)
	if err != nil || len(list.Items) != 0 || list.ResourceVersion != "11" {
		t.Errorf("%d pods at %s, %v", len(list.Items), list.ResourceVersion, err)
	}
}

// TestExpires checks that, if the cache lists again and finds a difference, a reader that would observe it
// gets an error that its revision has expired, as from the API, and replaces its store with all pods at once.
// It cannot resume from before that list. A reader that would observe no difference continues.
func TestExpires(t *testing.T) {
	s := listed(t, 5, testPod("a", 3, corev1.PodRunning), testPod("same", 4, corev1.PodRunning))
	all, err := s.watch(t.Context(), everyPod, metav1.ListOptions{ResourceVersion: "5"})
	must(t, err)
	failed, err := s.watch(t.Context(), func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodFailed }, metav1.ListOptions{ResourceVersion: "5"})
	must(t, err)
	must(t, s.Add(testPod("b", 6, corev1.PodPending)))
	must(t, s.Add(testPod("d", 7, corev1.PodPending)))
	recreated := testPod("d", 19, corev1.PodPending)
	recreated.UID = "another"
	must(t, s.Replace([]any{testPod("c", 20, corev1.PodPending), recreated, testPod("same", 4, corev1.PodRunning), testPod("b", 18, corev1.PodRunning)}, "21"))
	expires(t, all)
	if diff := cmp.Diff([]string{"BOOKMARK  21 "}, read(t, failed, 1)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	for _, revision := range []string{"7", "19", "22"} {
		if _, err := s.watch(t.Context(), everyPod, metav1.ListOptions{ResourceVersion: revision}); !apierrors.IsResourceExpired(err) {
			t.Errorf("resuming from revision %s: %v", revision, err)
		}
	}
	// An event before revision 21 was lost: a reader at 21 has not observed it either.
	must(t, s.Replace([]any{testPod("c", 20, corev1.PodPending), recreated, testPod("b", 18, corev1.PodRunning)}, "21"))
	if _, err := s.watch(t.Context(), everyPod, metav1.ListOptions{ResourceVersion: "21"}); !apierrors.IsResourceExpired(err) {
		t.Errorf("resuming from a revision with two contents: %v", err)
	}
	must(t, s.Replace([]any{testPod("c", 2, corev1.PodPending)}, "3"))
	expires(t, failed) // the revisions are of another store
	again, err := s.watch(t.Context(), everyPod, fromStart)
	must(t, err)
	if diff := cmp.Diff([]string{"ADDED c 2 Pending", "BOOKMARK  3 "}, read(t, again, 2)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// expires reads a watch to its end, which must be a 410.
func expires(t *testing.T, w watch.Interface) {
	t.Helper()
	var last watch.Event
	for last = range w.ResultChan() {
	}
	if last.Type != watch.Error || !apierrors.IsResourceExpired(apierrors.FromObject(last.Object)) {
		t.Errorf("the watch ends with %s %v", last.Type, last.Object)
	}
}

// TestRevisions checks that a reader that has reached a revision has observed every write up to it, whenever
// it starts and however often the cache misses writes and lists again. Freshness (workload.Freshness) relies
// on that.
func TestRevisions(t *testing.T) { synctest.Test(t, testRevisions) }

func testRevisions(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	expired := 0
	for range 300 {
		s, revision, there := listed(t, 1), 1, map[string]int{}
		contents := []map[string]int{{}, {}} // by revision: the revision of each pod
		write := func() (p *corev1.Pod, verb func(any) error) {
			name := string(rune('a' + r.IntN(4)))
			revision++
			p, verb = testPod(name, revision, corev1.PodRunning), s.Update
			switch _, exists := there[name]; {
			case !exists:
				verb = s.Add
				there[name] = revision
			case r.IntN(3) == 0:
				verb = s.Delete
				delete(there, name)
			default:
				there[name] = revision
			}
			contents = append(contents, maps.Clone(there))
			return p, verb
		}
		reader := simulatedReader{t: t, s: s, contents: func() []map[string]int { return contents }}
		reader.begin()
		for range 30 {
			p, verb := write()
			if r.IntN(5) > 0 {
				must(t, verb(p))
				reader.read(r.IntN(3))
				continue
			}
			for range r.IntN(4) { // the cache's watch has ended: no event of these arrives
				write()
			}
			var all []any
			for name, at := range there {
				all = append(all, testPod(name, at, corev1.PodRunning))
			}
			must(t, s.Replace(all, fmt.Sprint(revision)))
			reader.read(r.IntN(3))
		}
		must(t, s.Bookmark(fmt.Sprint(revision+1)))
		contents = append(contents, there)
		for reader.revision <= revision {
			reader.read(1)
		}
		expired += reader.expired
	}
	if expired < 100 {
		t.Errorf("%d watches expired, want at least 100 for a meaningful test", expired)
	}
}

// simulatedReader reads the cache as client-go does: it collects the pods of a watch-list, replaces its store with them at
// the closing bookmark, and then applies each event. After each step it compares the store with what the API
// had at that revision.
type simulatedReader struct {
	t        *testing.T
	s        store
	contents func() []map[string]int

	w             watch.Interface
	initial       bool
	listed, store map[string]int
	revision      int
	expired       int
}

func (r *simulatedReader) begin() {
	w, err := r.s.watch(r.t.Context(), everyPod, fromStart)
	must(r.t, err)
	r.w, r.initial, r.listed = w, true, map[string]int{}
}

func (r *simulatedReader) read(n int) {
	for range n {
		synctest.Wait()
		select {
		case e := <-r.w.ResultChan():
			r.apply(e)
		default:
			return
		}
	}
}

func (r *simulatedReader) apply(e watch.Event) {
	p, ok := e.Object.(*corev1.Pod)
	if !ok {
		r.expired++
		r.begin()
		return
	}
	at, _ := strconv.Atoi(p.ResourceVersion)
	switch {
	case r.initial && e.Type == watch.Bookmark:
		r.store, r.initial, r.revision = r.listed, false, at
	case r.initial:
		r.listed[p.Name] = at
		return
	case e.Type == watch.Deleted:
		delete(r.store, p.Name)
	case e.Type != watch.Bookmark:
		r.store[p.Name] = at
	}
	r.revision = at
	if all := r.contents(); at < len(all) {
		if diff := cmp.Diff(all[at], r.store); diff != "" {
			r.t.Fatalf("after %s %s the reader is at revision %d, and differs from the API at that revision: (-want +got)\n%s", e.Type, p.Name, at, diff)
		}
	}
}

// TestSlowReader checks that a reader that does not read blocks no other, and that its watch ends when too
// many events wait for it.
func TestSlowReader(t *testing.T) {
	s := listed(t, 5)
	slow, err := s.watch(t.Context(), everyPod, fromStart)
	must(t, err)
	for i := range maxUnread + 2 {
		must(t, s.Update(testPod("a", 6+i, corev1.PodRunning)))
	}
	n := 0
	for e := range slow.ResultChan() {
		if e.Type != watch.Bookmark {
			n++
		}
	}
	if n != maxUnread {
		t.Errorf("%d events before the end, want %d", n, maxUnread)
	}
	if _, err := s.watch(t.Context(), everyPod, metav1.ListOptions{ResourceVersion: fmt.Sprint(5 + n)}); err != nil {
		t.Errorf("resume after the last event: %v", err)
	}
}

// TestResume checks that a reader can start after each revision whose later changes the cache still has, and
// observes all of them.
func TestResume(t *testing.T) {
	s := listed(t, 5)
	last := 5 + 3*maxChanges
	for i := 6; i <= last; i++ {
		must(t, s.Update(testPod("a", i, corev1.PodRunning)))
	}
	since := int(s.since)
	if since <= 5 || last-since < maxChanges {
		t.Fatalf("of %d changes the cache has those after %d", last, since)
	}
	after := func(revision int) (watch.Interface, error) {
		return s.watch(t.Context(), everyPod, metav1.ListOptions{ResourceVersion: fmt.Sprint(revision)})
	}
	if _, err := after(since - 1); !apierrors.IsResourceExpired(err) {
		t.Errorf("resume after a revision that was dropped: %v", err)
	}
	for _, revision := range []int{since, since + 1, last - 1} {
		w, err := after(revision)
		must(t, err)
		if got := read(t, w, 1)[0]; !strings.Contains(got, fmt.Sprintf(" a %d ", revision+1)) {
			t.Errorf("after %d comes %s", revision, got)
		}
	}
	must(t, s.Bookmark(fmt.Sprint(last+7)))
	if _, err := after(last + 7); err != nil {
		t.Error(err)
	}
}

// TestSharedPods checks that pods of different readers share memory, that encoding a pod does not write to it,
// and that List returns the pods that keep selects.
func TestSharedPods(t *testing.T) {
	pod := func(name string, revision int, phase corev1.PodPhase) *corev1.Pod {
		p, limit := testPod(name, revision, phase), resource.NewQuantity(512<<20, resource.BinarySI)
		p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: limit}}}}
		return p
	}
	s := listed(t, 5, pod("a", 3, corev1.PodRunning), pod("b", 4, corev1.PodRunning))
	must(t, s.Add(pod("c", 6, corev1.PodRunning)))
	list, err := s.list(t.Context(), everyPod)
	must(t, err)
	var limits []*resource.Quantity
	for i := range list.Items {
		limit := list.Items[i].Spec.Volumes[0].EmptyDir.SizeLimit
		before := *limit
		if _, err := list.Items[i].Marshal(); err != nil || !reflect.DeepEqual(before, *limit) {
			t.Errorf("Marshal modified %s: %v", list.Items[i].Name, err)
		}
		limits = append(limits, limit)
	}
	if len(limits) != 3 || limits[0] != limits[1] || limits[1] != limits[2] {
		t.Errorf("%d limits, which do not share memory: %p", len(limits), limits)
	}
	must(t, s.Add(pod("d", 7, corev1.PodPending)))
	if list, err = s.list(t.Context(), running); err != nil || len(list.Items) != 3 {
		t.Errorf("%d running pods, %v", len(list.Items), err)
	}
}

// TestInformer checks that an informer over the cache observes every change, with and without initial events
// in its watch, and that the cache rejects requests with another namespace or selector.
func TestInformer(t *testing.T) {
	s := listed(t, 5, testPod("a", 3, corev1.PodRunning), testPod("b", 4, corev1.PodPending))
	client := s.Client(kubernetes.NewForConfigOrDie(&rest.Config{}), "status.phase=Running", running)
	all := client.CoreV1().Pods("")
	selected := func(o *metav1.ListOptions) { o.FieldSelector = "status.phase=Running" }
	seen := make(chan string, 100)
	for _, supported := range []bool{true, false} {
		informer := cache.NewSharedIndexInformer(cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
				selected(&o)
				return all.List(ctx, o)
			},
			WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
				selected(&o)
				return all.Watch(ctx, o)
			},
		}, watchLists(supported)), &corev1.Pod{}, 0, nil)
		_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    func(o any) { seen <- "add " + o.(*corev1.Pod).Name },
			UpdateFunc: func(_, o any) { seen <- "update " + o.(*corev1.Pod).Name },
			DeleteFunc: func(o any) { seen <- "delete " + o.(*corev1.Pod).Name },
		})
		must(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			informer.RunWithContext(ctx)
		}()
		got := []string{<-seen}
		at := int(s.revision)
		must(t, s.Update(testPod("b", at+1, corev1.PodRunning)))
		got = append(got, <-seen)
		must(t, s.Update(testPod("b", at+2, corev1.PodRunning)))
		got = append(got, <-seen)
		must(t, s.Update(testPod("b", at+3, corev1.PodPending)))
		got = append(got, <-seen)
		if diff := cmp.Diff([]string{"add a", "add b", "update b", "delete b"}, got); diff != "" {
			t.Errorf("initial events %t: (-want +got)\n%s", supported, diff)
		}
		cancel()
		<-done
	}
	for _, o := range []metav1.ListOptions{{}, {FieldSelector: "status.phase=Running", LabelSelector: "a=b"}} {
		if _, err := all.Watch(t.Context(), o); !apierrors.IsBadRequest(err) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	if _, err := client.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{FieldSelector: "status.phase=Running"}); !apierrors.IsBadRequest(err) {
		t.Error(err)
	}
}

// watchLists reports whether a client supports initial events in a watch.
type watchLists bool

func (w watchLists) IsWatchListSemanticsUnSupported() bool { return !bool(w) }

// TestRelist checks that after Relist the cache lists all pods again, and that its readers get the changes
// that it had missed.
func TestRelist(t *testing.T) {
	s := Unconnected()
	answers := make(chan []*corev1.Pod, 2)
	source := &cache.ListWatch{
		ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
			return nil, errors.New("want a watch with initial events, not a list")
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			if !ptr.Deref(o.SendInitialEvents, false) {
				t.Errorf("a watch after revision %s, without initial events", o.ResourceVersion)
			}
			w := watch.NewFakeWithChanSize(10, false)
			for _, p := range <-answers {
				w.Add(p)
			}
			w.Action(watch.Bookmark, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "9", Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"}}})
			return w, nil
		},
	}
	s.reflector = cache.NewReflectorWithOptions(source, &corev1.Pod{}, store{s}, cache.ReflectorOptions{})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.Run(ctx)
	}()
	answers <- []*corev1.Pod{testPod("a", 3, corev1.PodPending)}
	w, err := s.watch(ctx, everyPod, fromStart)
	must(t, err)
	read(t, w, 2)
	answers <- []*corev1.Pod{testPod("a", 8, corev1.PodRunning)}
	s.Relist()
	expires(t, w)
	w, err = s.watch(ctx, everyPod, fromStart)
	must(t, err)
	if diff := cmp.Diff([]string{"ADDED a 8 Running"}, read(t, w, 1)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	cancel()
	<-done
	(*Cache)(nil).Relist() // a controller without a pod cache calls it too
}

// TestEnds checks that a watch ends with its context, also while the cache has no list yet.
func TestEnds(t *testing.T) {
	s := listed(t, 5)
	ctx, cancel := context.WithCancel(t.Context())
	w, err := s.watch(ctx, everyPod, fromStart)
	must(t, err)
	cancel()
	for range w.ResultChan() {
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.readers) > 0 {
		t.Error("the cache keeps a reader whose watch has ended")
	}
	if _, err := Unconnected().watch(ctx, everyPod, fromStart); err == nil {
		t.Error("watch of a cache without a list: no error after the context ended")
	}
}

// TestEventsAddUp checks, for random changes and readers, that the events of a reader add up to the pods that
// exist, and that every event is consistent with those before it.
func TestEventsAddUp(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	phases := []corev1.PodPhase{corev1.PodPending, corev1.PodRunning, corev1.PodSucceeded}
	for range 300 {
		s, revision, there := listed(t, 1), 1, map[string]corev1.PodPhase{}
		type reader struct {
			w    watch.Interface
			keep func(*corev1.Pod) bool
		}
		var readers []reader
		for range 40 {
			if r.IntN(8) == 0 {
				keep := []func(*corev1.Pod) bool{everyPod, running}[r.IntN(2)]
				w, err := s.watch(t.Context(), keep, fromStart)
				must(t, err)
				readers = append(readers, reader{w, keep})
			}
			name, phase := string(rune('a'+r.IntN(4))), phases[r.IntN(3)]
			revision += 1 + r.IntN(3)
			p := testPod(name, revision, phase)
			switch _, exists := there[name]; {
			case exists && r.IntN(3) == 0:
				must(t, s.Delete(p))
				delete(there, name)
			case exists:
				must(t, s.Update(p))
				there[name] = phase
			default:
				must(t, s.Add(p))
				there[name] = phase
			}
		}
		must(t, s.Add(testPod("last", revision+1, corev1.PodRunning)))
		there["last"] = corev1.PodRunning
		for _, reader := range readers {
			want := map[string]corev1.PodPhase{}
			for name, phase := range there {
				if reader.keep(testPod(name, 0, phase)) {
					want[name] = phase
				}
			}
			if diff := cmp.Diff(want, fold(t, reader.w)); diff != "" {
				t.Fatalf("(-want +got)\n%s", diff)
			}
		}
	}
}

// fold applies events up to that of the pod "last".
func fold(t *testing.T, w watch.Interface) map[string]corev1.PodPhase {
	sum := map[string]corev1.PodPhase{}
	for e := range w.ResultChan() {
		p := e.Object.(*corev1.Pod)
		_, known := sum[p.Name]
		switch {
		case e.Type == watch.Bookmark:
			continue
		case known == (e.Type == watch.Added):
			t.Fatalf("event %s of pod %s, present: %t", e.Type, p.Name, known)
		case e.Type == watch.Deleted:
			delete(sum, p.Name)
		default:
			sum[p.Name] = p.Status.Phase
		}
		if p.Name == "last" {
			return sum
		}
	}
	t.Fatal("the watch ended")
	return nil
}

// TestNewRequiresRevisions checks that New returns an error without client-go's AtomicFIFO: readers could not
// compare revisions.
func TestNewRequiresRevisions(t *testing.T) {
	if _, err := New(&rest.Config{}); err != nil {
		t.Error(err)
	}
	featurestesting.SetFeatureDuringTest(t, features.UnlockWhileProcessingFIFO, false)
	featurestesting.SetFeatureDuringTest(t, features.AtomicFIFO, false)
	if _, err := New(&rest.Config{}); err == nil || !strings.Contains(err.Error(), "create pod cache: ") {
		t.Errorf("error %v", err)
	}
	if _, err := Unconnected().Source(); err == nil || !strings.Contains(err.Error(), "create pod cache: ") {
		t.Errorf("error %v", err)
	}
}
