package console

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/rehearse-k8s/rehearse/cluster"
)

func TestExitCode(t *testing.T) {
	for _, c := range []struct {
		err  error
		want int
	}{
		{nil, 0},
		{errors.New("disk full"), 1},
		{&ExitError{Code: 1}, 1},
		{Usagef("--nodes %d: must not be negative", -1), 2},
		{&cluster.UsageError{Message: "--controllers: unknown"}, 2},
		{&InconclusiveError{Message: "diverged"}, 3},
		{ErrInterrupted, 130},
	} {
		if got := ExitCode(c.err); got != c.want {
			t.Errorf("%v: exit code %d, want %d", c.err, got, c.want)
		}
		if c.err == nil {
			continue
		}
		if got := ExitCode(fmt.Errorf("start: %w", c.err)); got != c.want {
			t.Errorf("wrapped %v: exit code %d, want %d", c.err, got, c.want)
		}
	}
}

// TestReport: an error is one line; a usage error names the help; an error that was printed already is not repeated.
func TestReport(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{errors.Join(errors.New("one"), errors.New(" two\n")), "rehearse: one; two\n"},
		{Usagef("--port 1: in use"), "rehearse: --port 1: in use (see 'rehearse up --help')\n"},
		{&ExitError{Code: 1}, ""},
		{ErrInterrupted, ""},
	} {
		var stderr bytes.Buffer
		New(Streams{Err: &stderr}).Report(c.err, "rehearse up")
		if got := stderr.String(); got != c.want {
			t.Errorf("%v: printed %q, want %q", c.err, got, c.want)
		}
	}
}

func TestParserError(t *testing.T) {
	err := ParserError(errors.New(`invalid argument "x" for "--nodes" flag: strconv.ParseInt: parsing "x": invalid syntax`))
	if got, want := err.Error(), `invalid argument "x" for "--nodes" flag: invalid syntax`; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := ExitCode(err); got != ExitUsage {
		t.Errorf("exit code %d", got)
	}
}

func TestOutput(t *testing.T) {
	out := NewOutput("", "json", "yaml", "wide")
	if err := out.Set("xml"); err == nil || !strings.Contains(err.Error(), "json, yaml, wide") {
		t.Errorf("xml: %v", err)
	}
	for format, want := range map[string]string{"json": "{\n  \"a\": 1\n}\n", "yaml": "a: 1\n"} {
		if err := out.Set(format); err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if err := out.Print(&b, map[string]int{"a": 1}); err != nil || b.String() != want || !out.IsMachineReadable() {
			t.Errorf("%s: %q, %v", format, b.String(), err)
		}
	}
	if err := out.Set("wide"); err != nil || out.IsMachineReadable() {
		t.Errorf("wide: %v", err)
	}
}

func TestRejectEmpty(t *testing.T) {
	for args, want := range map[string]string{"": "", "--name=x --list=a": "", "--name=": "--name is empty", "--list=": "--list is empty"} {
		cmd := &cobra.Command{}
		cmd.Flags().String("name", "default", "")
		cmd.Flags().StringSlice("list", nil, "")
		if err := cmd.ParseFlags(strings.Fields(args)); err != nil {
			t.Fatal(err)
		}
		got := ""
		if err := RejectEmpty(cmd, "name", "list"); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%q: %q, want %q", args, got, want)
		}
	}
}

// TestInterruptible: the first signal cancels the context, the second exits the process.
func TestInterruptible(t *testing.T) {
	signals, exits := make(chan os.Signal), make(chan int, 1)
	c := New(Streams{})
	c.Signals = func() (<-chan os.Signal, func()) { return signals, func() {} }
	c.Exit = func(code int) { exits <- code }
	ctx, stop := c.Interruptible(context.Background())
	defer stop()
	signals <- os.Interrupt
	<-ctx.Done()
	signals <- os.Interrupt
	if code := <-exits; code != ExitInterrupted {
		t.Errorf("exit code %d", code)
	}
}

// TestProgressOffTerminal: nothing is written where stderr is not a terminal.
func TestProgressOffTerminal(t *testing.T) {
	var stderr bytes.Buffer
	p := New(Streams{Err: &stderr}).NewProgress()
	p.Show("%d of %d", 1, 2)
	p.Clear()
	if stderr.Len() > 0 {
		t.Errorf("printed %q", stderr.String())
	}
}

func TestRemaining(t *testing.T) {
	for _, c := range []struct {
		elapsed     time.Duration
		done, total int
		want        string
	}{
		{time.Millisecond, 5, 10, ""}, {time.Minute, 0, 10, ""}, {10 * time.Second, 5, 10, ", about 10s left"}, {time.Minute, 100, 100000, ", about 16h39m0s left"},
	} {
		if got := Remaining(c.elapsed, c.done, c.total); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}
