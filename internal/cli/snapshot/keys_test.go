//go:build unix

package snapshot

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/creack/pty"
	"golang.org/x/term"

	"github.com/rehearse-k8s/rehearse/internal/cli/console"
	"github.com/rehearse-k8s/rehearse/internal/snapshot"
)

// TestKeys: on a terminal, single keys are commands without Enter, Ctrl-C interrupts, a second one exits, and the mode of the terminal is reset.
func TestKeys(t *testing.T) {
	terminal, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer terminal.Close()
	defer tty.Close()
	before, err := term.GetState(int(tty.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	var out bytes.Buffer
	exited := make(chan struct{})
	k := &keys{interrupt: interrupt, exit: func() { close(exited) }}
	c, err := k.listen(ctx, &console.Console{Streams: console.Streams{In: tty, Err: &out}}, false)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := terminal.WriteString(" nx+=-q\x03"); err != nil {
		t.Fatal(err)
	}
	for _, want := range []snapshot.Control{snapshot.Pause, snapshot.Next, snapshot.Faster, snapshot.Faster, snapshot.Slower, snapshot.Stop} {
		if got := <-k.controls(); got != want {
			t.Errorf("command %d, want %d", got, want)
		}
	}
	<-ctx.Done()
	if _, err := terminal.WriteString("\x03"); err != nil {
		t.Fatal(err)
	}
	<-exited
	if c.Say("a"); out.String() != "a\r\n" {
		t.Errorf("%q", &out)
	}
	k.restore()
	if after, err := term.GetState(int(tty.Fd())); err != nil || *after != *before {
		t.Errorf("%v: the mode of the terminal was not reset", err)
	}
}

// TestEnter: of an input that is no terminal, each line is a step, with step alone.
func TestEnter(t *testing.T) {
	for _, step := range []bool{false, true} {
		k := &keys{}
		_, err := k.listen(t.Context(), &console.Console{Streams: console.Streams{In: strings.NewReader("q\n \n")}}, step)
		if err != nil || (k.controls() != nil) != step {
			t.Fatalf("step %v: %v", step, err)
		}
		if !step {
			continue
		}
		var got []snapshot.Control
		for c := range k.controls() {
			got = append(got, c)
		}
		if len(got) != 2 || got[0] != snapshot.Next || got[1] != snapshot.Next {
			t.Error(got)
		}
	}
}
