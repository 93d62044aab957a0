package cluster

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/rehearse-k8s/rehearse/internal/cli/console"
)

// openReader returns a log with one line, and a reader of it whose output is lines.
func openReader(t *testing.T) (*logFile, *logReader, *bufio.Reader) {
	t.Helper()
	log, err := createLog(filepath.Join(t.TempDir(), "rehearse.log"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = log.Close() })
	in, out := io.Pipe()
	l := &logReader{path: log.Name(), out: out}
	if l.file, err = os.Open(log.Name()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.file.Close(); _ = in.Close() })
	return log, l, bufio.NewReader(in)
}

// TestLogsFollow: a reader that follows prints each line once, also if the log is rotated before it has read the last lines, and
// returns when the cluster has stopped.
func TestLogsFollow(t *testing.T) {
	log, l, lines := openReader(t)
	write := func(text string) {
		if _, err := log.Write([]byte(text)); err != nil {
			t.Error(err)
		}
	}
	var stopping atomic.Bool
	live := func() bool {
		if stopping.Load() {
			write("last\n") // the cluster writes this and stops while the reader looks whether it runs
			return false
		}
		return true
	}
	result := make(chan error, 1)
	go func() {
		result <- l.follow(t.Context(), live)
		_ = l.out.(io.Closer).Close() // a line that is missing fails the test instead of blocking it
	}()
	expect := func(want string) {
		t.Helper()
		if got, err := lines.ReadString('\n'); err != nil || got != want {
			t.Fatalf("line %q, %v, want %q", got, err, want)
		}
	}
	write("one\n")
	expect("one\n")
	// The reader of the pipe reads nothing while two lines are added and the log is rotated, so the follower is behind.
	write("two\nthree\n")
	log.rotate()
	write("4\n")
	expect("two\n")
	expect("three\n")
	expect("4\n")
	stopping.Store(true)
	expect("last\n")
	if err := <-result; err != nil {
		t.Error(err)
	}
}

// TestLogsInterrupted: Ctrl-C ends a reader that follows.
func TestLogsInterrupted(t *testing.T) {
	_, l, _ := openReader(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.follow(ctx, func() bool { return true }); !errors.Is(err, console.ErrInterrupted) {
		t.Error(err)
	}
}

func TestPrintLast(t *testing.T) {
	const text = "1\n2\n3\n4\n5"
	for n, want := range map[int]string{0: "", 1: "5", 2: "4\n5", 5: text, 9: text} {
		var out strings.Builder
		if err := printLast(&out, strings.NewReader(text), n); err != nil || out.String() != want {
			t.Errorf("%d lines: %q, %v, want %q", n, out.String(), err, want)
		}
	}
	var long, out strings.Builder
	for i := range 3000 {
		fmt.Fprintln(&long, i)
	}
	if err := printLast(&out, strings.NewReader(long.String()), 2000); err != nil || !strings.HasPrefix(out.String(), "1000\n") || !strings.HasSuffix(out.String(), "\n2999\n") {
		t.Errorf("%d bytes, %v", out.Len(), err)
	}
}
