package apiserver_test

import (
	"context"
	"fmt"
	"math/rand"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	metafuzzer "k8s.io/apimachinery/pkg/apis/meta/fuzzer"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/apis/core"
	corefuzzer "k8s.io/kubernetes/pkg/apis/core/fuzzer"
	corev1 "k8s.io/kubernetes/pkg/apis/core/v1"

	"github.com/rehearse-k8s/rehearse/internal/store"
)

// podStorage is a Storage of pods with the encoding that the API server stores them in.
type podStorage struct {
	storage.Interface
	world *store.World
	codec runtime.Codec
}

func newPodStorage(t *testing.T, o store.Options) podStorage {
	t.Helper()
	serializer := protobuf.NewSerializer(legacyscheme.Scheme, legacyscheme.Scheme)
	codec := legacyscheme.Codecs.CodecForVersions(serializer, serializer, corev1.SchemeGroupVersion, runtime.InternalGroupVersioner)
	worlds := store.New(o)
	pods, err := worlds.Storage(store.Config{
		Codec: codec, NewFunc: func() runtime.Object { return &core.Pod{} }, NewListFunc: func() runtime.Object { return &core.PodList{} },
		ResourcePrefix: "/pods", GroupResource: schema.GroupResource{Resource: "pods"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return podStorage{pods, worlds.World(""), codec}
}

// shared returns the pod of a key as readers share it.
func (s podStorage) shared(t *testing.T, key string) *core.Pod {
	t.Helper()
	var list core.PodList
	options := storage.ListOptions{Predicate: storage.Everything}
	if err := s.GetList(t.Context(), key, options, &list); err != nil || len(list.Items) != 1 {
		t.Fatalf("list of %s: %d pods, %v", key, len(list.Items), err)
	}
	return &list.Items[0]
}

// decoded returns the pod that the stored bytes of a key decode to.
func (s podStorage) decoded(t *testing.T, key string) *core.Pod {
	t.Helper()
	data, rev, _, _, _ := s.world.RawGet(key)
	obj, err := runtime.Decode(s.codec, data)
	if err != nil {
		t.Fatal(err)
	}
	pod := obj.(*core.Pod)
	pod.ResourceVersion = fmt.Sprint(rev)
	return pod
}

// TestPartsOfPods: whatever part of a pod an update changes, readers have what all of its bytes decode to, the updated pod shares the parts that
// did not change with the pod before, and the pod before stays as it was.
func TestPartsOfPods(t *testing.T) {
	for name, o := range map[string]store.Options{"own parts": {}, "shared parts": {ShareParts: true}} {
		t.Run(name, func(t *testing.T) { testPartsOfPods(t, newPodStorage(t, o)) })
	}
}

func testPartsOfPods(t *testing.T, s podStorage) {
	funcs := fuzzer.MergeFuzzerFuncs(metafuzzer.Funcs, corefuzzer.Funcs)
	for seed := range int64(20) {
		random := fuzzer.FuzzerFor(funcs, rand.NewSource(seed), legacyscheme.Codecs)
		drawn := 0
		draw := func() *core.Pod {
			p := &core.Pod{}
			random.Fill(p)
			p.Name, p.Namespace, p.ResourceVersion, p.DeletionTimestamp = "pod", "ns", "", nil
			drawn++
			p.Spec.NodeName, p.Status.Message = fmt.Sprintf("node-%04d", drawn), fmt.Sprintf("message %04d", drawn) // all have the same length
			return p
		}
		key := fmt.Sprintf("/pods/ns%d/pod", seed)
		if err := s.Create(t.Context(), key, draw(), nil, 0); err != nil {
			t.Fatal(err)
		}
		changes := []func(p, other *core.Pod){
			func(p, other *core.Pod) { p.ObjectMeta = other.ObjectMeta },
			func(p, other *core.Pod) { p.Spec = other.Spec },
			func(p, other *core.Pod) { p.Status = other.Status },
			func(p, other *core.Pod) { p.Spec.NodeName = other.Spec.NodeName },
			func(p, other *core.Pod) { p.Status.Message = other.Status.Message },
		}
		for round := range 1 << len(changes) { // every subset of the changes
			before := s.shared(t, key)
			want := before.DeepCopy()
			mustUpdatePod(t, t.Context(), s, key, func(p *core.Pod) {
				p.Labels = map[string]string{"round": fmt.Sprint(round)}
				for n, change := range changes {
					if round&(1<<n) != 0 {
						change(p, draw())
					}
				}
			})
			after := s.shared(t, key)
			if diff := cmp.Diff(s.decoded(t, key), after); diff != "" {
				t.Fatalf("seed %d, round %d: the bytes decode to another pod (-bytes +readers):\n%s", seed, round, diff)
			}
			if !reflect.DeepEqual(before, want) {
				t.Fatalf("seed %d, round %d: the update has changed the pod before it:\n%s", seed, round, cmp.Diff(want, before))
			}
			if round&(2|8) == 0 && !sharesAll(before.Spec, after.Spec) {
				t.Fatalf("seed %d, round %d: the unchanged spec is decoded again", seed, round)
			}
			if round&(4|16) == 0 && !sharesAll(before.Status, after.Status) {
				t.Fatalf("seed %d, round %d: the unchanged status is decoded again", seed, round)
			}
		}
	}
}

// sharesAll reports whether two structs have the same pointers, lists and maps in their fields.
func sharesAll(a, b any) bool {
	before, after := reflect.ValueOf(a), reflect.ValueOf(b)
	for n := range before.NumField() {
		switch x, y := before.Field(n), after.Field(n); x.Kind() {
		case reflect.Pointer, reflect.Map:
			if x.UnsafePointer() != y.UnsafePointer() {
				return false
			}
		case reflect.Slice:
			if x.UnsafePointer() != y.UnsafePointer() || x.Len() != y.Len() {
				return false
			}
		}
	}
	return true
}

func mustUpdatePod(t *testing.T, ctx context.Context, s storage.Interface, key string, change func(*core.Pod)) {
	t.Helper()
	err := s.GuaranteedUpdate(ctx, key, &core.Pod{}, false, nil, func(in runtime.Object, _ storage.ResponseMeta) (runtime.Object, *uint64, error) {
		change(in.(*core.Pod))
		return in, nil, nil
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
}
