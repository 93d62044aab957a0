package simtest

import (
	"bytes"
	"fmt"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rehearse-k8s/rehearse/history"
)

// guard watches, by the machine's clock and outside of all bubbles, that a run goes
// on. A run does not when a goroutine of its bubble neither ends nor blocks on
// something of the bubble: it computes for ever, or waits for a mutex, a socket, or a
// channel that was made outside.
type guard struct {
	progress atomic.Int64

	mu    sync.Mutex
	timer *time.Timer
	limit time.Duration
}

// begin starts the watch. The channel receives the stacks of the culprits.
func (g *guard) begin() <-chan string {
	stuck := make(chan string, 1)
	seen := g.progress.Load()
	g.mu.Lock()
	defer g.mu.Unlock()
	check := func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.timer == nil {
			return
		}
		if now := g.progress.Load(); now != seen {
			seen = now
			g.timer.Reset(g.limit)
			return
		}
		stuck <- culprits()
	}
	g.limit = *flagStuck
	g.timer = time.AfterFunc(g.limit, check)
	return stuck
}

func (g *guard) end() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.timer.Stop()
	g.timer = nil
}

// alive tells the guard that the run goes on.
func (s *server) alive() { s.guard.progress.Add(1) }

var goroutineHeader = regexp.MustCompile(`^goroutine \d+ \[([^\]]*)\]`)

// goroutines returns the stacks of goroutines whose state, as in "select (durable),
// synctest bubble 7", is chosen.
func goroutines(choose func(state string) bool) (stacks []string) {
	buf := make([]byte, 1<<20)
	for {
		n := runtime.Stack(buf, true)
		if n < len(buf) {
			buf = buf[:n]
			break
		}
		buf = make([]byte, 2*len(buf))
	}
	for _, stack := range bytes.Split(buf, []byte("\n\n")) {
		if m := goroutineHeader.FindSubmatch(stack); m != nil && choose(string(m[1])) {
			stacks = append(stacks, string(stack))
		}
	}
	return stacks
}

var bubbleNumber = regexp.MustCompile(`synctest bubble (\d+)`)

// newestBubble chooses the goroutines of the bubble that began last: others may live
// on in bubbles that never ended.
func newestBubble() func(state string) bool {
	number := func(state string) int {
		if m := bubbleNumber.FindStringSubmatch(state); m != nil {
			n, _ := strconv.Atoi(m[1])
			return n
		}
		return 0
	}
	newest := 1
	goroutines(func(state string) bool {
		newest = max(newest, number(state))
		return false
	})
	return func(state string) bool { return number(state) == newest }
}

// culprits are the stacks of the goroutines that keep a bubble from coming to rest.
func culprits() string {
	own := newestBubble()
	stacks := goroutines(func(state string) bool {
		return own(state) && !strings.Contains(state, "durable") && !strings.Contains(state, "synctest.Wait") && !strings.Contains(state, "synctest.Run")
	})
	return shorten(stacks)
}

// leaked are the stacks of goroutines that live on in a bubble whose run is over.
func leaked() string { return shorten(goroutines(newestBubble())) }

// shorten keeps a few stacks, and of each what a reader needs.
func shorten(stacks []string) string {
	const most, lines = 4, 24
	var b strings.Builder
	for n, stack := range stacks {
		if n == most {
			fmt.Fprintf(&b, "and %d more\n", len(stacks)-most)
			break
		}
		all := strings.Split(stack, "\n")
		if len(all) > lines {
			all = append(all[:lines], "\t…")
		}
		b.WriteString(strings.Join(all, "\n"))
		b.WriteString("\n\n")
	}
	return b.String()
}

// frozen is a copy of a record that somebody may still be writing: what had been
// recorded for certain.
func frozen(r *history.Run) *history.Run {
	c := *r
	c.Steps = append([]history.Step(nil), r.Steps...)
	return &c
}

func stuckFailure(r *history.Run, stacks string) *history.Failure {
	return &history.Failure{
		Oracle:  "everything comes to rest",
		Message: fmt.Sprintf("for %s a goroutine has neither ended nor waited for anything in virtual time; it computes for ever, or waits for a mutex, a socket, the real clock or a channel made outside the run:\n%s", *flagStuck, stacks),
		Step:    max(len(r.Steps)-1, 0),
	}
}
