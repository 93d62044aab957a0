package jobs

import "slices"

// slowTurns: while both lanes have keys, one of slowTurns keys comes from the slow lane.
const slowTurns = 64

// lanes is the order of the queue: Jobs with finished pods that are not counted yet, or whose end is decided,
// go before other Jobs. So when many Jobs are created at once, each finished Job becomes Complete at once and
// frees its resources; and neither lane starves. It implements workqueue.Queue, whose lock guards it.
type lanes struct {
	urgent func(key) bool

	fast, slow fifo
	inFast     map[key]bool // for each queued key, whether it is in the fast lane
	fastTurns  int
	turns      int // slowTurns
}

func newLanes(urgent func(key) bool) *lanes {
	return &lanes{urgent: urgent, inFast: map[key]bool{}, turns: slowTurns}
}

// Push implements workqueue.Queue.
func (l *lanes) Push(k key) {
	l.inFast[k] = l.urgent(k)
	l.lane(l.inFast[k]).push(k)
}

// Touch implements workqueue.Queue: a key that is queued may have become urgent.
func (l *lanes) Touch(k key) {
	if fast, queued := l.inFast[k]; queued && !fast && l.urgent(k) {
		l.inFast[k] = true
		l.fast.push(k) // Pop skips its entry in the slow lane
	}
}

// Len implements workqueue.Queue.
func (l *lanes) Len() int { return len(l.inFast) }

// Pop implements workqueue.Queue.
func (l *lanes) Pop() key {
	fromFast := l.fastTurns < l.turns-1
	for {
		k, ok := l.lane(fromFast).pop()
		if !ok {
			fromFast = !fromFast // Pop is called only if a lane has a key
			continue
		}
		if inFast, queued := l.inFast[k]; !queued || inFast != fromFast {
			continue // it was taken from the other lane
		}
		delete(l.inFast, k)
		l.fastTurns++
		if !fromFast {
			l.fastTurns = 0
		}
		return k
	}
}

func (l *lanes) lane(fast bool) *fifo {
	if fast {
		return &l.fast
	}
	return &l.slow
}

// fifo is a queue in two slices, which are freed when they are empty.
type fifo struct{ in, out []key }

func (f *fifo) push(k key) { f.in = append(f.in, k) }

func (f *fifo) pop() (k key, ok bool) {
	if len(f.out) == 0 {
		slices.Reverse(f.in)
		f.in, f.out = nil, f.in
	}
	last := len(f.out) - 1
	if last < 0 {
		return key{}, false
	}
	k = f.out[last]
	f.out[last] = key{}
	f.out = f.out[:last]
	return k, true
}
