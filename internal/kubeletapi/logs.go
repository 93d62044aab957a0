package kubeletapi

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/rehearse-k8s/rehearse/api/kwok/v1alpha1"
	"github.com/rehearse-k8s/rehearse/internal/kubeletapi/logfile"
	"github.com/rehearse-k8s/rehearse/internal/kubeletapi/rules"
)

// containerLogs answers `kubectl logs`: with the file that a Logs or ClusterLogs object names, else with one line that says that the
// container is simulated.
func (s *Server) containerLogs(w http.ResponseWriter, r *http.Request) {
	out := &response{w: w}
	err := s.writeLogs(r, out)
	switch {
	case err == nil || r.Context().Err() != nil:
		out.Flush()
	case out.started: // the status is sent, so the error can only be part of the log
		_, _ = fmt.Fprintln(out, err)
	default:
		fail(w, err, statusOf(err))
	}
}

// fail sends an error. The API server puts the whole text into the message of a Status, so it has no line break.
func fail(w http.ResponseWriter, err error, code int) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(code)
	_, _ = io.WriteString(w, err.Error())
}

func (s *Server) writeLogs(r *http.Request, out *response) error {
	ctx := r.Context()
	options, previous, err := s.logOptions(r)
	if err != nil {
		return err
	}
	t, err := s.target(ctx, r.PathValue("namespace"), r.PathValue("pod"), r.PathValue("container"))
	if err != nil {
		return err
	}
	run, err := logInstance(t.pod, t.container, previous)
	if err != nil {
		return err
	}
	m, err := s.logRule(ctx, t)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	if m == nil {
		return s.simulatedLog(ctx, t, run, options, out)
	}
	path, err := logPath(m, previous)
	if err != nil {
		return err
	}
	source := logfile.Source{Path: path, Watcher: &s.files}
	if options.Follow {
		source.Ended = s.ended(ctx, t, run)
	}
	if err := logfile.Copy(ctx, source, options, out); err != nil {
		return fmt.Errorf("%s: %w", m.Object, err)
	}
	return nil
}

// logOptions decodes the options of a request, and reports whether it asks for the run before the last restart.
func (s *Server) logOptions(r *http.Request) (o logfile.Options, previous bool, err error) {
	q := query{values: r.URL.Query()}
	tail := "tailLines"
	if q.values.Has("tail") { // the older name
		tail = "tail"
		if q.values.Get(tail) == "all" {
			q.values.Del(tail)
		}
	}
	o = logfile.Options{
		TailLines: q.number(tail, 0), LimitBytes: q.number("limitBytes", 1), Timestamps: q.flag("timestamps"), Follow: q.flag("follow"),
	}
	if at := q.values.Get("sinceTime"); at != "" {
		if o.Since, err = time.Parse(time.RFC3339Nano, at); err != nil {
			q.err = failed(http.StatusBadRequest, "sinceTime: %w", err)
		}
	}
	if seconds := q.number("sinceSeconds", 1); seconds != nil {
		if since := s.options.Now().Add(-time.Duration(*seconds) * time.Second); since.After(o.Since) {
			o.Since = since
		}
	}
	if stream := q.values.Get("stream"); stream != "" && stream != corev1.LogStreamAll {
		o.Stream = strings.ToLower(stream)
		if o.Stream != logfile.Stdout && o.Stream != logfile.Stderr {
			q.err = failed(http.StatusBadRequest, "invalid stream type %q", stream)
		}
	}
	return o, q.flag("previous"), q.err
}

// query reads the values of a URL. err is the first error.
type query struct {
	values url.Values
	err    error
}

func (q *query) number(name string, least int64) *int64 {
	text := q.values.Get(name)
	if text == "" {
		return nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	switch {
	case err != nil:
		q.err = cmp.Or(q.err, error(failed(http.StatusBadRequest, "%s: %q is not a number", name, text)))
	case n < least:
		q.err = cmp.Or(q.err, error(failed(http.StatusUnprocessableEntity, "%s: must be %d or more", name, least)))
	}
	return &n
}

// flag is true for all values but those that the API machinery decodes as false.
func (q *query) flag(name string) bool {
	text := strings.ToLower(q.values.Get(name))
	return q.values.Has(name) && text != "false" && text != "0"
}

// simulatedLog writes the log of a container for which no object names a file.
func (s *Server) simulatedLog(ctx context.Context, t target, run instance, o logfile.Options, out *response) error {
	text := fmt.Sprintf("container %q of pod %q is simulated: image %s, started %s. No Logs or ClusterLogs object names a log file for it.\n",
		t.container, t.pod.Namespace+"/"+t.pod.Name, t.image, run.started.UTC().Format(time.RFC3339))
	if err := logfile.WriteLine(out, o, logfile.Line{Time: run.started.UTC(), Stream: logfile.Stdout, Text: []byte(text)}); err != nil || !o.Follow {
		return err
	}
	out.Flush()
	select {
	case <-s.ended(ctx, t, run):
	case <-ctx.Done():
	}
	return nil
}

// logPath returns the file of an entry.
func logPath(m *rules.Match[v1alpha1.Log], previous bool) (string, error) {
	name, field := m.Entry.LogsFile, "logsFile"
	if previous {
		name, field = m.Entry.PreviousLogsFile, "previousLogsFile"
	}
	if name == "" {
		return "", fmt.Errorf("%s has no %s for this container", m.Object, field)
	}
	return localPath(name)
}

// localPath replaces ~/ with the user's home directory. Other relative paths are relative to the working directory of the process.
func localPath(name string) (string, error) {
	if rest, ok := strings.CutPrefix(name, "~/"); ok {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", err
		}
		return filepath.Join(home, rest), nil
	}
	return filepath.Abs(name)
}

// response is a response whose status is sent with the first bytes or with Flush.
type response struct {
	w       http.ResponseWriter
	started bool
	dirty   bool // bytes wait for Flush
}

// Write implements io.Writer.
func (r *response) Write(p []byte) (int, error) {
	r.start()
	r.dirty = true
	return r.w.Write(p)
}

// Flush sends what was written, or at least the status.
func (r *response) Flush() {
	if r.started && !r.dirty {
		return
	}
	r.start()
	r.dirty = false
	_ = http.NewResponseController(r.w).Flush()
}

func (r *response) start() {
	if !r.started {
		r.started = true
		r.w.Header().Set("Content-Type", "text/plain")
		r.w.WriteHeader(http.StatusOK)
	}
}
