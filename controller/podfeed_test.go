package controller

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
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
			"ADDED a 3 Running", "BOOKMARK  5 ", "ADDED b 6 Pending", "MODIFIED b 7 Running", "MODIFIED a 8 Succeeded", "DELETED a 10 Succeeded", "DELETED b 11 Failed",
		}},
		// The API, too, shows what a selector matched before it is gone, with the revision of the end.
		"some":  {some, []string{"ADDED a 3 Running", "BOOKMARK  5 ", "ADDED b 7 Running", "DELETED a 8 Running", "DELETED b 11 Failed"}},
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

// TestPodFeedBeginsAnew: when the feed has missed something, its readers see what was on its
// way, then the end, and cannot go on from where they were.
func TestPodFeedBeginsAnew(t *testing.T) {
	f := fedWith(t, 5, fedPod("a", 3, corev1.PodRunning))
	w, err := f.watch(t.Context(), everyPod, fromTheStart)
	must(t, err)
	must(t, f.Add(fedPod("b", 6, corev1.PodPending)))
	must(t, f.Replace([]any{fedPod("c", 20, corev1.PodPending)}, "21"))
	read(t, w, 3)
	if e, more := <-w.ResultChan(); more {
		t.Errorf("%s comes after what the feed has missed", e.Type)
	}
	if _, err := f.watch(t.Context(), everyPod, metav1.ListOptions{ResourceVersion: "6"}); !apierrors.IsResourceExpired(err) {
		t.Errorf("going on after revision 6: %v", err)
	}
	again, err := f.watch(t.Context(), everyPod, fromTheStart)
	must(t, err)
	if diff := cmp.Diff([]string{"ADDED c 20 Pending", "BOOKMARK  21 "}, read(t, again, 2)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
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
