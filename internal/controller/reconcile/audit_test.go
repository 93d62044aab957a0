package reconcile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// fakeServer is an API server with a watch cache: lists return listed, at a revision, and reads by name return stored.
type fakeServer struct {
	listed, stored map[string]metav1.ObjectMeta // by name
	revision       string
	reads          []string // the names that were read
	page           int      // the number of objects in a page of a list; 0: all
	expired        string   // the token that is answered with another one, which continues at a later revision
	lists          []time.Time
}

// later is what an expired token begins with when the list continues at another revision.
const later = "later "

// pageOf returns the objects of the page that starts after the token from, and the token of the next one.
func (s *fakeServer) pageOf(from string) (objects []metav1.ObjectMeta, next string) {
	for _, name := range slices.Sorted(maps.Keys(s.listed)) {
		switch {
		case name <= from:
		case s.page > 0 && len(objects) == s.page:
			return objects, objects[s.page-1].Name
		default:
			objects = append(objects, s.listed[name])
		}
	}
	return objects, ""
}

func (s *fakeServer) RoundTrip(r *http.Request) (*http.Response, error) {
	partial := metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadata"}
	code, answer := http.StatusOK, any(nil)
	if name, token := path.Base(r.URL.Path), r.URL.Query().Get("continue"); name == "pods" && token != "" && token == s.expired {
		expired := apierrors.NewResourceExpired("expired").Status()
		expired.TypeMeta, expired.Continue = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, later+token
		code, answer = http.StatusGone, expired
	} else if name == "pods" {
		list := &metav1.PartialObjectMetadataList{TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadataList"}}
		s.lists = append(s.lists, time.Now())
		var objects []metav1.ObjectMeta
		if from, ok := strings.CutPrefix(token, later); ok {
			s.revision, token = "30", from
		}
		list.ResourceVersion = s.revision
		objects, list.Continue = s.pageOf(token)
		for _, o := range objects {
			list.Items = append(list.Items, metav1.PartialObjectMetadata{TypeMeta: partial, ObjectMeta: o})
		}
		answer = list
	} else if s.reads = append(s.reads, name); s.stored[name].Name == name {
		answer = &metav1.PartialObjectMetadata{TypeMeta: partial, ObjectMeta: s.stored[name]}
	} else {
		code, answer = http.StatusNotFound, metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: "Failure", Reason: metav1.StatusReasonNotFound, Code: 404}
	}
	body, err := json.Marshal(answer)
	return &http.Response{
		StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(string(body))), Request: r,
	}, err
}

type fakeInformer struct {
	cache.SharedIndexInformer
	store cache.Store
}

func (f fakeInformer) GetStore() cache.Store { return f.store }

func podMeta(name, revision string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-" + name), ResourceVersion: revision}
}

// audits runs rounds of an audit and returns what it found.
func audits(t *testing.T, s *fakeServer, rounds int, reached string, cached ...metav1.ObjectMeta) (found []*Divergence) {
	store := cache.NewStore(cache.MetaNamespaceKeyFunc)
	var all []any
	for _, m := range cached {
		all = append(all, &corev1.Pod{ObjectMeta: m})
	}
	if err := store.Replace(all, reached); err != nil {
		t.Fatal(err)
	}
	client, err := metadata.NewForConfig(&rest.Config{Transport: s, QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	kinds := func() []Audited {
		return []Audited{{
			Resource: corev1.SchemeGroupVersion.WithResource("pods"), Informer: fakeInformer{store: store}, Concerns: All,
			Live: func(_ context.Context, _, name string) (metav1.Object, error) {
				if o, ok := s.stored[name]; ok {
					return &corev1.Pod{ObjectMeta: o}, nil
				}
				return nil, missing(name)
			},
		}}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rounds)*10*time.Minute+5*time.Minute)
	defer cancel()
	if err := Audit(ctx, 10*time.Minute, client, kinds, func(d *Divergence) error {
		found = append(found, d)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return found
}

// TestAudit checks which differences a list detects, and which only a read by name.
func TestAudit(t *testing.T) {
	as := func(all ...metav1.ObjectMeta) map[string]metav1.ObjectMeta {
		m := map[string]metav1.ObjectMeta{}
		for _, o := range all {
			m[o.Name] = o
		}
		return m
	}
	old, changed, other := podMeta("a", "5"), podMeta("a", "9"), podMeta("a", "9")
	other.UID = "another"
	for name, c := range map[string]struct {
		cached, listed, stored map[string]metav1.ObjectMeta
		revision               string
		want                   string // part of the error that is found
		corrected              bool
	}{
		"no difference":             {as(old), as(old), as(old), "20", "", false},
		"the cache missed a change": {as(old), as(changed), as(changed), "20", "the cache is at revision 5, the API is at revision 9", false},
		"the cache missed a delete": {as(old), as(), as(), "20", "the cache is at revision 5, the API does not have it", false},
		"the cache missed a create": {as(), as(old), as(old), "20", "the cache does not have it, the API is at revision 5", false},
		"the server missed a change": {as(old), as(old), as(changed), "20",
			"the cache is at revision 5, the API is at revision 9 when it is read by name, but lists what the cache has", true},
		"the server missed a delete": {as(old), as(old), as(), "20",
			"the cache is at revision 5, the API does not have it when it is read by name, but lists what the cache has", true},
		"the server missed a recreation": {as(old), as(old), as(other), "20", "lists what the cache has", true},
		"the cache is newer than a list": {as(changed), as(old), as(changed), "20", "", false},
		"the store was restored":         {as(changed), as(old), as(old), "7", "audit pods: the cache is at revision 20, the API is at revision 7, which is older", false},
		"the store was restored, and the object too": {as(changed), as(old), as(old), "20",
			"audit pods default/a: the cache is at revision 9, the API is at revision 5, which is older", false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var cached []metav1.ObjectMeta
				for _, o := range c.cached {
					cached = append(cached, o)
				}
				found := audits(t, &fakeServer{listed: c.listed, stored: c.stored, revision: c.revision}, 1, "20", cached...)
				if c.want == "" {
					if len(found) > 0 {
						t.Errorf("found %v", found)
					}
					return
				}
				if len(found) != 1 || !strings.Contains(found[0].Error(), c.want) || !errors.Is(found[0], ErrDiverged) {
					t.Fatalf("found %v, want %s", found, c.want)
				}
				var corrections Corrections
				if corrections.Note(found[0]) != c.corrected {
					t.Fatalf("corrected: %t, want %t", !c.corrected, c.corrected)
				}
				if c.corrected {
					testTransform(t, &corrections, c.stored["a"])
				}
			})
		})
	}
}

// testTransform checks that Transform replaces pod a at revision 5 by the stored object, and does not change
// newer objects.
func testTransform(t *testing.T, c *Corrections, stored metav1.ObjectMeta) {
	transform := c.Transform(func(obj any) (any, error) { return obj, nil })
	shown := func(m metav1.ObjectMeta) metav1.ObjectMeta {
		obj, err := transform(&corev1.Pod{ObjectMeta: m})
		if err == nil {
			obj, err = transform(obj) // client-go may transform an object twice
		}
		if err != nil {
			t.Fatal(err)
		}
		return obj.(*corev1.Pod).ObjectMeta
	}
	want := podMeta("a", "9")
	if stored.UID != want.UID {
		want.UID, want.ResourceVersion = "", "5"
	}
	for range 2 {
		if got := shown(podMeta("a", "5")); got.UID != want.UID || got.ResourceVersion != want.ResourceVersion || got.Name != "a" {
			t.Errorf("shown %+v, want %+v", got, want)
		}
	}
	for _, m := range []metav1.ObjectMeta{podMeta("b", "5"), podMeta("a", "7"), podMeta("a", "5")} { // after revision 7 nothing is corrected
		if got := shown(m); got.UID != m.UID || got.ResourceVersion != m.ResourceVersion {
			t.Errorf("shown %+v, want %+v", got, m)
		}
	}
}

// TestAuditReads checks that each round reads the objects whose deletion is overdue, and the others in
// rotation.
func TestAuditReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeServer{stored: map[string]metav1.ObjectMeta{}, revision: "20"}
		var cached []metav1.ObjectMeta
		for n := range 2*auditReads + 100 {
			m := podMeta(fmt.Sprintf("pod-%04d", n), "5")
			if n == 700 {
				m.DeletionTimestamp = &metav1.Time{Time: time.Now()}
			}
			cached = append(cached, m)
			s.stored[m.Name] = m
		}
		s.listed = s.stored
		if found := audits(t, s, 3, "20", cached...); len(found) > 0 {
			t.Errorf("found %v", found)
		}
		times := map[string]int{}
		for _, name := range s.reads {
			times[name]++
		}
		if len(s.reads) != 3*auditReads || len(times) != len(cached) || times["pod-0700"] != 3 || s.reads[auditReads] != "pod-0700" {
			t.Errorf("%d reads of %d objects, %d of the overdue one", len(s.reads), len(times), times["pod-0700"])
		}
	})
}

// TestAuditPages checks that there is a pause between two pages of a list, so that the list of many objects is no burst, and that the list continues
// when the server has forgotten its revision meanwhile.
func TestAuditPages(t *testing.T) {
	for name, expire := range map[string]string{"one revision": "", "expired": "pod-03"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &fakeServer{stored: map[string]metav1.ObjectMeta{}, revision: "20", page: 2, expired: expire}
				var cached []metav1.ObjectMeta
				for n := range 9 {
					m := podMeta(fmt.Sprintf("pod-%02d", n), "5")
					cached = append(cached, m)
					s.stored[m.Name] = m
				}
				missed := podMeta("pod-99", "15")
				s.stored[missed.Name] = missed
				s.listed = maps.Clone(s.stored)
				created := podMeta("pod-00-after-the-first-page", "24")
				s.stored[created.Name] = created
				if found := audits(t, s, 1, "20", append(cached, created)...); len(found) != 1 || found[0].Name != missed.Name {
					t.Errorf("found %v, want only that the cache does not have %s", found, missed.Name)
				}
				if len(s.lists) != 5 {
					t.Fatalf("%d pages were read, want 5", len(s.lists))
				}
				for n, at := range s.lists[1:] {
					if got := at.Sub(s.lists[n]); got != auditPause {
						t.Errorf("page %d came %s after the one before, want %s", n+1, got, auditPause)
					}
				}
			})
		})
	}
}
