package cli

import (
	"fmt"
	"io"
	"os"

	"github.com/mattn/go-isatty"
)

// Streams are the three standard streams of a run.
type Streams struct {
	In  io.Reader
	Out io.Writer
	Err io.Writer
}

// StdStreams are the process's own.
func StdStreams() Streams { return Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr} }

// divertStderr sends what this process writes to os.Stderr from now on to the log, and returns the stream that the user
// reads. Etcd's client, for one, took its own hold of os.Stderr when it was initialized and says there, in JSON, what we
// say in a line. A panic still reaches the user: the runtime writes to the descriptor.
func divertStderr(log *os.File) *os.File {
	user := *os.Stderr
	*os.Stderr = *log
	return &user
}

// say writes one line for the user to stderr.
func (s Streams) say(format string, args ...any) { fmt.Fprintf(s.Err, format+"\n", args...) }

// terminal tells whether a stream is a terminal that understands how to erase a line.
func terminal(w io.Writer, getenv func(string) string) bool {
	f, ok := w.(*os.File)
	return ok && isatty.IsTerminal(f.Fd()) && getenv("TERM") != "dumb"
}

// progress is one line that is written over and over, and leaves nothing behind.
// Where stderr is not a terminal it is silent: a log does not want it.
type progress struct {
	w  io.Writer
	on bool
}

func (a *app) newProgress() *progress { return &progress{w: a.Err, on: terminal(a.Err, a.getenv)} }

func (p *progress) show(format string, args ...any) {
	if p.on {
		fmt.Fprintf(p.w, "\r"+format+"\x1b[K", args...)
	}
}

func (p *progress) clear() {
	if p.on {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}
