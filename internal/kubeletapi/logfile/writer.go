package logfile

import (
	"errors"
	"io"
	"time"
)

// Options select and format the lines of a log, as the options of `kubectl logs` do.
type Options struct {
	// TailLines is the number of records at the end of the file to start with. nil: all.
	TailLines *int64
	// LimitBytes is the number of bytes after which the log ends, prefixes included. nil: no limit.
	LimitBytes *int64
	// Since omits earlier records. The zero time omits none.
	Since time.Time
	// Timestamps adds the time of a record as a prefix.
	Timestamps bool
	// Stream is Stdout or Stderr to select one stream. Empty: both.
	Stream string
	// Stderr, if set, receives the records of stderr.
	Stderr io.Writer
	// Follow waits for further records until the container has ended.
	Follow bool
}

// errLimit reports that LimitBytes are written.
var errLimit = errors.New("the limit is reached")

// prefixLayout is RFC 3339 with nine fraction digits, as kubelets write it.
const prefixLayout = "2006-01-02T15:04:05.000000000Z07:00"

// writer writes the selected records.
type writer struct {
	to        io.Writer
	options   Options
	remaining int64           // of LimitBytes
	open      map[string]bool // streams whose last record was a part of a line
	buffer    []byte
}

func newWriter(to io.Writer, o Options) *writer {
	w := &writer{to: to, options: o, open: map[string]bool{}}
	if o.LimitBytes != nil {
		w.remaining = *o.LimitBytes
	}
	return w
}

// WriteLine writes one record to w, if the options select it.
func WriteLine(w io.Writer, o Options, l Line) error {
	if o.TailLines != nil && *o.TailLines == 0 {
		return nil
	}
	if err := newWriter(w, o).write(l); !errors.Is(err, errLimit) {
		return err
	}
	return nil
}

// write writes a record, without the prefix if it continues a line. It returns errLimit when nothing more may follow.
func (w *writer) write(l Line) error {
	early := !w.options.Since.IsZero() && l.Time.Before(w.options.Since)
	if early || w.options.Stream != "" && w.options.Stream != l.Stream {
		return nil
	}
	w.buffer = w.buffer[:0]
	if w.options.Timestamps && !w.open[l.Stream] {
		w.buffer = append(l.Time.AppendFormat(w.buffer, prefixLayout), ' ')
	}
	w.buffer = append(w.buffer, l.Text...)
	w.open[l.Stream] = len(l.Text) == 0 || l.Text[len(l.Text)-1] != '\n'
	to := w.to
	if l.Stream == Stderr && w.options.Stderr != nil {
		to = w.options.Stderr
	}
	if w.options.LimitBytes == nil {
		_, err := to.Write(w.buffer)
		return err
	}
	part := w.buffer[:min(int64(len(w.buffer)), w.remaining)]
	if _, err := to.Write(part); err != nil {
		return err
	}
	if w.remaining -= int64(len(part)); w.remaining == 0 {
		return errLimit
	}
	return nil
}
