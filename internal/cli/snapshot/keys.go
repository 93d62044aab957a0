package snapshot

import (
	"bytes"
	"context"
	"io"
	"os"
	"sync"

	"golang.org/x/term"

	"github.com/rehearse-k8s/rehearse/internal/cli/console"
	"github.com/rehearse-k8s/rehearse/internal/snapshot"
)

// keys reads the commands of the user from standard input.
type keys struct {
	interrupt func() // on the first Ctrl-C, which is no signal while the terminal delivers single keys
	exit      func() // on the second one
	commands  chan snapshot.Control
	raw       bool // single keys, of a terminal

	mu    sync.Mutex
	reset func()
}

// console returns a console that exits with the mode that the terminal had.
func (k *keys) console(c *console.Console) *console.Console {
	out := *c
	out.Exit = func(code int) {
		k.restore()
		c.Exit(code)
	}
	k.exit = func() { out.Exit(console.ExitInterrupted) }
	return &out
}

// listen reads keys from a terminal, or, with step, lines from any other input. It returns a console that writes complete line ends while the
// terminal delivers single keys. In the background of a shell, the keys of the terminal are those of the shell, and a process that changes its mode is
// stopped.
func (k *keys) listen(ctx context.Context, c *console.Console, step bool) (*console.Console, error) {
	f, isFile := c.In.(*os.File)
	k.raw = isFile && term.IsTerminal(int(f.Fd())) && inForeground(int(f.Fd()))
	if !k.raw && !step {
		return c, nil
	}
	k.commands = make(chan snapshot.Control, 16)
	if k.raw {
		state, err := term.MakeRaw(int(f.Fd()))
		if err != nil {
			return c, err
		}
		k.mu.Lock()
		k.reset = func() { _ = term.Restore(int(f.Fd()), state) }
		k.mu.Unlock()
		raw := *c
		raw.Err = lineEnds{c.Err}
		c = &raw
	}
	go k.read(ctx, c.In)
	return c, nil
}

// controls returns the commands, nil if there are none.
func (k *keys) controls() <-chan snapshot.Control { return k.commands }

// restore resets the mode of the terminal.
func (k *keys) restore() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.reset != nil {
		k.reset()
	}
}

// read sends the commands of the input until it ends, which stops the replay.
func (k *keys) read(ctx context.Context, in io.Reader) {
	b := make([]byte, 1)
	for interrupts := 0; ; {
		n, err := in.Read(b)
		if n == 1 {
			if b[0] == ctrlC && k.raw {
				if interrupts++; interrupts == 1 {
					k.interrupt()
				} else {
					k.exit()
				}
			}
			if c, ok := command(b[0], k.raw); ok {
				select {
				case k.commands <- c:
				default:
					if k.raw {
						break // a key during the restore, after many others
					}
					select {
					case k.commands <- c:
					case <-ctx.Done():
						return
					}
				}
			}
		}
		if err != nil {
			close(k.commands)
			return
		}
	}
}

const ctrlC = 3

// command returns the command of a key. Of an input that is no terminal, only the end of a line is one.
func command(key byte, raw bool) (snapshot.Control, bool) {
	switch {
	case key == '\n' || key == '\r':
		return snapshot.Next, true
	case !raw:
		return 0, false
	}
	switch key {
	case ' ':
		return snapshot.Pause, true
	case 'n':
		return snapshot.Next, true
	case '+', '=':
		return snapshot.Faster, true
	case '-':
		return snapshot.Slower, true
	case 'q':
		return snapshot.Stop, true
	}
	return 0, false
}

// lineEnds writes to a terminal in raw mode, which does not return to the first column at the end of a line.
type lineEnds struct{ w io.Writer }

// Write implements io.Writer.
func (l lineEnds) Write(b []byte) (int, error) {
	if _, err := l.w.Write(bytes.ReplaceAll(b, []byte("\n"), []byte("\r\n"))); err != nil {
		return 0, err
	}
	return len(b), nil
}
