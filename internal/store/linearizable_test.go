package store

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/anishathalye/porcupine"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"
)

// This test records concurrent calls with their start and end times, and uses porcupine to check
// whether some order of them, each at one moment between its two times, explains all answers. The
// model is the whole store: a revision and the keys.

type callKind int

const (
	callCreate callKind = iota
	callGet
	callUpdate
	callDelete
	callList
)

type call struct {
	kind  callKind
	key   string
	value string // what a create or an update writes
}

type reply struct {
	ok    bool // not "exists", not "not found"
	value string
	rev   int64             // of the object, or of the list
	saw   string            // the value that an update received
	items map[string]string // of a list
}

// model is the state of the store at one moment.
type model struct {
	rev  int64
	keys map[string]stored
}

type stored struct {
	value string
	rev   int64
}

// step reports whether a reply is correct for a call in a state, and returns the next state.
func (m model) step(c call, r reply) (bool, model) {
	at, exists := m.keys[c.key]
	switch c.kind {
	case callGet:
		if !exists {
			return !r.ok, m
		}
		return r.ok && r.value == at.value && r.rev == at.rev, m
	case callList:
		items := map[string]string{}
		for key, s := range m.keys {
			items[key] = s.value
		}
		return r.rev == m.rev && maps.Equal(items, r.items), m
	case callCreate:
		if exists {
			return !r.ok, m
		}
		return r.ok && r.rev == m.rev+1 && r.value == c.value, m.with(c.key, c.value)
	case callUpdate:
		if !exists {
			return !r.ok, m
		}
		return r.ok && r.saw == at.value && r.rev == m.rev+1 && r.value == c.value, m.with(c.key, c.value)
	default:
		if !exists {
			return !r.ok, m
		}
		return r.ok && r.value == at.value && r.rev == m.rev+1, m.without(c.key)
	}
}

func (m model) with(key, value string) model {
	next := model{rev: m.rev + 1, keys: maps.Clone(m.keys)}
	next.keys[key] = stored{value, next.rev}
	return next
}

func (m model) without(key string) model {
	next := model{rev: m.rev + 1, keys: maps.Clone(m.keys)}
	delete(next.keys, key)
	return next
}

func porcupineModel() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return model{rev: 1, keys: map[string]stored{}} },
		Step: func(state, input, output any) (bool, any) {
			ok, next := state.(model).step(input.(call), output.(reply))
			return ok, next
		},
		Equal:             func(a, b any) bool { return reflect.DeepEqual(a, b) },
		DescribeOperation: func(in, out any) string { return fmt.Sprintf("%+v -> %+v", in, out) },
	}
}

// do executes one call of a Storage.
func do(t testing.TB, s storage.Interface, c call) (r reply) {
	ctx, out := context.Background(), &example.Pod{}
	var err error
	switch c.kind {
	case callCreate:
		p := pod("ns", c.key)
		p.Labels = map[string]string{"value": c.value}
		err = s.Create(ctx, "/pods/ns/"+c.key, p, out, 0)
	case callGet:
		err = s.Get(ctx, "/pods/ns/"+c.key, storage.GetOptions{}, out)
	case callUpdate:
		err = s.GuaranteedUpdate(ctx, "/pods/ns/"+c.key, out, false, nil, storage.SimpleUpdate(func(obj runtime.Object) (runtime.Object, error) {
			p := obj.(*example.Pod)
			r.saw = p.Labels["value"]
			p.Labels = map[string]string{"value": c.value}
			return p, nil
		}), nil)
	case callDelete:
		err = s.Delete(ctx, "/pods/ns/"+c.key, out, nil, storage.ValidateAllObjectFunc, nil, storage.DeleteOptions{})
	case callList:
		return list(t, s)
	}
	if err != nil && !storage.IsNotFound(err) && !storage.IsExist(err) {
		t.Errorf("%+v: %v", c, err)
	}
	if err != nil {
		return reply{}
	}
	r.ok, r.value, r.rev = true, out.Labels["value"], mustRev(out)
	return r
}

func list(t testing.TB, s storage.Interface) reply {
	out := &example.PodList{}
	if err := s.GetList(context.Background(), "/pods/", storage.ListOptions{Predicate: storage.Everything, Recursive: true}, out); err != nil {
		t.Error(err)
	}
	rv, _ := storage.APIObjectVersioner{}.ParseResourceVersion(out.ResourceVersion)
	r := reply{ok: true, rev: int64(rv), items: map[string]string{}}
	for _, p := range out.Items {
		r.items[p.Name] = p.Labels["value"]
	}
	return r
}

// record lets clients make random calls and returns the calls with their replies.
func record(t testing.TB, s storage.Interface, clients, calls int, seed uint64) []porcupine.Operation {
	var clock atomic.Int64
	all := make([][]porcupine.Operation, clients)
	var wg sync.WaitGroup
	for id := range clients {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(seed, uint64(id)))
			for n := range calls {
				c := call{
					kind:  callKind(r.IntN(int(callList) + 1)),
					key:   fmt.Sprintf("k%d", r.IntN(3)),
					value: fmt.Sprintf("v%d-%d", id, n),
				}
				began := clock.Add(1)
				out := do(t, s, c)
				all[id] = append(all[id], porcupine.Operation{ClientId: id, Input: c, Call: began, Output: out, Return: clock.Add(1)})
			}
		})
	}
	wg.Wait()
	var ops []porcupine.Operation
	for _, some := range all {
		ops = append(ops, some...)
	}
	return ops
}

func TestLinearizable(t *testing.T) {
	for seed := range uint64(20) {
		s := pods(t, New(Options{}), nil)
		if ops := record(t, s, 6, 60, seed); !porcupine.CheckOperations(porcupineModel(), ops) {
			t.Fatalf("seed %d: no order of the calls explains their answers", seed)
		}
	}
	s := pods(t, New(Options{}), prefixTransformer())
	if ops := record(t, s, 6, 60, 1); !porcupine.CheckOperations(porcupineModel(), ops) {
		t.Fatal("transformed: no order of the calls explains their answers")
	}
}

// staleReads answers each second Get with the result of the previous one.
type staleReads struct {
	storage.Interface
	mu   sync.Mutex
	last map[string]*example.Pod
}

func (s *staleReads) Get(ctx context.Context, key string, opts storage.GetOptions, out runtime.Object) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if old := s.last[key]; old != nil {
		delete(s.last, key)
		*out.(*example.Pod) = *old
		return nil
	}
	err := s.Interface.Get(ctx, key, opts, out)
	if err == nil {
		s.last[key] = out.DeepCopyObject().(*example.Pod)
	}
	return err
}

// lostUpdates overwrites writes that happened since it read.
type lostUpdates struct{ storage.Interface }

func (s lostUpdates) GuaranteedUpdate(ctx context.Context, key string, out runtime.Object, ignore bool, pre *storage.Preconditions, try storage.UpdateFunc, _ runtime.Object) error {
	read := &example.Pod{}
	if err := s.Get(ctx, key, storage.GetOptions{}, read); err != nil {
		return err
	}
	changed, _, err := try(read.DeepCopy(), storage.ResponseMeta{})
	if err != nil {
		return err
	}
	overwrite := func(runtime.Object, storage.ResponseMeta) (runtime.Object, *uint64, error) {
		return changed.DeepCopyObject(), nil, nil
	}
	return s.Interface.GuaranteedUpdate(ctx, key, out, ignore, pre, overwrite, nil)
}

// TestCheckerBites checks that the checker rejects a store with bugs.
func TestCheckerBites(t *testing.T) {
	t.Run("stale reads", func(t *testing.T) {
		s := &staleReads{Interface: pods(t, New(Options{}), nil), last: map[string]*example.Pod{}}
		var ops []porcupine.Operation
		for i, c := range []call{
			{kind: callCreate, key: "k", value: "a"}, {kind: callGet, key: "k"},
			{kind: callUpdate, key: "k", value: "b"}, {kind: callGet, key: "k"},
		} {
			ops = append(ops, porcupine.Operation{Input: c, Call: int64(2 * i), Output: do(t, s, c), Return: int64(2*i + 1)})
		}
		if !porcupine.CheckOperations(porcupineModel(), ops[:3]) {
			t.Error("the checker rejects a correct store")
		}
		if porcupine.CheckOperations(porcupineModel(), ops) {
			t.Error("the checker accepts a stale read")
		}
	})
	t.Run("lost updates", func(t *testing.T) {
		below := pods(t, New(Options{}), nil)
		mustCreate(t, t.Context(), below, pod("ns", "k"))
		s := lostUpdates{below}
		// Two concurrent updates: the first reads, the second runs completely, the first writes.
		second := reply{}
		ops := []porcupine.Operation{{Input: call{kind: callCreate, key: "k"}, Call: 0, Output: reply{ok: true, rev: 2}, Return: 1}}
		first := reply{}
		out := &example.Pod{}
		err := s.GuaranteedUpdate(t.Context(), "/pods/ns/k", out, false, nil, storage.SimpleUpdate(func(obj runtime.Object) (runtime.Object, error) {
			second = do(t, below, call{kind: callUpdate, key: "k", value: "b"})
			p := obj.(*example.Pod)
			first.saw = p.Labels["value"]
			p.Labels = map[string]string{"value": "a"}
			return p, nil
		}), nil)
		if err != nil {
			t.Fatal(err)
		}
		first.ok, first.value, first.rev = true, "a", mustRev(out)
		ops = append(ops,
			porcupine.Operation{ClientId: 1, Input: call{kind: callUpdate, key: "k", value: "a"}, Call: 2, Output: first, Return: 9},
			porcupine.Operation{ClientId: 2, Input: call{kind: callUpdate, key: "k", value: "b"}, Call: 3, Output: second, Return: 4})
		if porcupine.CheckOperations(porcupineModel(), ops) {
			t.Errorf("the checker accepts a lost update: %+v", ops)
		}
	})
}
