package console

import (
	"context"
	"flag"
	"io"
	"log/slog"
	"strconv"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"
)

// LogOptions are the flags about logging.
type LogOptions struct {
	Verbosity int
	Format    string
}

// AddFlags adds -v and --log-format to a command; usage describes -v.
func (o *LogOptions) AddFlags(cmd *cobra.Command, usage string) {
	f := cmd.Flags()
	f.IntVarP(&o.Verbosity, "verbosity", "v", 0, usage)
	f.StringVar(&o.Format, "log-format", "text", "format of the logs: text|json")
	_ = cmd.RegisterFlagCompletionFunc("log-format", cobra.FixedCompletions([]string{"text", "json"}, cobra.ShellCompDirectiveNoFileComp))
}

// Validate checks the flags.
func (o LogOptions) Validate() error {
	if o.Verbosity < 0 {
		return Usagef("-v %d: must not be negative", o.Verbosity)
	}
	if o.Format != "text" && o.Format != "json" {
		return Usagef("--log-format %q: must be text or json", o.Format)
	}
	return nil
}

// SetUp sends the logs of the Kubernetes code in this process to the log file, and with -v 1 or more to stderr as
// well. Without -v they are not shown: during start and stop they are full of errors that resolve themselves.
func (o LogOptions) SetUp(file, stderr io.Writer) *slog.Logger {
	h := fanOut{o.handler(file)}
	if o.Verbosity > 0 {
		h = append(h, o.handler(stderr))
	}
	logger := slog.New(h)
	slog.SetDefault(logger) // for our own packages, and for everything that writes with package log
	klog.SetSlogLogger(logger)
	flags := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(flags)
	_ = flags.Set("v", strconv.Itoa(o.Verbosity)) // a number is always accepted
	return logger
}

// StderrHandler handles the records of our own packages in a command without a log file: warnings and errors, and with -v
// everything.
func (o LogOptions) StderrHandler(stderr io.Writer) slog.Handler {
	if o.Verbosity == 0 {
		return o.handlerAt(stderr, slog.LevelWarn)
	}
	return o.handler(stderr)
}

// handler writes in the chosen format; logr's V(n) is slog's level -n.
func (o LogOptions) handler(w io.Writer) slog.Handler {
	return o.handlerAt(w, slog.Level(-o.Verbosity))
}

func (o LogOptions) handlerAt(w io.Writer, level slog.Level) slog.Handler {
	opts := &slog.HandlerOptions{Level: level}
	if o.Format == "json" {
		return slog.NewJSONHandler(w, opts)
	}
	return slog.NewTextHandler(w, opts)
}

// fanOut passes every record to each handler.
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
