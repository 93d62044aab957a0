package cli

import (
	"context"
	"flag"
	"io"
	"log/slog"
	"strconv"

	"k8s.io/klog/v2"
)

// logOptions are the flags about logging.
type logOptions struct {
	verbosity int
	format    string
}

func (o logOptions) validate() error {
	if o.verbosity < 0 {
		return usagef("-v %d: must not be negative", o.verbosity)
	}
	if o.format != "text" && o.format != "json" {
		return usagef("--log-format %q: must be text or json", o.format)
	}
	return nil
}

// setUp sends the logs of the Kubernetes code in this process to the log file, and with -v 1 or more to stderr as
// well. Without -v a user sees none of them: at start and end they are full of errors that mend themselves.
func (o logOptions) setUp(file, stderr io.Writer) *slog.Logger {
	h := fanOut{o.handler(file)}
	if o.verbosity > 0 {
		h = append(h, o.handler(stderr))
	}
	logger := slog.New(h)
	slog.SetDefault(logger) // for our own packages, and for whatever writes with the log package
	klog.SetSlogLogger(logger)
	flags := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(flags)
	_ = flags.Set("v", strconv.Itoa(o.verbosity)) // a number is always accepted
	return logger
}

// own is where our own packages' records go in a command without a log file: warnings at least.
func (o logOptions) own(stderr io.Writer) slog.Handler {
	if o.verbosity == 0 {
		return o.handlerAt(stderr, slog.LevelWarn)
	}
	return o.handler(stderr)
}

// handler writes in the chosen format; logr's V(n) is slog's level -n.
func (o logOptions) handler(w io.Writer) slog.Handler {
	return o.handlerAt(w, slog.Level(-o.verbosity))
}

func (o logOptions) handlerAt(w io.Writer, level slog.Level) slog.Handler {
	opts := &slog.HandlerOptions{Level: level}
	if o.format == "json" {
		return slog.NewJSONHandler(w, opts)
	}
	return slog.NewTextHandler(w, opts)
}

// fanOut gives every record to each handler.
type fanOut []slog.Handler

func (f fanOut) Enabled(ctx context.Context, l slog.Level) bool {
	for _, h := range f {
		if h.Enabled(ctx, l) {
			return true
		}
	}
	return false
}

func (f fanOut) Handle(ctx context.Context, r slog.Record) error {
	for _, h := range f {
		if h.Enabled(ctx, r.Level) {
			_ = h.Handle(ctx, r.Clone()) // a full disk must not stop a cluster
		}
	}
	return nil
}

func (f fanOut) WithAttrs(attrs []slog.Attr) slog.Handler {
	return f.each(func(h slog.Handler) slog.Handler { return h.WithAttrs(attrs) })
}

func (f fanOut) WithGroup(name string) slog.Handler {
	return f.each(func(h slog.Handler) slog.Handler { return h.WithGroup(name) })
}

func (f fanOut) each(change func(slog.Handler) slog.Handler) slog.Handler {
	out := make(fanOut, len(f))
	for i, h := range f {
		out[i] = change(h)
	}
	return out
}
