package stages

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
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

func fedPod(name string, revision int, phase corev1.PodPhase) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: name, UID: types.UID("uid-" + name), ResourceVersion: fmt.Sprint(revision),
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m"}},
		},
		Status: corev1.PodStatus{Phase: phase},
	}
}

// fedWith is a feed whose reflector has listed some pods.
func fedWith(t *testing.T, revision int, pods ...any) feedStore {
	f := feedStore{newPodFeed()}
	if err := f.Replace(pods, fmt.Sprint(revision)); err != nil {
		t.Fatal(err)
	}
	return f
}

func running(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning }

func everyPod(*corev1.Pod) bool { return true }

var fromTheStart = metav1.ListOptions{SendInitialEvents: ptr.To(true)}

// read takes n events of a watch, in words.
func read(t *testing.T, w watch.Interface, n int) []string {
	t.Helper()
	var out []string
	for range n {
		e, ok := <-w.ResultChan()
		if !ok {
			t.Fatalf("the watch ended after %v", out)
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

// TestPodFeedReaders: one reader sees all pods and another those it keeps, each in the order
// of the changes, and a third goes on after a revision.
func TestPodFeedReaders(t *testing.T) {
	f := fedWith(t, 5, fedPod("a", 3, corev1.PodRunning))
	all, err := f.watch(t.Context(), everyPod, fromTheStart)
	must(t, err)
	some, err := f.watch(t.Context(), running, fromTheStart)
	must(t, err)
	must(t, f.Add(fedPod("b", 6, corev1.PodPending)))
	must(t, f.Update(fedPod("b", 7, corev1.PodRunning)))
	must(t, f.Update(fedPod("a", 8, corev1.PodSucceeded)))
	must(t, f.Bookmark("9"))
	must(t, f.Delete(fedPod("a", 10, corev1.PodSucceeded)))
	must(t, f.Delete(fedPod("b", 11, corev1.PodFailed)))
	later, err := f.watch(t.Context(), everyPod, metav1.ListOptions{ResourceVersion: "7"})
	must(t, err)
	for name, c := range map[string]struct {
		w    watch.Interface
		want []string
	}{
		"all": {all, []string{
			"ADDED a 3 Running", "BOOKMARK  5 ", "ADDED b 6 Pending", "MODIFIED b 7 Running", "MODIFIED a 8 Succeeded", "BOOKMARK  9 ", "DELETED a 10 Succeeded", "DELETED b 11 Failed",
		}},
		// The API, too, shows what a selector matched before it is gone, with the revision of the end.
		"some":  {some, []string{"ADDED a 3 Running", "BOOKMARK  5 ", "ADDED b 7 Running", "DELETED a 8 Running", "BOOKMARK  9 ", "DELETED b 11 Failed"}},
		"later": {later, []string{"MODIFIED a 8 Succeeded", "DELETED a 10 Succeeded", "DELETED b 11 Failed"}},
	} {
		if diff := cmp.Diff(c.want, read(t, c.w, len(c.want))); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", name, diff)
		}
	}
	list, err := f.list(t.Context(), everyPod)
	if err != nil || len(list.Items) != 0 || list.ResourceVersion != "11" {
		t.Errorf("%d pods at %s, %v", len(list.Items), list.ResourceVersion, err)
	}
}

// TestPodFeedExpires: when the feed lists again and finds a difference, a reader that would see it gets an
// error that its revision has expired, as from the API, and replaces its store with all pods at once. It cannot
// resume from before that list. A reader that would see no difference goes on.
func TestPodFeedExpires(t *testing.T) {
	f := fedWith(t, 5, fedPod("a", 3, corev1.PodRunning), fedPod("same", 4, corev1.PodRunning))
	all, err := f.watch(t.Context(), everyPod, metav1.ListOptions{ResourceVersion: "5"})
	must(t, err)
	failed, err := f.watch(t.Context(), func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodFailed }, metav1.ListOptions{ResourceVersion: "5"})
	must(t, err)
	must(t, f.Add(fedPod("b", 6, corev1.PodPending)))
	must(t, f.Add(fedPod("d", 7, corev1.PodPending)))
	recreated := fedPod("d", 19, corev1.PodPending)
	recreated.UID = "another"
	must(t, f.Replace([]any{fedPod("c", 20, corev1.PodPending), recreated, fedPod("same", 4, corev1.PodRunning), fedPod("b", 18, corev1.PodRunning)}, "21"))
	expires(t, all)
	if diff := cmp.Diff([]string{"BOOKMARK  21 "}, read(t, failed, 1)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	for _, revision := range []string{"7", "19", "22"} {
		if _, err := f.watch(t.Context(), everyPod, metav1.ListOptions{ResourceVersion: revision}); !apierrors.IsResourceExpired(err) {
			t.Errorf("resuming from revision %s: %v", revision, err)
		}
	}
	// An event of before 21 was lost: a reader at 21 has not seen it either.
	must(t, f.Replace([]any{fedPod("c", 20, corev1.PodPending), recreated, fedPod("b", 18, corev1.PodRunning)}, "21"))
	if _, err := f.watch(t.Context(), everyPod, metav1.ListOptions{ResourceVersion: "21"}); !apierrors.IsResourceExpired(err) {
		t.Errorf("resuming from a revision with two contents: %v", err)
	}
	must(t, f.Replace([]any{fedPod("c", 2, corev1.PodPending)}, "3"))
	expires(t, failed) // the revisions are of another store
	again, err := f.watch(t.Context(), everyPod, fromTheStart)
	must(t, err)
	if diff := cmp.Diff([]string{"ADDED c 2 Pending", "BOOKMARK  3 "}, read(t, again, 2)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// expires reads a watch to its end, which must be an error that the revision has expired.
func expires(t *testing.T, w watch.Interface) {
	t.Helper()
	var last watch.Event
	for last = range w.ResultChan() {
	}
	if last.Type != watch.Error || !apierrors.IsResourceExpired(apierrors.FromObject(last.Object)) {
		t.Errorf("the watch ends with %s %v", last.Type, last.Object)
	}
}

// TestPodFeedRevisions: a reader that has reached a revision has seen every write up to it, whenever it begins
// and however often the feed misses writes and lists again. Freshness (workload.Freshness) relies on that.
func TestPodFeedRevisions(t *testing.T) { synctest.Test(t, testPodFeedRevisions) }

func testPodFeedRevisions(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	expired := 0
	for range 300 {
		f, revision, there := fedWith(t, 1), 1, map[string]int{}
		contents := []map[string]int{{}, {}} // by revision: the revision of each pod
		write := func() (p *corev1.Pod, verb func(any) error) {
			name := string(rune('a' + r.IntN(4)))
			revision++
			p, verb = fedPod(name, revision, corev1.PodRunning), f.Update
			switch _, exists := there[name]; {
			case !exists:
				verb = f.Add
				there[name] = revision
			case r.IntN(3) == 0:
				verb = f.Delete
				delete(there, name)
			default:
				there[name] = revision
			}
			contents = append(contents, maps.Clone(there))
			return p, verb
		}
		reader := feedReader{t: t, f: f, contents: func() []map[string]int { return contents }}
		reader.begin()
		for range 30 {
			p, verb := write()
			if r.IntN(5) > 0 {
				must(t, verb(p))
				reader.read(r.IntN(3))
				continue
			}
			for range r.IntN(4) { // the watch of the feed has ended; nobody sees these
				write()
			}
			var all []any
			for name, at := range there {
				all = append(all, fedPod(name, at, corev1.PodRunning))
			}
			must(t, f.Replace(all, fmt.Sprint(revision)))
			reader.read(r.IntN(3))
		}
		must(t, f.Bookmark(fmt.Sprint(revision+1)))
		contents = append(contents, there)
		for reader.revision <= revision {
			reader.read(1)
		}
		expired += reader.expired
	}
	if expired < 100 {
		t.Errorf("readers were ended %d times: too few to show anything", expired)
	}
}

// feedReader reads a feed as client-go does: it collects the pods of a watch-list, replaces its store with them at
// the closing bookmark, and then applies each event. After each step it compares the store with what the API
// had at that revision.
type feedReader struct {
	t        *testing.T
	f        feedStore
	contents func() []map[string]int

	w             watch.Interface
	initial       bool
	listed, store map[string]int
	revision      int
	expired       int
}

func (r *feedReader) begin() {
	w, err := r.f.watch(r.t.Context(), everyPod, fromTheStart)
	must(r.t, err)
	r.w, r.initial, r.listed = w, true, map[string]int{}
}

func (r *feedReader) read(n int) {
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

func (r *feedReader) apply(e watch.Event) {
	p, ok := e.Object.(*corev1.Pod)
	if !ok {
		r.expired++
		r.begin()
		return
	}
	at := int(revisionOf(p))
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
			r.t.Fatalf("after %s %s the reader is at revision %d, and does not have what the API had then: (-want +got)\n%s", e.Type, p.Name, at, diff)
		}
	}
}

// TestPodFeedSlowReader: one who does not read holds nobody up, and is ended when too much
// waits for it.
func TestPodFeedSlowReader(t *testing.T) {
	f := fedWith(t, 5)
	slow, err := f.watch(t.Context(), everyPod, fromTheStart)
	must(t, err)
	for i := range mostUnread + 2 {
		must(t, f.Update(fedPod("a", 6+i, corev1.PodRunning)))
	}
	n := 0
	for e := range slow.ResultChan() {
		if e.Type != watch.Bookmark {
			n++
		}
	}
	if n != mostUnread {
		t.Errorf("%d events came before the end, not %d", n, mostUnread)
	}
	if _, err := f.watch(t.Context(), everyPod, metav1.ListOptions{ResourceVersion: fmt.Sprint(5 + n)}); err != nil {
		t.Errorf("it cannot go on where it ended: %v", err)
	}
}

// TestPodFeedRemembers: one may go on after a revision that is remembered, and sees all that
// came after it.
func TestPodFeedRemembers(t *testing.T) {
	f := fedWith(t, 5)
	last := 5 + 3*mostPast
	for i := 6; i <= last; i++ {
		must(t, f.Update(fedPod("a", i, corev1.PodRunning)))
	}
	since := int(f.since)
	if since <= 5 || last-since < mostPast {
		t.Fatalf("of %d changes those after %d are remembered", last, since)
	}
	after := func(revision int) (watch.Interface, error) {
		return f.watch(t.Context(), everyPod, metav1.ListOptions{ResourceVersion: fmt.Sprint(revision)})
	}
	if _, err := after(since - 1); !apierrors.IsResourceExpired(err) {
		t.Errorf("going on after what is forgotten: %v", err)
	}
	for _, revision := range []int{since, since + 1, last - 1} {
		w, err := after(revision)
		must(t, err)
		if got := read(t, w, 1)[0]; !strings.Contains(got, fmt.Sprintf(" a %d ", revision+1)) {
			t.Errorf("after %d comes %s", revision, got)
		}
	}
	must(t, f.Bookmark(fmt.Sprint(last+7)))
	if _, err := after(last + 7); err != nil {
		t.Error(err)
	}
}

// TestPodFeedForReaders: what readers share is one in memory, and asking it for bytes writes
// to nothing that others read. List shows what keep takes.
func TestPodFeedForReaders(t *testing.T) {
	pod := func(name string, revision int, phase corev1.PodPhase) *corev1.Pod {
		p, limit := fedPod(name, revision, phase), resource.NewQuantity(512<<20, resource.BinarySI)
		p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: limit}}}}
		return p
	}
	f := fedWith(t, 5, pod("a", 3, corev1.PodRunning), pod("b", 4, corev1.PodRunning))
	must(t, f.Add(pod("c", 6, corev1.PodPending)))
	list, err := f.list(t.Context(), everyPod)
	must(t, err)
	var limits []*resource.Quantity
	for i := range list.Items {
		limit := list.Items[i].Spec.Volumes[0].EmptyDir.SizeLimit
		before := *limit
		if _, err := list.Items[i].Marshal(); err != nil || !reflect.DeepEqual(before, *limit) {
			t.Errorf("Marshal has written to %s: %v", list.Items[i].Name, err)
		}
		limits = append(limits, limit)
	}
	if len(limits) != 3 || limits[0] != limits[1] || limits[1] != limits[2] {
		t.Errorf("%d limits, not one in memory: %p", len(limits), limits)
	}
	if list, err = f.list(t.Context(), running); err != nil || len(list.Items) != 2 {
		t.Errorf("%d pods run, %v", len(list.Items), err)
	}
}

// TestPodFeedInformer: an informer over the feed sees every change, with and without
// initial events in its watch, and a feed refuses to be asked for what it does not show.
func TestPodFeedInformer(t *testing.T) {
	f := fedWith(t, 5, fedPod("a", 3, corev1.PodRunning), fedPod("b", 4, corev1.PodPending))
	client := f.Client(kubernetes.NewForConfigOrDie(&rest.Config{}), "status.phase=Running", running)
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
		at := int(f.revision)
		must(t, f.Update(fedPod("b", at+1, corev1.PodRunning)))
		got = append(got, <-seen)
		must(t, f.Update(fedPod("b", at+2, corev1.PodRunning)))
		got = append(got, <-seen)
		must(t, f.Update(fedPod("b", at+3, corev1.PodPending)))
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

// watchLists is a client that does, or does not, know initial events.
type watchLists bool

func (w watchLists) IsWatchListSemanticsUnSupported() bool { return !bool(w) }

// TestPodFeedRelist: Relist has the feed list all pods again, and its readers get what it had missed.
func TestPodFeedRelist(t *testing.T) {
	f := newPodFeed()
	answers := make(chan []*corev1.Pod, 2)
	source := &cache.ListWatch{
		ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
			return nil, errors.New("initial events are asked for")
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			if !ptr.Deref(o.SendInitialEvents, false) {
				t.Errorf("a watch after revision %s, without the pods there are", o.ResourceVersion)
			}
			w := watch.NewFakeWithChanSize(10, false)
			for _, p := range <-answers {
				w.Add(p)
			}
			w.Action(watch.Bookmark, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "9", Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"}}})
			return w, nil
		},
	}
	f.reflector = cache.NewReflectorWithOptions(source, &corev1.Pod{}, feedStore{f}, cache.ReflectorOptions{})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.Run(ctx)
	}()
	answers <- []*corev1.Pod{fedPod("a", 3, corev1.PodPending)}
	w, err := f.watch(ctx, everyPod, fromTheStart)
	must(t, err)
	read(t, w, 2)
	answers <- []*corev1.Pod{fedPod("a", 8, corev1.PodRunning)}
	f.Relist()
	expires(t, w)
	w, err = f.watch(ctx, everyPod, fromTheStart)
	must(t, err)
	if diff := cmp.Diff([]string{"ADDED a 8 Running"}, read(t, w, 1)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	cancel()
	<-done
	(*PodFeed)(nil).Relist() // who has none asks too
}

// TestPodFeedEnds: a watch ends with its context, and a feed that knows nothing yet lets
// nobody wait for longer than they want to.
func TestPodFeedEnds(t *testing.T) {
	f := fedWith(t, 5)
	ctx, cancel := context.WithCancel(t.Context())
	w, err := f.watch(ctx, everyPod, fromTheStart)
	must(t, err)
	cancel()
	for range w.ResultChan() {
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.readers) > 0 {
		t.Error("the feed has not forgotten who reads no more")
	}
	if _, err := newPodFeed().watch(ctx, everyPod, fromTheStart); err == nil {
		t.Error("a feed that knows nothing shows something")
	}
}

// TestPodFeedAddsUp: whatever happens, and whenever a reader begins, what it has seen adds up
// to the pods that there are, and every event fits those before it.
func TestPodFeedAddsUp(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	phases := []corev1.PodPhase{corev1.PodPending, corev1.PodRunning, corev1.PodSucceeded}
	for range 300 {
		f, revision, there := fedWith(t, 1), 1, map[string]corev1.PodPhase{}
		type reader struct {
			w    watch.Interface
			keep func(*corev1.Pod) bool
		}
		var readers []reader
		for range 40 {
			if r.IntN(8) == 0 {
				keep := []func(*corev1.Pod) bool{everyPod, running}[r.IntN(2)]
				w, err := f.watch(t.Context(), keep, fromTheStart)
				must(t, err)
				readers = append(readers, reader{w, keep})
			}
			name, phase := string(rune('a'+r.IntN(4))), phases[r.IntN(3)]
			revision += 1 + r.IntN(3)
			p := fedPod(name, revision, phase)
			switch _, exists := there[name]; {
			case exists && r.IntN(3) == 0:
				must(t, f.Delete(p))
				delete(there, name)
			case exists:
				must(t, f.Update(p))
				there[name] = phase
			default:
				must(t, f.Add(p))
				there[name] = phase
			}
		}
		must(t, f.Add(fedPod("last", revision+1, corev1.PodRunning)))
		there["last"] = corev1.PodRunning
		for _, reader := range readers {
			want := map[string]corev1.PodPhase{}
			for name, phase := range there {
				if reader.keep(fedPod(name, 0, phase)) {
					want[name] = phase
				}
			}
			if diff := cmp.Diff(want, fold(t, reader.w)); diff != "" {
				t.Fatalf("(-want +got)\n%s", diff)
			}
		}
	}
}

// fold adds events up until the pod "last" has come.
func fold(t *testing.T, w watch.Interface) map[string]corev1.PodPhase {
	sum := map[string]corev1.PodPhase{}
	for e := range w.ResultChan() {
		p := e.Object.(*corev1.Pod)
		_, known := sum[p.Name]
		switch {
		case e.Type == watch.Bookmark:
			continue
		case known == (e.Type == watch.Added):
			t.Fatalf("%s of %s, which is known: %t", e.Type, p.Name, known)
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

// TestNewPodFeedRequiresRevisions: without client-go's AtomicFIFO its readers could not know what they have seen.
func TestNewPodFeedRequiresRevisions(t *testing.T) {
	if _, err := NewPodFeed(&rest.Config{}); err != nil {
		t.Error(err)
	}
	featurestesting.SetFeatureDuringTest(t, features.UnlockWhileProcessingFIFO, false)
	featurestesting.SetFeatureDuringTest(t, features.AtomicFIFO, false)
	if _, err := NewPodFeed(&rest.Config{}); err == nil || !strings.Contains(err.Error(), "create pod feed: ") {
		t.Errorf("error %v", err)
	}
}
