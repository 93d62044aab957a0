package logfile

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// longestRecord limits the bytes of a record that are kept in memory. CRI runtimes split lines at 16 KiB. The rest of a longer record is skipped.
const longestRecord = 1 << 20

// recheck is how often a reader that follows a file looks at it without a notification: some file systems send none.
const recheck = time.Second

// Output receives a log.
type Output interface {
	io.Writer
	// Flush sends what was written to the client. A reader that follows a file calls it before each wait.
	Flush()
}

// Source is a log file to follow.
type Source struct {
	// Path of the file. A symbolic link is followed to its current target.
	Path string
	// Ended is closed when the container has ended. A reader that follows the file then reads it to its end and returns.
	Ended <-chan struct{}
	// Watcher notifies the reader of changes. nil: the reader looks once per second.
	Watcher *Watcher
}

// Copy writes the selected lines of a file to out. The first record that it reads decides the format of the file; it skips later records
// that do not have this format. With Options.Follow it returns when the container has ended, when the limit is reached, or with the error
// of ctx. It continues with a new file of the same name (rotation), and at the start of a file that became shorter (truncation).
func Copy(ctx context.Context, s Source, o Options, out Output) error {
	r := &reader{source: s, out: newWriter(out, o)}
	if err := r.open(); err != nil {
		return err
	}
	defer func() { _ = r.file.Close() }() // a later file may have replaced the first one
	if o.LimitBytes != nil && *o.LimitBytes <= 0 {
		return nil
	}
	if o.TailLines != nil {
		at, err := tailStart(r.file, *o.TailLines)
		if err != nil {
			return err
		}
		if err := r.seek(at); err != nil {
			return err
		}
	}
	var err error
	if o.Follow {
		err = r.follow(ctx, out)
	} else if err = r.readAvailable(); err == nil {
		err = r.record(r.pending)
	}
	if errors.Is(err, errLimit) {
		return nil
	}
	return err
}

// reader reads one log.
type reader struct {
	source  Source
	out     *writer
	file    *os.File
	buffer  *bufio.Reader
	offset  int64
	pending []byte // the start of a record whose line break is not in the file yet
	skip    bool   // the rest of the record is skipped: it is too long
	parse   parser
}

func (r *reader) open() error {
	file, err := os.Open(r.source.Path)
	if err != nil {
		return err
	}
	if info, err := file.Stat(); err != nil || info.IsDir() {
		_ = file.Close()
		if err == nil {
			err = &os.PathError{Op: "read", Path: r.source.Path, Err: errors.New("is a directory")}
		}
		return err
	}
	if r.file != nil {
		_ = r.file.Close()
	}
	r.file, r.offset, r.pending, r.skip = file, 0, nil, false
	r.buffer = bufio.NewReader(file)
	return nil
}

// seek continues at an offset, where a record starts.
func (r *reader) seek(offset int64) error {
	if _, err := r.file.Seek(offset, io.SeekStart); err != nil {
		return err
	}
	r.offset, r.pending, r.skip = offset, nil, false
	r.buffer.Reset(r.file)
	return nil
}

// readAvailable writes all complete records up to the end of the file.
func (r *reader) readAvailable() error {
	for {
		part, err := r.buffer.ReadSlice('\n')
		r.offset += int64(len(part))
		complete := err == nil
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) && !errors.Is(err, io.EOF) {
			return err
		}
		if r.skip || len(r.pending)+len(part) > longestRecord {
			r.skip, r.pending = !complete, nil
		} else if !complete {
			r.pending = append(r.pending, part...)
		} else if err := r.completed(part); err != nil {
			return err
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
	}
}

// completed writes the record that ends with part.
func (r *reader) completed(part []byte) error {
	if len(r.pending) > 0 {
		part = append(r.pending, part...)
		r.pending = nil
	}
	return r.record(part)
}

// record writes one record.
func (r *reader) record(text []byte) (err error) {
	if len(bytes.TrimSpace(text)) == 0 {
		return nil
	}
	if r.parse == nil {
		if r.parse, err = parserFor(text); err != nil {
			return fmt.Errorf("read %s: %w", r.source.Path, err)
		}
	}
	line, err := r.parse(text)
	if err != nil {
		return nil // a damaged record does not end a log
	}
	return r.out.write(line)
}

// follow writes records until the container has ended.
func (r *reader) follow(ctx context.Context, out Output) error {
	changed, stop := r.source.Watcher.subscribe(r.source.Path)
	defer stop()
	tick := time.NewTicker(recheck)
	defer tick.Stop()
	for ended := false; ; {
		if err := r.catchUp(); err != nil {
			return err
		}
		if ended {
			// No further part of an incomplete record follows.
			return r.record(r.pending)
		}
		out.Flush()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-r.source.Ended:
			ended = true
		case <-changed:
		case <-tick.C:
		}
	}
}

// catchUp reads the file to its end, also if it was truncated or if another file has replaced it.
func (r *reader) catchUp() error {
	for {
		info, err := r.file.Stat()
		if err != nil {
			return err
		}
		if info.Size() < r.offset {
			if err := r.seek(0); err != nil {
				return err
			}
		}
		if err := r.readAvailable(); err != nil {
			return err
		}
		current, err := os.Stat(r.source.Path)
		if err != nil || os.SameFile(info, current) {
			return nil // a file that was moved away is read on until its successor exists
		}
		// The last records of the old file may have been written between the read and the move.
		if err := r.readAvailable(); err != nil {
			return err
		}
		if err := r.open(); err != nil {
			return nil // it was moved again: its successor is noticed as the next change
		}
	}
}

// tailBlock is how many bytes tailStart reads at a time.
const tailBlock = 4096

// tailStart returns the offset of the last n records of a file. A record without a line break at the end of the file does not count.
func tailStart(file *os.File, n int64) (int64, error) {
	end, err := file.Seek(0, io.SeekEnd)
	if err != nil || n <= 0 {
		return end, err
	}
	block := make([]byte, tailBlock)
	for breaks := int64(0); end > 0; {
		begin := max(0, end-tailBlock)
		part := block[:end-begin]
		if _, err := file.ReadAt(part, begin); err != nil && !errors.Is(err, io.EOF) {
			return 0, err
		}
		for i := len(part) - 1; i >= 0; i-- {
			if part[i] != '\n' {
				continue
			}
			if breaks++; breaks > n {
				return begin + int64(i) + 1, nil
			}
		}
		end = begin
	}
	return 0, nil
}
