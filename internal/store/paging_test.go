package store

import (
	"context"
	"encoding/base64"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"
	"pgregory.net/rapid"
)

// TestPagesAreOneList checks that the pages of a list together are the list at the first page's
// revision, however it is cut and whatever is written meanwhile.
func TestPagesAreOneList(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := pods(t, New(Options{}), nil)
		ctx := context.Background()
		seed := rapid.Uint64().Draw(rt, "seed")
		write(rt, s, &history{}, rand.New(rand.NewPCG(seed, 0)), rapid.IntRange(0, 40).Draw(rt, "before"))

		var writers sync.WaitGroup
		for i := range 2 {
			writers.Go(func() { write(rt, s, &history{}, rand.New(rand.NewPCG(seed, uint64(i+1))), 60) })
		}
		pred := storage.Everything
		if rapid.Bool().Draw(rt, "selective") {
			pred = storage.SelectionPredicate{
				Label:    labels.SelectorFromSet(labels.Set{"color": "red"}),
				Field:    fields.Everything(),
				GetAttrs: podAttrs,
			}
		}
		limit := rapid.Int64Range(1, 5).Draw(rt, "limit")
		paged, rv := pages(rt, ctx, s, pred, limit)
		writers.Wait()

		whole := &example.PodList{}
		err := s.GetList(ctx, "/pods/", storage.ListOptions{
			ResourceVersion: rv, ResourceVersionMatch: metav1.ResourceVersionMatchExact, Predicate: pred, Recursive: true,
		}, whole)
		if err != nil {
			rt.Fatal(err)
		}
		if got, want := shortly(paged), shortly(whole.Items); !slices.Equal(got, want) || whole.ResourceVersion != rv {
			rt.Fatalf("at %s the pages contain %v, the list contains %v (at %s)", rv, got, want, whole.ResourceVersion)
		}
	})
}

func shortly(items []example.Pod) (out []string) {
	for _, p := range items {
		out = append(out, podKey(&p)+"@"+p.ResourceVersion+" "+p.Labels["serial"])
	}
	return out
}

// pages lists page by page and checks the invariants of each page.
func pages(rt *rapid.T, ctx context.Context, s storage.Interface, pred storage.SelectionPredicate, limit int64) (all []example.Pod, rv string) {
	pred.Limit = limit
	remaining := int64(-1)
	for {
		page := &example.PodList{}
		if err := s.GetList(ctx, "/pods/", storage.ListOptions{Predicate: pred, Recursive: true}, page); err != nil {
			rt.Fatal(err)
		}
		if rv == "" {
			rv = page.ResourceVersion
		}
		n := int64(len(page.Items))
		switch {
		case page.ResourceVersion != rv:
			rt.Fatalf("a page of revision %s after one of %s", page.ResourceVersion, rv)
		case n > limit, n < limit && page.Continue != "":
			rt.Fatalf("a page of %d with limit %d and token %q", n, limit, page.Continue)
		case remaining >= 0 && n != min(limit, remaining):
			rt.Fatalf("remainingItemCount was %d; the page has %d", remaining, n)
		}
		all = append(all, page.Items...)
		if page.Continue == "" {
			return all, rv
		}
		if page.RemainingItemCount != nil {
			remaining = *page.RemainingItemCount
		}
		pred.Continue = page.Continue
	}
}

// TestPagesCountOnce: a page reports how many objects remain without counting them again. A list at another revision, with another prefix or without a token
// counts, and so does a page that is read twice.
func TestPagesCountOnce(t *testing.T) {
	ws := New(Options{})
	s, ctx := pods(t, ws, nil), t.Context()
	for i := range 9 {
		mustCreate(t, ctx, s, pod("ns", fmt.Sprint(i)))
	}
	page := func(prefix string, limit int64, token string) (remaining int64, next string) {
		t.Helper()
		pred, l := storage.Everything, &example.PodList{}
		pred.Limit, pred.Continue = limit, token
		if err := s.GetList(ctx, prefix, storage.ListOptions{Predicate: pred, Recursive: true}, l); err != nil {
			t.Fatal(err)
		}
		if l.RemainingItemCount != nil {
			remaining = *l.RemainingItemCount
		}
		return remaining, l.Continue
	}
	w := ws.World("")
	remaining, second := page("/pods/", 2, "")
	if remaining != 7 || len(w.counts.of) != 1 {
		t.Fatalf("%d remain after the first page, want 7; %v is remembered", remaining, w.counts.of)
	}
	for r := range w.counts.of {
		w.counts.put(r, 1007) // a wrong count shows that it is used
	}
	remaining, third := page("/pods/", 3, second)
	if remaining != 1004 {
		t.Errorf("%d remain after the second page: it counted", remaining)
	}
	mustCreate(t, ctx, s, pod("ns", "9"))
	mustCreate(t, ctx, s, pod("other", "0"))
	if remaining, _ = page("/pods/", 2, ""); remaining != 9 {
		t.Errorf("%d remain after the first page of another list, want 9", remaining)
	}
	if remaining, _ = page("/pods/ns/", 2, ""); remaining != 8 {
		t.Errorf("%d remain after the first page of a namespace, want 8", remaining)
	}
	if remaining, _ = page("/pods/", 1, third); remaining != 1003 {
		t.Errorf("%d remain after the third page: it counted, or the new pods are in it", remaining)
	}
	if remaining, _ = page("/pods/", 1, third); remaining != 3 {
		t.Errorf("%d remain after the third page was read again, want 3", remaining)
	}
	for range mostCounts {
		mustDelete(t, ctx, s, "/pods/ns/9")
		mustCreate(t, ctx, s, pod("ns", "9"))
		page("/pods/", 1, "")
	}
	if n := len(w.counts.of); n > mostCounts {
		t.Errorf("%d counts are remembered, want at most %d", n, mostCounts)
	}
}

// TestSpanStops: without counting, a read of a few keys does not walk those that follow.
func TestSpanStops(t *testing.T) {
	ws := New(Options{})
	s := pods(t, ws, nil)
	for i := range 9 {
		mustCreate(t, t.Context(), s, pod("ns", fmt.Sprint(i)))
	}
	w := ws.World("")
	for _, c := range []struct {
		keep            int
		counting        bool
		collected, seen int
	}{{3, false, 3, 3}, {3, true, 3, 9}, {0, false, 9, 9}, {20, false, 9, 9}} {
		found, seen, _, err := w.span("", toTheEnd, newestRevision, c.keep, c.counting)
		if err != nil || len(found) != c.collected || seen != int64(c.seen) {
			t.Errorf("%+v: collected %d of %d keys, %v", c, len(found), seen, err)
		}
	}
}

// TestPageCompacted: the revision of a list with a selector is compacted while one of its pages is read. The page must be complete, or its token
// must continue where the page began.
func TestPageCompacted(t *testing.T) {
	for _, compacted := range []int{1, 2} { // the page during which it happens
		t.Run(fmt.Sprint(compacted), func(t *testing.T) {
			ws := New(Options{})
			s, ctx := pods(t, ws, nil), t.Context()
			for i := range 9 {
				mustCreate(t, ctx, s, pod("ns", fmt.Sprint(i)))
			}
			reading, looked := 0, 0
			pred := storage.SelectionPredicate{Label: labels.Everything(), Field: fields.OneTermNotEqualSelector("metadata.name", map[int]string{1: "1", 2: "5"}[compacted]), Limit: 3}
			pred.GetAttrs = func(obj runtime.Object) (labels.Set, fields.Set, error) {
				if looked++; reading == compacted && looked == 4 {
					mustCreate(t, ctx, s, pod("later", "x"))
					if err := ws.World("").Compact(ws.World("").Revision()); err != nil {
						t.Error(err)
					}
				}
				return podAttrs(obj)
			}
			var names []string
			expired := 0
			for first := true; first || pred.Continue != ""; first = false {
				reading, looked = reading+1, 0
				out := &example.PodList{}
				err := s.GetList(ctx, "/pods/ns/", storage.ListOptions{Predicate: pred, Recursive: true}, out)
				if apierrors.IsResourceExpired(err) {
					expired++
					pred.Continue = err.(apierrors.APIStatus).Status().Continue
					continue
				}
				if err != nil {
					t.Fatal(err)
				}
				for _, p := range out.Items {
					names = append(names, p.Name)
				}
				pred.Continue = out.Continue
			}
			if len(names) != 8 || !slices.IsSorted(names) || len(slices.Compact(slices.Clone(names))) != 8 {
				t.Errorf("the pages contain %v, want 8 pods", names)
			}
			if want := compacted - 1; expired != want {
				t.Errorf("%d pages had expired, want %d", expired, want)
			}
		})
	}
}

// TestFutureRevision: revisions that do not exist yet are answered as such, also those that exceed an int64.
func TestFutureRevision(t *testing.T) {
	s := pods(t, New(Options{}), nil)
	mustCreate(t, t.Context(), s, pod("ns", "a"))
	for _, rv := range []string{"3", "9223372036854775806", "9223372036854775807", "9223372036854775808", "18446744073709551615"} {
		err := s.GetList(t.Context(), "/pods/", storage.ListOptions{ResourceVersion: rv, ResourceVersionMatch: metav1.ResourceVersionMatchExact, Predicate: storage.Everything, Recursive: true}, &example.PodList{})
		if !storage.IsTooLargeResourceVersion(err) {
			t.Errorf("revision %s: %v", rv, err)
		}
	}
}

// TestPagesOutliveCompaction checks that the answer to an expired token contains a token that
// continues at the same key and at the current revision.
func TestPagesOutliveCompaction(t *testing.T) {
	ws := New(Options{})
	s, ctx := pods(t, ws, nil), t.Context()
	for i := range 6 {
		mustCreate(t, ctx, s, pod("ns", fmt.Sprint(i)))
	}
	pred := storage.Everything
	pred.Limit = 2
	first := mustList(t, ctx, s, storage.ListOptions{Predicate: pred})
	mustDelete(t, ctx, s, "/pods/ns/3")
	if err := ws.World("").Compact(ws.World("").Revision()); err != nil {
		t.Fatal(err)
	}
	pred.Continue = first.Continue
	err := s.GetList(ctx, "/pods/", storage.ListOptions{Predicate: pred, Recursive: true}, &example.PodList{})
	if !apierrors.IsResourceExpired(err) {
		t.Fatalf("an expired token: got %v", err)
	}
	pred.Continue = err.(apierrors.APIStatus).Status().Continue
	rest := mustList(t, ctx, s, storage.ListOptions{Predicate: pred})
	if len(rest.Items) != 2 || rest.Items[0].Name != "2" || rest.Items[1].Name != "4" {
		t.Errorf("the rest begins with %v", shortly(rest.Items))
	}
}

// FuzzContinue uses arbitrary tokens. A token must not cause a panic, must not show a key outside
// of the list's prefix, and must fail only with a client error.
func FuzzContinue(f *testing.F) {
	s := pods(f, New(Options{}), nil)
	for _, ns := range []string{"a", "b", "c"} {
		for i := range 3 {
			mustCreate(f, f.Context(), s, pod(ns, strconv.Itoa(i)))
		}
	}
	for _, rv := range []int64{-1, 0, 1, 5, 99, math.MaxInt64 - 1, math.MaxInt64} {
		for _, start := range []string{"", "0", "1\x00", "../a", "/", "zz"} {
			f.Add(`{"v":"meta.k8s.io/v1","rv":`+strconv.FormatInt(rv, 10)+`,"start":`+strconv.Quote(start)+`}`, int64(2))
		}
	}
	f.Add("nonsense", int64(0))
	f.Fuzz(func(t *testing.T, token string, limit int64) {
		pred := storage.Everything
		pred.Continue, pred.Limit = base64.RawURLEncoding.EncodeToString([]byte(token)), limit
		out := &example.PodList{}
		err := s.GetList(t.Context(), "/pods/b", storage.ListOptions{Predicate: pred, Recursive: true}, out)
		switch {
		case err == nil, apierrors.IsBadRequest(err), apierrors.IsResourceExpired(err), storage.IsTooLargeResourceVersion(err):
		default:
			t.Errorf("token %q: %v", token, err)
		}
		for _, p := range out.Items {
			if p.Namespace != "b" {
				t.Errorf("token %q shows %s", token, podKey(&p))
			}
		}
		if rev, _ := strconv.ParseInt(out.ResourceVersion, 10, 64); err == nil && rev > 10 { // nine pods, after revision 1
			t.Errorf("token %q: a list at revision %s", token, out.ResourceVersion)
		}
	})
}
