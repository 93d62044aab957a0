package simtest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"testing"

	"github.com/rehearse-k8s/rehearse/internal/sim"
)

// workerVariable is the environment variable that makes this process a worker process of another one (processes.go). Its value is the key
// of the search whose plans it plays.
const workerVariable = "REHEARSE_SIMTEST_WORKER"

// worker is what a worker process knows of its parent; nil in any other process.
var worker = connectToParent()

// parent is the connection of a worker process to its parent.
type parent struct {
	search string    // the key of the search
	plans  io.Reader // what the parent sends
	out    io.Writer // what it receives

	mu    sync.Mutex
	ended bool // the parent has ended the connection in good order
}

// connectToParent returns the connection to the parent if this process is a worker process. The connection uses stdin and stdout, so it
// replaces them before a test can use them: what tests print goes to stderr.
func connectToParent() *parent {
	search := os.Getenv(workerVariable)
	if search == "" {
		return nil
	}
	_ = os.Unsetenv(workerVariable) // a test may start processes
	in, out := os.Stdin, os.Stdout
	os.Stdout = os.Stderr
	os.Stdin, _ = os.Open(os.DevNull)
	plans := newInbox()
	p := &parent{search: search, plans: plans, out: out}
	go func() {
		_, _ = io.Copy(plans, in) // an error is an end, too
		plans.close()
		p.mu.Lock()
		defer p.mu.Unlock()
		if !p.ended {
			os.Exit(exitOrphaned)
		}
	}()
	return p
}

// inbox holds what the parent has sent until it is read. A write never waits for a reader: a plan that waits for the end of a run
// must not hide that the parent has terminated.
type inbox struct {
	mu     sync.Mutex
	change *sync.Cond
	data   bytes.Buffer
	closed bool
}

func newInbox() *inbox {
	b := &inbox{}
	b.change = sync.NewCond(&b.mu)
	return b
}

// Write implements io.Writer.
func (b *inbox) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.change.Broadcast()
	return b.data.Write(p)
}

// Read implements io.Reader. It waits for data.
func (b *inbox) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.data.Len() == 0 && !b.closed {
		b.change.Wait()
	}
	return b.data.Read(p)
}

// close ends the data.
func (b *inbox) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	b.change.Broadcast()
}

// exitOrphaned is the exit code of a worker process whose parent has terminated.
const exitOrphaned = 3

// serve plays the plans of the parent until that needs no more, and then ends the test.
func (p *parent) serve(t testing.TB, world sim.World) {
	t.Helper()
	err := sim.Serve(context.Background(), world, p.plans, p.out, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.ended = true
	})
	if err != nil {
		t.Fatalf("simtest: play the runs of another process: %v", err)
	}
	t.SkipNow() // the rest of the test function is the parent's
}

// searches counts the searches of each test, by name, so that a worker process finds the one of its parent.
var searches struct {
	sync.Mutex
	of map[string]int
}

// searchKey returns the key of the next search of a test: its name, and how many searches it has started before.
func searchKey(t testing.TB) string {
	searches.Lock()
	defer searches.Unlock()
	name := t.Name()
	if searches.of == nil {
		searches.of = map[string]int{}
	}
	n, known := searches.of[name]
	if !known {
		t.Cleanup(func() { // -test.count runs the test again
			searches.Lock()
			defer searches.Unlock()
			delete(searches.of, name)
		})
	}
	searches.of[name] = n + 1
	return fmt.Sprintf("%s %d", name, n)
}
