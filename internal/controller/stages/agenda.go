package stages

import (
	"container/heap"
	"time"
)

// agenda says what is due when. A key stands in it at most once: setting it
// again moves it, so no stale entry can ever come up. It is not safe for
// concurrent use; its owner holds the lock.
type agenda[K comparable] struct {
	items agendaHeap[K]
	seq   uint64
}

type agendaItem[K comparable] struct {
	key   K
	due   time.Time
	seq   uint64 // earlier set goes first among equals
	index int    // where it stands in the heap
}

func newAgenda[K comparable]() *agenda[K] {
	return &agenda[K]{items: agendaHeap[K]{of: map[K]*agendaItem[K]{}}}
}

// set makes key due at due, wherever it stood before.
func (a *agenda[K]) set(key K, due time.Time) {
	if item := a.items.of[key]; item != nil {
		if !item.due.Equal(due) {
			item.due = due
			heap.Fix(&a.items, item.index)
		}
		return
	}
	a.seq++
	heap.Push(&a.items, &agendaItem[K]{key: key, due: due, seq: a.seq})
}

// remove takes key out; it need not be in.
func (a *agenda[K]) remove(key K) {
	if item := a.items.of[key]; item != nil {
		heap.Remove(&a.items, item.index)
	}
}

// pop takes out the key that is due first, if it is due at now. Otherwise next
// is when the first one will be, and zero if the agenda is empty.
func (a *agenda[K]) pop(now time.Time) (key K, due time.Time, ok bool) {
	if len(a.items.list) == 0 {
		return key, time.Time{}, false
	}
	first := a.items.list[0]
	if first.due.After(now) {
		return key, first.due, false
	}
	heap.Pop(&a.items)
	return first.key, first.due, true
}

// first is when the next key is due; zero if the agenda is empty.
func (a *agenda[K]) first() time.Time {
	if len(a.items.list) == 0 {
		return time.Time{}
	}
	return a.items.list[0].due
}

func (a *agenda[K]) len() int { return len(a.items.list) }

// agendaHeap implements heap.Interface. Each item knows where it stands, so that
// moving one looks up no key.
type agendaHeap[K comparable] struct {
	list []*agendaItem[K]
	of   map[K]*agendaItem[K]
}

func (h *agendaHeap[K]) Len() int { return len(h.list) }

func (h *agendaHeap[K]) Less(i, j int) bool {
	a, b := h.list[i], h.list[j]
	if !a.due.Equal(b.due) {
		return a.due.Before(b.due)
	}
	return a.seq < b.seq
}

func (h *agendaHeap[K]) Swap(i, j int) {
	h.list[i], h.list[j] = h.list[j], h.list[i]
	h.list[i].index, h.list[j].index = i, j
}

func (h *agendaHeap[K]) Push(x any) {
	item := x.(*agendaItem[K])
	item.index = len(h.list)
	h.of[item.key] = item
	h.list = append(h.list, item)
}

func (h *agendaHeap[K]) Pop() any {
	last := h.list[len(h.list)-1]
	h.list[len(h.list)-1] = nil
	h.list = h.list[:len(h.list)-1]
	delete(h.of, last.key)
	return last
}
