package store

import (
	"sort"
	"sync/atomic"
)

// changeOverhead is the memory in bytes that a change takes in addition to its old value: the
// change itself, its entries in the log and in its key's chain, the version.
const changeOverhead = 256

// decodedFactor is the memory that a byte of an old value takes: the byte, and its share of the
// decoded object that the version keeps for its readers (a pod of 2.2 KB takes 6 to 9 KB once
// decoded). Without this factor a busy cluster kept 330 MB of history for a budget of 64 MB.
const decodedFactor = 4

// change is one write as it is delivered to watchers. Watchers also receive other notices, which
// never enter the log.
type change struct {
	kind changeKind
	key  string
	rev  int64
	cur  *version // the value of the key now; dead after a delete
	prev *version // the value before; nil if the key did not exist
	at   int64    // when, in nanoseconds since 1970, by the world's clock
	err  error    // of a failure

	gone atomic.Pointer[decoded] // prev's object with the revision of the change
}

type changeKind uint8

const (
	written    changeKind = iota // a write, a delete or an expiry
	found                        // an object that existed when the watch began
	progressed                   // everything up to rev has been delivered
	initialEnd                   // like progressed, and it ends the initial objects
	failed                       // the watch ends with err
)

// cost is the memory in bytes that the history uses for the change.
func (c *change) cost() int64 {
	n := int64(changeOverhead + len(c.key))
	if c.prev != nil {
		n += decodedFactor * int64(len(c.prev.value))
	}
	return n
}

// changeLog contains the writes since the last compaction, oldest first.
type changeLog struct {
	changes []*change
	bytes   int64 // the sum of their costs
}

func (l *changeLog) add(c *change) {
	l.changes = append(l.changes, c)
	l.bytes += c.cost()
}

// oldest returns the oldest change in the log, or nil.
func (l *changeLog) oldest() *change {
	if len(l.changes) == 0 {
		return nil
	}
	return l.changes[0]
}

// forget drops the oldest change. The array of the slice is replaced by the next append that needs
// room, which copies only the changes that are left.
func (l *changeLog) forget() {
	l.bytes -= l.changes[0].cost()
	l.changes[0] = nil
	l.changes = l.changes[1:]
}

// since returns the changes after rev. The slice is shared: read it under the
// world's lock.
func (l *changeLog) since(rev int64) []*change {
	i := sort.Search(len(l.changes), func(i int) bool { return l.changes[i].rev > rev })
	return l.changes[i:]
}
