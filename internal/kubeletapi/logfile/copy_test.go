package logfile

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"k8s.io/utils/ptr"
)

// output collects a log. Each call of Flush sends all that was written.
type output struct {
	text    strings.Builder
	flushed chan string
}

func (o *output) Write(p []byte) (int, error) { return o.text.Write(p) }

func (o *output) Flush() {
	if o.flushed != nil {
		o.flushed <- o.text.String()
	}
}

// record is a CRI record, n seconds after the first one.
func record(n int, stream, tag, text string) string {
	return fmt.Sprintf("%s %s %s %s\n", at(n).Format(time.RFC3339Nano), stream, tag, text)
}

func write(t *testing.T, path string, records ...string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(strings.Join(records, "")), 0o600); err != nil {
		t.Fatal(err)
	}
}

func extend(t *testing.T, path string, records ...string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o600)
	if err == nil {
		_, err = f.WriteString(strings.Join(records, ""))
	}
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestOptions(t *testing.T) {
	path := filepath.Join(t.TempDir(), "0.log")
	write(t, path,
		record(0, Stdout, "F", "one"), record(1, Stderr, "F", "two"), record(2, Stdout, "P", "thr"), record(3, Stderr, "F", "err"), "damaged\n", "\n",
		record(4, Stdout, "F", "ee"), record(5, Stdout, "F", "four"))
	all := "one\ntwo\nthrerr\nee\nfour\n"
	for name, c := range map[string]struct {
		o    Options
		want string
	}{
		"all":        {Options{}, all},
		"tail 0":     {Options{TailLines: ptr.To[int64](0)}, ""},
		"tail 1":     {Options{TailLines: ptr.To[int64](1)}, "four\n"},
		"tail 2":     {Options{TailLines: ptr.To[int64](2)}, "ee\nfour\n"},
		"tail 99":    {Options{TailLines: ptr.To[int64](99)}, all},
		"since":      {Options{Since: at(4)}, "ee\nfour\n"},
		"since late": {Options{Since: at(60)}, ""},
		"stdout":     {Options{Stream: Stdout}, "one\nthree\nfour\n"},
		"stderr":     {Options{Stream: Stderr}, "two\nerr\n"},
		"limit":      {Options{LimitBytes: ptr.To[int64](6)}, "one\ntw"},
		"limit 0":    {Options{LimitBytes: ptr.To[int64](0)}, ""},
		"timestamps": {Options{Timestamps: true, TailLines: ptr.To[int64](1)}, "2027-03-01T09:00:05.000000000Z four\n"},
		"parts have one timestamp": {Options{Timestamps: true, Stream: Stdout, Since: at(2)},
			"2027-03-01T09:00:02.000000000Z three\n2027-03-01T09:00:05.000000000Z four\n"},
		"limit counts timestamps": {Options{Timestamps: true, LimitBytes: ptr.To[int64](33)}, "2027-03-01T09:00:00.000000000Z on"},
	} {
		out := &output{}
		if err := Copy(t.Context(), Source{Path: path}, c.o, out); err != nil || out.text.String() != c.want {
			t.Errorf("%s: got %q, %v, want %q", name, out.text.String(), err, c.want)
		}
	}
}

// TestTail: the start of the last records is right at each position of the blocks that are read.
func TestTail(t *testing.T) {
	path := filepath.Join(t.TempDir(), "0.log")
	for _, width := range []int{1, 30, tailBlock / 2, tailBlock - 1, tailBlock, tailBlock + 1, 3 * tailBlock} {
		line := strings.Repeat("x", width-1) + "\n"
		write(t, path, strings.Repeat(line, 5), "open")
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		for n, want := range map[int64]int{0: 5*width + 4, 1: 4 * width, 3: 2 * width, 5: 0, 6: 0} {
			if got, err := tailStart(f, n); err != nil || got != int64(want) {
				t.Errorf("width %d, %d records: got %d, %v, want %d", width, n, got, err, want)
			}
		}
		_ = f.Close()
	}
}

func TestBadFiles(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "plain.log")
	write(t, path, "hello\n", record(0, Stdout, "F", "one"))
	out := &output{}
	err := Copy(t.Context(), Source{Path: path}, Options{Follow: true}, out)
	if !errors.Is(err, errFormat) || !strings.Contains(err.Error(), path) || out.text.Len() > 0 {
		t.Errorf("a file in another format: %v, %q", err, out.text.String())
	}
	for _, missing := range []string{filepath.Join(dir, "missing.log"), dir} {
		var failed *fs.PathError
		if err := Copy(t.Context(), Source{Path: missing}, Options{Follow: true}, out); !errors.As(err, &failed) || failed.Path != missing {
			t.Errorf("%s: got %v", missing, err)
		}
	}
	write(t, path)
	if err := Copy(t.Context(), Source{Path: path}, Options{}, out); err != nil || out.text.Len() > 0 {
		t.Errorf("an empty file: %v, %q", err, out.text.String())
	}
	long := strings.Repeat("x", longestRecord)
	write(t, path, record(0, Stdout, "F", "one"), record(1, Stdout, "F", long), record(2, Stdout, "F", long[:longestRecord/2]), record(3, Stdout, "F", "end"))
	if err := Copy(t.Context(), Source{Path: path}, Options{}, out); err != nil || out.text.String() != "one\n"+long[:longestRecord/2]+"\nend\n" {
		t.Errorf("a record that is too long: %v, %d bytes", err, out.text.Len())
	}
	// The last record has no line break yet.
	out = &output{}
	write(t, path, record(0, Stdout, "F", "one"), strings.TrimSuffix(record(1, Stdout, "F", "two"), "\n"))
	if err := Copy(t.Context(), Source{Path: path}, Options{}, out); err != nil || out.text.String() != "one\ntwo" {
		t.Errorf("an incomplete last record: %v, %q", err, out.text.String())
	}
}

// follower runs Copy with Follow.
type follower struct {
	t     *testing.T
	out   *output
	ended chan struct{}
	done  chan error
	path  string
}

func follow(t *testing.T, path string, w *Watcher, o Options) *follower {
	f := &follower{t: t, path: path, out: &output{flushed: make(chan string)}, ended: make(chan struct{}), done: make(chan error, 1)}
	o.Follow = true
	go func() { f.done <- Copy(t.Context(), Source{Path: path, Ended: f.ended, Watcher: w}, o, f.out) }()
	return f
}

// await receives flushes until the log is text.
func (f *follower) await(text string) {
	f.t.Helper()
	for last := ""; last != text; {
		select {
		case last = <-f.out.flushed:
			if !strings.HasPrefix(text, last) {
				f.t.Fatalf("got %q, want %q", last, text)
			}
		case err := <-f.done:
			f.t.Fatalf("ended with %v after %q, want %q", err, last, text)
		}
	}
}

// TestFollow: a reader continues after appended records, rotation and truncation, and ends with the container.
func TestFollow(t *testing.T) {
	defer goleak.VerifyNone(t)
	for name, w := range map[string]*Watcher{"notified": {}, "without notifications": nil} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "0.log")
			write(t, path, record(0, Stdout, "F", "old"), record(1, Stdout, "F", "a"))
			f := follow(t, path, w, Options{TailLines: ptr.To[int64](1)})
			f.await("a\n")
			extend(t, path, record(2, Stdout, "F", "b"), "2027-03-01T09:00:03Z std")
			f.await("a\nb\n")
			extend(t, path, "out F c\n")
			f.await("a\nb\nc\n")
			// Rotation: the last record of the old file precedes those of the new one.
			if err := os.Rename(path, path+".1"); err != nil {
				t.Fatal(err)
			}
			extend(t, path+".1", record(4, Stdout, "F", "d"))
			extend(t, path, record(5, Stdout, "F", "e"))
			f.await("a\nb\nc\nd\ne\n")
			// Truncation, as by logrotate's copytruncate.
			if err := os.Truncate(path, 0); err != nil {
				t.Fatal(err)
			}
			f.await("a\nb\nc\nd\ne\n")
			f.await("a\nb\nc\nd\ne\n") // the first flush may be from before the truncation
			extend(t, path, record(6, Stdout, "F", "f"))
			f.await("a\nb\nc\nd\ne\nf\n")
			// The reader reads what the container wrote before its end.
			extend(t, path, record(7, Stdout, "F", "g"))
			close(f.ended)
			for {
				select {
				case <-f.out.flushed:
					continue
				case err := <-f.done:
					if got := f.out.text.String(); err != nil || got != "a\nb\nc\nd\ne\nf\ng\n" {
						t.Errorf("ended with %v after %q", err, got)
					}
				}
				break
			}
			if w != nil && (w.system != nil || len(w.dirs)+len(w.readers) > 0) {
				t.Error("the watcher runs without readers")
			}
		})
	}
}

// TestFollowLink: a reader follows the target of a symbolic link, and the link to another target.
func TestFollowLink(t *testing.T) {
	dir := t.TempDir()
	one, two, link := filepath.Join(dir, "one", "0.log"), filepath.Join(dir, "two", "0.log"), filepath.Join(dir, "web.log")
	for _, p := range []string{one, two} {
		if err := os.Mkdir(filepath.Dir(p), 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, p)
	}
	if err := os.Symlink(one, link); err != nil {
		t.Fatal(err)
	}
	f := follow(t, link, &Watcher{}, Options{})
	f.await("")
	extend(t, one, record(0, Stdout, "F", "a"))
	f.await("a\n")
	if err := os.Symlink(two, link+".new"); err != nil {
		t.Fatal(err)
	}
	extend(t, two, record(1, Stdout, "F", "b"))
	if err := os.Rename(link+".new", link); err != nil {
		t.Fatal(err)
	}
	f.await("a\nb\n")
	close(f.ended)
	for err := error(nil); err == nil; {
		select {
		case <-f.out.flushed:
			continue
		case err = <-f.done:
			if err != nil {
				t.Error(err)
			}
		}
		break
	}
}

// TestFollowEnds: a reader ends with its context and at the limit.
func TestFollowEnds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "0.log")
	write(t, path, record(0, Stdout, "F", "one"))
	ctx, cancel := context.WithCancel(t.Context())
	out := &output{flushed: make(chan string, 1)}
	done := make(chan error)
	go func() { done <- Copy(ctx, Source{Path: path}, Options{Follow: true}, out) }()
	<-out.flushed
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if err := Copy(t.Context(), Source{Path: path}, Options{Follow: true, LimitBytes: ptr.To[int64](2)}, &output{}); err != nil {
		t.Errorf("at the limit: %v", err)
	}
}

// TestWriteLine: a single record is subject to the same options.
func TestWriteLine(t *testing.T) {
	l := Line{Time: at(5), Stream: Stdout, Text: []byte("one\n")}
	for want, o := range map[string]Options{
		"one\n":                                {},
		"on":                                   {LimitBytes: ptr.To[int64](2)},
		"2027-03-01T09:00:05.000000000Z one\n": {Timestamps: true},
	} {
		var b strings.Builder
		if err := WriteLine(&b, o, l); err != nil || b.String() != want {
			t.Errorf("got %q, %v, want %q", b.String(), err, want)
		}
	}
	for _, o := range []Options{{TailLines: ptr.To[int64](0)}, {Since: at(6)}, {Stream: Stderr}} {
		var b strings.Builder
		if err := WriteLine(&b, o, l); err != nil || b.Len() > 0 {
			t.Errorf("%+v: got %q, %v", o, b.String(), err)
		}
	}
}
