package store

import "sync"

// mostCounts is how many lists can be read in pages at once before their next pages have to count again.
const mostCounts = 64

// rest is the part of a list that follows a page: the keys in [from, end) at a revision. It never changes.
type rest struct {
	from, end string
	rev       int64
}

// counts remembers how many keys follow a page, so that the next page need not walk them to report how many remain. Otherwise
// reading n objects in pages takes time in proportion to n², with the world locked against writes meanwhile.
type counts struct {
	mu sync.Mutex
	of map[rest]int64
}

// take returns and forgets a count: the page that uses it remembers another one. If a client reads a page twice, the second read counts.
func (c *counts) take(r rest) (count int64, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	count, ok = c.of[r]
	delete(c.of, r)
	return count, ok
}

// put forgets all others if there are too many. They belong to lists whose clients have stopped reading, or will count once more.
func (c *counts) put(r rest, count int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of == nil || len(c.of) >= mostCounts {
		c.of = map[rest]int64{}
	}
	c.of[r] = count
}
