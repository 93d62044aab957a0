package store

import (
	"context"
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/features"
	"k8s.io/apiserver/pkg/storage"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
)

var errRejected = errors.New("rejected")

// TestSuggestions counts the tries of an update and of a delete, and the state that each received, with an object that the caller suggests. One that is
// not at the key's revision is ignored: etcd3's store would try it first, and then try again.
func TestSuggestions(t *testing.T) {
	for _, tc := range []struct {
		name    string
		stale   bool // the suggestion is older than the store
		gone    bool // the object was deleted meanwhile
		reject  bool
		tries   int   // expected
		saw     int64 // generation that the last try received
		wantErr func(error) bool
	}{
		{name: "current", tries: 1, saw: 1},
		{name: "current, rejected", reject: true, tries: 1, saw: 1, wantErr: isRejected},
		{name: "stale", stale: true, tries: 1, saw: 2},
		{name: "stale, rejected", stale: true, reject: true, tries: 1, saw: 2, wantErr: isRejected},
		{name: "gone", gone: true, wantErr: storage.IsNotFound},
	} {
		for _, call := range []string{"update", "delete"} {
			t.Run(tc.name+"/"+call, func(t *testing.T) {
				s := pods(t, New(Options{}), nil)
				in := pod("ns", "p")
				in.Generation = 1
				suggestion := mustCreate(t, t.Context(), s, in)
				if tc.stale {
					mustUpdate(t, t.Context(), s, "/pods/ns/p", func(p *example.Pod) { p.Generation = 2 })
				}
				if tc.gone {
					mustDelete(t, t.Context(), s, "/pods/ns/p")
				}
				tries, saw := 0, int64(0)
				try := func(obj runtime.Object) error {
					tries, saw = tries+1, obj.(*example.Pod).Generation
					if tc.reject {
						return errRejected
					}
					return nil
				}
				var err error
				if call == "update" {
					err = s.GuaranteedUpdate(t.Context(), "/pods/ns/p", &example.Pod{}, false, nil, storage.SimpleUpdate(func(obj runtime.Object) (runtime.Object, error) {
						obj.(*example.Pod).Labels = map[string]string{"updated": ""}
						return obj, try(obj)
					}), suggestion)
				} else {
					err = s.Delete(t.Context(), "/pods/ns/p", &example.Pod{}, nil, func(_ context.Context, obj runtime.Object) error { return try(obj) },
						suggestion, storage.DeleteOptions{})
				}
				if tc.wantErr == nil && err != nil || tc.wantErr != nil && !tc.wantErr(err) {
					t.Errorf("%s: %v", call, err)
				}
				if tries != tc.tries || saw != tc.saw {
					t.Errorf("tried %d times, at last on generation %d; expected %d and %d", tries, saw, tc.tries, tc.saw)
				}
			})
		}
	}
}

func isRejected(err error) bool { return errors.Is(err, errRejected) }

// TestUpdateOfNothing checks that an update that changes no byte writes nothing, whatever the
// origin of the object.
func TestUpdateOfNothing(t *testing.T) {
	for _, transformer := range []bool{false, true} {
		ws := New(Options{})
		s := pods(t, ws, nil)
		if transformer {
			s = pods(t, ws, prefixTransformer())
		}
		current := mustCreate(t, t.Context(), s, pod("ns", "p"))
		for _, suggestion := range []runtime.Object{nil, current.DeepCopy()} {
			out := &example.Pod{}
			same := storage.SimpleUpdate(func(obj runtime.Object) (runtime.Object, error) { return obj, nil })
			if err := s.GuaranteedUpdate(t.Context(), "/pods/ns/p", out, false, nil, same, suggestion); err != nil {
				t.Fatal(err)
			}
			if out.ResourceVersion != "2" || out.Name != "p" || ws.World("").Revision() != 2 {
				t.Errorf("revision %s of %d", out.ResourceVersion, ws.World("").Revision())
			}
		}
	}
}

func TestCallsEndWithTheirContext(t *testing.T) {
	s := pods(t, New(Options{}), nil)
	mustCreate(t, t.Context(), s, pod("ns", "p"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	out, list := &example.Pod{}, &example.PodList{}
	never := func(runtime.Object, storage.ResponseMeta) (runtime.Object, *uint64, error) {
		t.Error("tryUpdate was called")
		return nil, nil, errRejected
	}
	_, current := s.GetCurrentResourceVersion(ctx)
	for name, err := range map[string]error{
		"create":  s.Create(ctx, "/pods/ns/q", pod("ns", "q"), out, 0),
		"get":     s.Get(ctx, "/pods/ns/p", storage.GetOptions{}, out),
		"list":    s.GetList(ctx, "/pods/", storage.ListOptions{Predicate: storage.Everything, Recursive: true}, list),
		"update":  s.GuaranteedUpdate(ctx, "/pods/ns/p", out, false, nil, never, nil),
		"delete":  s.Delete(ctx, "/pods/ns/p", out, nil, storage.ValidateAllObjectFunc, nil, storage.DeleteOptions{}),
		"current": current,
	} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestUpdateIsInterruptible checks that an update that never succeeds returns when its context
// ends.
func TestUpdateIsInterruptible(t *testing.T) {
	s := pods(t, New(Options{}), nil)
	mustCreate(t, t.Context(), s, pod("ns", "p"))
	ctx, cancel := context.WithCancel(t.Context())
	tries := 0
	err := s.GuaranteedUpdate(ctx, "/pods/ns/p", &example.Pod{}, false, nil, storage.SimpleUpdate(func(obj runtime.Object) (runtime.Object, error) {
		if tries++; tries == 10 {
			cancel()
		}
		mustUpdate(t, t.Context(), s, "/pods/ns/p", func(p *example.Pod) { p.Generation++ })
		obj.(*example.Pod).Labels = map[string]string{"mine": ""}
		return obj, nil
	}), nil)
	if !errors.Is(err, context.Canceled) || tries != 10 {
		t.Errorf("after %d tries: %v", tries, err)
	}
}

// TestUnreadable checks that unreadable objects fail their readers; only if unsafe deletion is
// allowed are they marked, listed by name, and deleted without reading.
func TestUnreadable(t *testing.T) {
	ws := New(Options{})
	s := pods(t, ws, nil)
	mustCreate(t, t.Context(), s, pod("ns", "good"))
	ws.World("").RawPut("/pods/ns/bad", []byte("bits"), 0)
	ws.World("").RawPut("/pods/ns/worse", []byte("flipped"), 0)
	out := &example.Pod{}
	get := func() error { return s.Get(t.Context(), "/pods/ns/bad", storage.GetOptions{}, out) }
	list := func() error {
		return s.GetList(t.Context(), "/pods/", storage.ListOptions{Predicate: storage.Everything, Recursive: true}, &example.PodList{})
	}
	remove := func(unread bool) error {
		return s.Delete(t.Context(), "/pods/ns/bad", out, nil, storage.ValidateAllObjectFunc, nil, storage.DeleteOptions{IgnoreStoreReadError: unread})
	}
	if err := get(); err == nil || storage.IsCorruptObject(err) {
		t.Errorf("get: %v", err)
	}
	if err := list(); err == nil {
		t.Error("the list has no error")
	}
	if err := remove(true); err == nil {
		t.Error("deleted, although that is not allowed")
	}

	featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, features.AllowUnsafeMalformedObjectDeletion, true)
	if err := get(); !storage.IsCorruptObject(err) {
		t.Errorf("get: %v", err)
	}
	var status apierrors.APIStatus
	if err := list(); !errors.As(err, &status) || len(status.Status().Details.Causes) != 2 {
		t.Errorf("list: %v", err)
	} else if got := status.Status().Details.Causes[0].Field; got != "/pods/ns/bad" {
		t.Errorf("the list names %q", got)
	}
	if err := remove(false); err == nil {
		t.Error("deleted without IgnoreStoreReadError")
	}
	if err := remove(true); err != nil {
		t.Errorf("delete: %v", err)
	}
}

// TestUnreadableIsNotWritten checks that an object is rejected if its codec cannot decode it.
func TestUnreadableIsNotWritten(t *testing.T) {
	ws := New(Options{})
	s := pods(t, ws, nil)
	s.codec = deafCodec{s.codec}
	if err := s.Create(t.Context(), "/pods/ns/p", pod("ns", "p"), nil, 0); !errors.Is(err, errRejected) {
		t.Errorf("create: %v", err)
	}
	if got := ws.World("").Revision(); got != 1 {
		t.Errorf("the store is at revision %d", got)
	}
}
