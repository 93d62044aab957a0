package stages

import (
	"container/heap"
	"time"
)

// agenda is a queue of keys ordered by due time. It contains a key at most once: setting a key again moves it,
// so that no stale entry is ever due. It is not safe for concurrent use; its owner holds the lock.
type agenda[K comparable] struct {
	items agendaHeap[K]
	seq   uint64
}

type agendaItem[K comparable] struct {
	key   K
	due   time.Time
	seq   uint64 // of equal due times, the key that was set earlier is first
	index int    // position in the heap
}

func newAgenda[K comparable]() *agenda[K] {
	return &agenda[K]{items: agendaHeap[K]{of: map[K]*agendaItem[K]{}}}
}

// set makes key due at due, and moves it if it is in the agenda already.
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

// remove removes key; it need not be in the agenda.
func (a *agenda[K]) remove(key K) {
	if item := a.items.of[key]; item != nil {
		heap.Remove(&a.items, item.index)
	}
}

// pop removes and returns the key that is due first, if it is due at now. Otherwise due is when the first key
// is due, zero if the agenda is empty.
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

// first returns when the next key is due, zero if the agenda is empty.
func (a *agenda[K]) first() time.Time {
	if len(a.items.list) == 0 {
		return time.Time{}
	}
	return a.items.list[0].due
}

func (a *agenda[K]) len() int { return len(a.items.list) }

// agendaHeap implements heap.Interface. Each item contains its position, so that a move needs no lookup.
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
