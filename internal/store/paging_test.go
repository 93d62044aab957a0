package store

import (
	"context"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
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
// counts.
func TestPagesCountOnce(t *testing.T) {
	ws := New(Options{})
	s, ctx := pods(t, ws, nil), t.Context()
	for i := range 9 {
		mustCreate(t, ctx, s, pod("ns", fmt.Sprint(i)))
	}
	page := func(limit int64, token string) (remaining int64, next string) {
		pred := storage.Everything
		pred.Limit, pred.Continue = limit, token
		l := mustList(t, ctx, s, storage.ListOptions{Predicate: pred})
		if l.RemainingItemCount != nil {
			remaining = *l.RemainingItemCount
		}
		return remaining, l.Continue
	}
	w := ws.World("")
	remaining, token := page(2, "")
	if remaining != 7 || len(w.counts.of) != 1 {
		t.Fatalf("%d remain after the first page, want 7; %v is remembered", remaining, w.counts.of)
	}
	for r := range w.counts.of {
		w.counts.put(r, 1007) // a wrong count shows that it is used
	}
	if remaining, token = page(3, token); remaining != 1004 {
		t.Errorf("%d remain after the second page: it counted", remaining)
	}
	mustCreate(t, ctx, s, pod("ns", "9"))
	if remaining, _ = page(2, ""); remaining != 8 {
		t.Errorf("%d remain after the first page of another list, want 8", remaining)
	}
	if remaining, _ = page(1, token); remaining != 1003 {
		t.Errorf("%d remain after the third page: it counted, or the new pod is in it", remaining)
	}
	for range mostCounts {
		mustDelete(t, ctx, s, "/pods/ns/9")
		mustCreate(t, ctx, s, pod("ns", "9"))
		page(1, "")
	}
	if n := len(w.counts.of); n > mostCounts {
		t.Errorf("%d counts are remembered, want at most %d", n, mostCounts)
	}
	if remaining, _ = page(1, token); remaining != 3 {
		t.Errorf("%d remain after the third page, whose count was forgotten, want 3", remaining)
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
	for _, rv := range []int64{-1, 0, 1, 5, 99} {
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
	})
}
