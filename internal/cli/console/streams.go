package console

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/mattn/go-isatty"
)

// Streams are the three standard streams of a run.
type Streams struct {
	In  io.Reader
	Out io.Writer
	Err io.Writer
}

// StdStreams returns the streams of the process.
func StdStreams() Streams { return Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr} }

// Say writes one line for the user to stderr.
func (s Streams) Say(format string, args ...any) { fmt.Fprintf(s.Err, format+"\n", args...) }

// Colour reports whether stdout shows colours: it is a terminal, and NO_COLOR is not set.
func (c *Console) Colour() bool { return c.Getenv("NO_COLOR") == "" && c.isTerminal(c.Out) }

// isTerminal reports whether a stream is a terminal that can erase a line.
func (c *Console) isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && isatty.IsTerminal(f.Fd()) && c.Getenv("TERM") != "dumb"
}

// Progress is one line on stderr that is overwritten again and again and erased at the end.
// Where stderr is not a terminal, nothing is written, so that no log contains it.
type Progress struct {
	w       io.Writer
	enabled bool
}

// NewProgress returns a progress line on stderr.
func (c *Console) NewProgress() *Progress { return &Progress{w: c.Err, enabled: c.isTerminal(c.Err)} }

// Enabled reports whether the line is shown.
func (p *Progress) Enabled() bool { return p.enabled }

// Disable turns the line off.
func (p *Progress) Disable() { p.enabled = false }

// Show replaces the line.
func (p *Progress) Show(format string, args ...any) {
	if p.enabled {
		fmt.Fprintf(p.w, "\r"+format+"\x1b[K", args...)
	}
}

// Clear erases the line.
func (p *Progress) Clear() {
	if p.enabled {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}

// Remaining estimates from the time until now when all of total is done, as ", about 10s left"; empty if too little is known.
func Remaining(elapsed time.Duration, done, total int) string {
	if elapsed < time.Second || done == 0 {
		return ""
	}
	left := elapsed * time.Duration(total-done) / time.Duration(done)
	return fmt.Sprintf(", about %s left", left.Round(time.Second))
}

// Count is a number with its noun: "no errors", "1 error", "2 errors".
func Count(n int, noun string) string {
	switch n {
	case 0:
		return "no " + noun + "s"
	case 1:
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
