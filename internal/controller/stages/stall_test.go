package stages

import (
	"container/heap"
	"slices"
	"testing"
	"time"
)

// queue contains the methods of both agendas.
type queue interface {
	set(key string, due time.Time)
	pop(now time.Time) (key string, due time.Time, ok bool)
}

// naiveAgenda keeps an index of each key's position, and pushes a key that it already contains a second time,
// as KWOK's heap does. It removes a dispatched key from the position in the index, which may be that of the
// other entry.
type naiveAgenda struct {
	items naiveHeap
	index map[string]*naiveItem
}

type naiveItem struct {
	key string
	due time.Time
	at  int
}

func (a *naiveAgenda) set(key string, due time.Time) {
	item := &naiveItem{key: key, due: due}
	heap.Push(&a.items, item)
	a.index[key] = item
}

func (a *naiveAgenda) pop(now time.Time) (string, time.Time, bool) {
	if len(a.items) == 0 || a.items[0].due.After(now) {
		return "", time.Time{}, false
	}
	first := a.items[0]
	if item := a.index[first.key]; item != nil {
		heap.Remove(&a.items, item.at)
		delete(a.index, first.key)
	}
	return first.key, first.due, true
}

type naiveHeap []*naiveItem

func (h naiveHeap) Len() int           { return len(h) }
func (h naiveHeap) Less(i, j int) bool { return h[i].due.Before(h[j].due) }
func (h naiveHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].at, h[j].at = i, j
}
func (h *naiveHeap) Push(x any) {
	item := x.(*naiveItem)
	item.at = len(*h)
	*h = append(*h, item)
}
func (h *naiveHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

// TestDuplicateKeyStarvesOthers checks a node n1 that is deleted and created again while its lease is being
// renewed, so that its key is set twice; node n2 must still be dispatched. In the naive queue n1's first entry
// stays at the top forever: n1 is renewed in a hot loop and no other node is (as KWOK's leases, where all
// nodes become NotReady).
func TestDuplicateKeyStarvesOthers(t *testing.T) {
	for name, c := range map[string]struct {
		queue  queue
		stalls bool
	}{
		"naive": {&naiveAgenda{index: map[string]*naiveItem{}}, true},
		"ours":  {newAgenda[string](), false},
	} {
		c.queue.set("n1", start)
		c.queue.set("n2", start.Add(2*time.Second))
		c.queue.set("n1", start.Add(time.Second))
		var turns []string
		for range 50 {
			key, _, ok := c.queue.pop(start.Add(5 * time.Second))
			if !ok {
				break
			}
			turns = append(turns, key)
		}
		if stalled := !slices.Contains(turns, "n2"); stalled != c.stalls {
			t.Errorf("%s: dispatched %v", name, turns)
		}
	}
}
