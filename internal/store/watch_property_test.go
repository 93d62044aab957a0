package store

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sort"
	"strconv"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"
)

// This test checks etcd's guarantees for a watch (ordered, unique, reliable, atomic, resumable,
// bookmarkable) and the effect of a selector. Concurrently, writers write, watchers watch, stop and
// resume, and history is compacted. The expected history does not come from a watch but from the
// answers to the writes: each carries its revision, so together they are the history.

// fact is one write, according to its answer.
type fact struct {
	rev    int64
	key    string
	color  string // "" after a delete
	serial string // identifies the write
}

// history contains all writes of a run, by revision.
type history struct {
	mu    sync.Mutex
	facts []fact
}

func (h *history) add(f fact) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.facts = append(h.facts, f)
}

// received is an event or a bookmark that a watcher received.
type received struct {
	typ           watch.EventType
	rev           int64
	key           string
	color, serial string
}

// session is one watch from its start to its end.
type session struct {
	from     int64
	initial  bool // with the existing objects
	received []received
	drained  bool // whether it was read up to the last revision
}

type scope struct {
	name   string
	key    string
	single bool
	color  string // "" selects everything
}

var scopes = []scope{
	{name: "all", key: "/pods/"},
	{name: "red", key: "/pods/", color: "red"},
	{name: "one namespace", key: "/pods/ns0/"},
	{name: "green of one namespace", key: "/pods/ns1/", color: "green"},
	{name: "one pod", key: "/pods/ns0/p0", single: true},
}

// options returns the options of a watch of the scope from a revision on, or, if that is 0, with
// the existing objects and a bookmark after them.
func (s scope) options(from int64) storage.ListOptions {
	pred := storage.Everything
	if s.color != "" {
		pred = storage.SelectionPredicate{
			Label:    labels.SelectorFromSet(labels.Set{"color": s.color}),
			Field:    fields.Everything(),
			GetAttrs: podAttrs,
		}
	}
	opts := storage.ListOptions{Predicate: pred, Recursive: !s.single, ProgressNotify: true}
	if from == 0 {
		opts.Predicate.AllowWatchBookmarks = true
		opts.SendInitialEvents = ptr.To(true)
	} else {
		opts.ResourceVersion = strconv.FormatInt(from, 10)
	}
	return opts
}

func (s scope) covers(key string) bool {
	if s.single {
		return key == s.key
	}
	return len(key) > len(s.key) && key[:len(s.key)] == s.key
}

func (s scope) selects(color string) bool { return color != "" && (s.color == "" || s.color == color) }

// expected returns the event that a watch of the scope must send for one write, given the previous
// value of the key.
func (s scope) expected(before, now fact) (received, bool) {
	was, is := s.selects(before.color), s.selects(now.color)
	t := received{rev: now.rev, key: now.key, color: now.color, serial: now.serial}
	switch {
	case is && was:
		t.typ = watch.Modified
	case is:
		t.typ = watch.Added
	case was:
		// The previous object, at the revision that removed it.
		t.typ, t.color, t.serial = watch.Deleted, before.color, before.serial
	default:
		return received{}, false
	}
	return t, true
}

func TestWatchGuarantees(t *testing.T) {
	t.Run("shared", func(t *testing.T) { rapid.Check(t, func(rt *rapid.T) { watchGuarantees(t, rt, false) }) })
	t.Run("transformed", func(t *testing.T) { rapid.Check(t, func(rt *rapid.T) { watchGuarantees(t, rt, true) }) })
}

func watchGuarantees(t *testing.T, rt *rapid.T, transform bool) {
	ws := New(Options{})
	var s *objects
	if transform {
		s = pods(t, ws, prefixTransformer())
	} else {
		s = pods(t, ws, nil)
	}
	seed := rapid.Uint64().Draw(rt, "seed")
	writers := rapid.IntRange(1, 4).Draw(rt, "writers")
	writes := rapid.IntRange(1, 60).Draw(rt, "writes")
	compactions := rapid.IntRange(0, 5).Draw(rt, "compactions")
	watched := rapid.SliceOfN(rapid.IntRange(0, len(scopes)-1), 1, 5).Draw(rt, "scopes")

	h := &history{}
	end := make(chan int64, 1) // the last revision, when the writers are done
	sessions := make([][]*session, len(watched))
	var readers, writing sync.WaitGroup
	last := newGate()
	for i, n := range watched {
		readers.Go(func() {
			r := rand.New(rand.NewPCG(seed, uint64(100+i)))
			sessions[i] = follow(rt, s, scopes[n], r, last)
		})
	}
	for i := range writers {
		writing.Go(func() { write(rt, s, h, rand.New(rand.NewPCG(seed, uint64(i))), writes) })
	}
	writing.Go(func() {
		r := rand.New(rand.NewPCG(seed, 99))
		for range compactions {
			w := ws.World("")
			_ = w.Compact(w.Revision() - int64(r.IntN(20)))
		}
	})
	writing.Wait()
	end <- ws.World("").Revision()
	last.open(<-end)
	ws.World("").requestProgress()
	readers.Wait()

	sort.Slice(h.facts, func(i, j int) bool { return h.facts[i].rev < h.facts[j].rev })
	for i, f := range h.facts {
		if i > 0 && h.facts[i-1].rev == f.rev {
			rt.Fatalf("two writes made revision %d", f.rev)
		}
	}
	for i, n := range watched {
		for _, session := range sessions[i] {
			checkSession(rt, scopes[n], h.facts, session)
		}
		if all := sessions[i]; !all[len(all)-1].drained {
			rt.Fatalf("%s: the last session was not read to its end", scopes[n].name)
		}
	}
}

// gate publishes the last revision, once it is known.
type gate struct {
	rev  int64
	done chan struct{}
}

func newGate() *gate { return &gate{done: make(chan struct{})} }

func (g *gate) open(rev int64) {
	g.rev = rev
	close(g.done)
}

// passed reports whether rev is the last one.
func (g *gate) passed(rev int64) bool {
	select {
	case <-g.done:
		return rev >= g.rev
	default:
		return false
	}
}

// write makes random writes and records their answers.
func write(rt *rapid.T, s *objects, h *history, r *rand.Rand, n int) {
	ctx := context.Background()
	for range n {
		p := pod(fmt.Sprintf("ns%d", r.IntN(2)), fmt.Sprintf("p%d", r.IntN(3)))
		key, out := podKey(p), &example.Pod{}
		if r.IntN(4) == 0 {
			err := s.Delete(ctx, key, out, nil, storage.ValidateAllObjectFunc, nil, storage.DeleteOptions{})
			if storage.IsNotFound(err) {
				continue
			}
			if err != nil {
				rt.Errorf("delete: %v", err)
				return
			}
			h.add(fact{rev: mustRev(out), key: key})
			continue
		}
		color, serial := []string{"red", "green"}[r.IntN(2)], strconv.FormatUint(r.Uint64(), 36)
		err := s.GuaranteedUpdate(ctx, key, out, true, nil, storage.SimpleUpdate(func(obj runtime.Object) (runtime.Object, error) {
			in := obj.(*example.Pod)
			in.Name, in.Namespace = p.Name, p.Namespace
			in.Labels = map[string]string{"color": color, "serial": serial}
			return in, nil
		}), nil)
		if err != nil {
			rt.Errorf("update: %v", err)
			return
		}
		h.add(fact{rev: mustRev(out), key: key, color: color, serial: serial})
	}
}

func mustRev(obj runtime.Object) int64 {
	rv, err := storage.APIObjectVersioner{}.ObjectResourceVersion(obj)
	if err != nil {
		panic(err)
	}
	return int64(rv)
}

// follow watches a scope until the last revision, in sessions of random length. Each resumes where
// the previous one ended; one whose revision was compacted starts again with the existing objects.
func follow(rt *rapid.T, s *objects, sc scope, r *rand.Rand, last *gate) (all []*session) {
	from := int64(0)
	for {
		session := &session{from: from, initial: from == 0}
		all = append(all, session)
		expired := read(rt, s, sc, session, 1+r.IntN(40), last)
		if session.drained {
			return all
		}
		if n := len(session.received); expired {
			from = 0
		} else if n > 0 {
			from = session.received[n-1].rev
		}
	}
}

// read reads one session of at most n events, or more until the last revision if that is known.
func read(rt *rapid.T, s *objects, sc scope, ses *session, n int, last *gate) (expired bool) {
	w, err := s.Watch(context.Background(), sc.key, sc.options(ses.from))
	if err != nil {
		rt.Errorf("watch: %v", err)
		ses.drained = true
		return false
	}
	defer stop(w)
	if last.passed(ses.from) && ses.from != 0 {
		ses.drained = true
		return false
	}
	whole := !ses.initial // whether all initial objects have been received
	for event := range w.ResultChan() {
		if event.Type == watch.Error {
			return true
		}
		t := receivedOf(event)
		ses.received = append(ses.received, t)
		whole = whole || t.typ == watch.Bookmark
		// A watcher that has received the last revision has received all events. It receives that
		// revision with its event or, if the event is outside of the scope, with the bookmark that
		// follows the last write.
		if whole && last.passed(t.rev) {
			ses.drained = true
			return false
		}
		if n--; n <= 0 && whole {
			return false
		}
	}
	return true
}

func receivedOf(event watch.Event) received {
	p := event.Object.(*example.Pod)
	t := received{typ: event.Type, rev: mustRev(p), color: p.Labels["color"], serial: p.Labels["serial"]}
	if event.Type != watch.Bookmark {
		t.key = podKey(p)
	}
	return t
}

// checkSession compares the events of a session with the history.
func checkSession(rt *rapid.T, sc scope, facts []fact, ses *session) {
	now := map[string]fact{}
	i := 0
	apply := func(upTo int64) {
		for ; i < len(facts) && facts[i].rev <= upTo; i++ {
			now[facts[i].key] = facts[i]
		}
	}
	stream := ses.received
	from := ses.from
	if ses.initial {
		from, stream = checkInitial(rt, sc, facts, stream)
	}
	apply(from)
	reached := from
	for n, got := range stream {
		if got.rev < reached || (got.rev == reached && got.typ != watch.Bookmark) {
			rt.Fatalf("%s from %d: event %d of revision %d after %d: not ordered, or not unique", sc.name, from, n, got.rev, reached)
		}
		reached = got.rev
		var want []received
		for ; i < len(facts) && facts[i].rev <= got.rev; i++ {
			f := facts[i]
			if sc.covers(f.key) {
				if t, ok := sc.expected(now[f.key], f); ok {
					want = append(want, t)
				}
			}
			now[f.key] = f
		}
		if got.typ == watch.Bookmark {
			if len(want) > 0 {
				rt.Fatalf("%s from %d: bookmark %d came before %+v", sc.name, from, got.rev, want)
			}
			continue
		}
		if len(want) != 1 || want[0] != got {
			rt.Fatalf("%s from %d: received %+v, expected %+v", sc.name, from, got, want)
		}
	}
}

// checkInitial checks that a session began with exactly the objects of one revision, and returns
// that revision and the events after it. Initial objects are sorted by key, and a bookmark of the
// store's revision follows them.
func checkInitial(rt *rapid.T, sc scope, facts []fact, stream []received) (int64, []received) {
	n := slices.IndexFunc(stream, func(t received) bool { return t.typ == watch.Bookmark })
	if n < 0 {
		rt.Fatalf("%s: initial objects without a bookmark: %+v", sc.name, stream)
	}
	rev := stream[n].rev
	now := map[string]fact{}
	for _, f := range facts {
		if f.rev <= rev {
			now[f.key] = f
		}
	}
	var want []received
	for key, f := range now {
		if sc.covers(key) && sc.selects(f.color) {
			want = append(want, received{typ: watch.Added, rev: f.rev, key: key, color: f.color, serial: f.serial})
		}
	}
	sort.Slice(want, func(i, j int) bool { return want[i].key < want[j].key })
	if !slices.Equal(want, stream[:n]) {
		rt.Fatalf("%s: began with %+v, expected %+v", sc.name, stream[:n], want)
	}
	return rev, stream[n+1:]
}
