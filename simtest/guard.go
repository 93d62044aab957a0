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

// guard checks, in real time and outside all bubbles, that a run makes progress. A run does not if
// a goroutine of its bubble neither returns nor blocks on something of the bubble: it computes
// forever, or it waits for a mutex, a socket, or a channel that was created outside.
type guard struct {
	progress atomic.Int64

	mu    sync.Mutex
	timer *time.Timer
	limit time.Duration
}

// begin starts the guard. The channel receives the stacks of the running goroutines.
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
		stuck <- runningStacks()
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

// reportProgress restarts the guard's timeout.
func (s *server) reportProgress() { s.guard.progress.Add(1) }

var goroutineHeader = regexp.MustCompile(`^goroutine \d+ \[([^\]]*)\]`)

// goroutines returns the stacks of the goroutines for whose state, such as "select (durable),
// synctest bubble 7", choose returns true.
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

// newestBubble selects the goroutines of the bubble that was started last. Bubbles of earlier stuck
// runs may still have goroutines.
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

// runningStacks returns the stacks of the goroutines of the bubble that are not blocked in it.
func runningStacks() string {
	own := newestBubble()
	stacks := goroutines(func(state string) bool {
		return own(state) && !strings.Contains(state, "durable") && !strings.Contains(state, "synctest.Wait") && !strings.Contains(state, "synctest.Run")
	})
	return shorten(stacks)
}

// leaked returns the stacks of the goroutines that have not returned after the run.
func leaked() string { return shorten(goroutines(newestBubble())) }

// shorten returns the first lines of the first stacks.
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

// frozen copies a record that goroutines of a stuck run may still append to.
func frozen(r *history.Run) *history.Run {
	c := *r
	c.Steps = append([]history.Step(nil), r.Steps...)
	return &c
}

// stuckOracle names the rule that every goroutine of a run makes progress.
const stuckOracle = "every goroutine makes progress"

func stuckFailure(r *history.Run, stacks string) *history.Failure {
	return &history.Failure{
		Oracle:  stuckOracle,
		Message: fmt.Sprintf("for %s a goroutine has neither returned nor waited for anything in virtual time; it computes forever, or waits for a mutex, a socket, the real clock or a channel created outside the run:\n%s", *flagStuck, stacks),
		Step:    max(len(r.Steps)-1, 0),
	}
}
