package cluster

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/spf13/cobra"

	"github.com/rehearse-k8s/rehearse/internal/cli/console"
	"github.com/rehearse-k8s/rehearse/internal/cli/statedir"
	"github.com/rehearse-k8s/rehearse/internal/cli/target"
)

// liveCheck is how often logs -f looks whether the cluster still runs: a killed process sends no notification.
const liveCheck = 500 * time.Millisecond

func (a *app) logsCommand() *cobra.Command {
	var name string
	var follow bool
	var tail int
	cmd := &cobra.Command{
		Use:   "logs [NAME]",
		Short: "Print the log of a cluster",
		Long: `Print the log of a cluster: the logs of its components, and all output of a cluster in the background.

All components run in one process, so they have one log. Of a log that was rotated, logs prints the older parts first. With -f it
waits for more, until the cluster stops or Ctrl-C. The log of a cluster that failed is printed until the next start.`,
		Example: `  rehearse logs
  rehearse logs demo -f --tail 20`,
		ValidArgsFunction: target.Complete(a.Getenv),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) > 1:
				return console.Usagef("logs takes one name, got %d", len(args))
			case len(args) == 1 && cmd.Flags().Changed("name"):
				return console.Usagef("--name and an argument are mutually exclusive")
			case tail < -1:
				return console.Usagef("--tail %d: must not be negative, except for -1 (all)", tail)
			case len(args) == 1:
				name = args[0]
			}
			if name != "" {
				if err := target.ValidateName(name); err != nil {
					return err
				}
			}
			ctx, stop := a.Interruptible(cmd.Context())
			defer stop()
			return a.logs(ctx, name, follow, tail)
		},
	}
	f := cmd.Flags()
	f.BoolVarP(&follow, "follow", "f", false, "wait for more lines, until the cluster stops")
	f.IntVar(&tail, "tail", -1, "number of lines from the end (-1: all)")
	a.addName(cmd, &name)
	return cmd
}

// logs prints the log of a cluster.
func (a *app) logs(ctx context.Context, name string, follow bool, tail int) error {
	root, err := statedir.DefaultRoot(a.Getenv)
	if err != nil {
		return err
	}
	missing := ""
	if name == "" {
		if name, missing, err = target.Default(root, a.Getenv); err != nil {
			return err
		}
		name = cmp.Or(name, target.DefaultName(a.Getenv)) // of one that failed
	}
	path := root.LogPath(name)
	l := &logReader{path: path, out: a.Out}
	if l.file, err = os.Open(path); errors.Is(err, fs.ErrNotExist) {
		if missing != "" {
			return errors.New(missing)
		}
		return fmt.Errorf("cluster %q has no log: it is not running; start it: %s", name, target.StartCommand(root, name))
	} else if err != nil {
		return err
	}
	defer func() { _ = l.file.Close() }()
	if err := l.printParts(tail); err != nil || !follow {
		return err
	}
	return l.follow(ctx, func() bool {
		e, _, err := root.Look(name)
		return err == nil && e.Live
	})
}

// logReader prints a log and what is added to it. Rotation copies the log to its newest older part and truncates it.
type logReader struct {
	path   string
	out    io.Writer
	file   *os.File
	offset int64
}

// printParts prints the older parts and the log, or its last lines.
func (l *logReader) printParts(tail int) error {
	var older []io.Reader
	for i := logParts; i > 0; i-- {
		if f, err := os.Open(fmt.Sprintf("%s.%d", l.path, i)); err == nil {
			defer f.Close()
			older = append(older, f)
		}
	}
	counted := &countingReader{from: l.file}
	all := io.MultiReader(append(older, counted)...)
	err := error(nil)
	if tail < 0 {
		_, err = io.Copy(l.out, all)
	} else {
		err = printLast(l.out, all, tail)
	}
	l.offset = counted.n
	return err
}

type countingReader struct {
	from io.Reader
	n    int64
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.from.Read(p)
	c.n += int64(n)
	return n, err
}

// printLast prints the last lines of a text.
func printLast(to io.Writer, from io.Reader, lines int) error {
	ring := make([][]byte, 0, min(lines, 1024))
	next := 0
	in := bufio.NewReader(from)
	for {
		line, err := in.ReadBytes('\n')
		switch {
		case len(line) == 0 || lines == 0:
		case len(ring) < lines:
			ring = append(ring, line)
		default:
			ring[next] = line
			next = (next + 1) % lines
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
	}
	_, err := to.Write(bytes.Join(append(ring[next:len(ring):len(ring)], ring[:next]...), nil))
	return err
}

// follow prints what is added until the cluster stops.
func (l *logReader) follow(ctx context.Context, live func() bool) error {
	var changes chan fsnotify.Event // nil: the system does not notify, and the ticker is enough
	if w, err := fsnotify.NewWatcher(); err == nil {
		defer w.Close()
		if w.Add(l.path) == nil {
			changes = w.Events
		}
	}
	tick := time.NewTicker(liveCheck)
	defer tick.Stop()
	for {
		running := live() // before the last read: a cluster writes nothing after it has stopped
		if err := l.catchUp(); err != nil || !running {
			return err
		}
		select {
		case <-ctx.Done():
			return console.ErrInterrupted
		case <-changes:
		case <-tick.C:
		}
	}
}

// catchUp prints the log from the offset to its end. If the log has been rotated, its rest is in the newest older part.
func (l *logReader) catchUp() error {
	info, err := l.file.Stat()
	if err != nil {
		return err
	}
	if info.Size() < l.offset {
		if part, err := os.Open(l.path + ".1"); err == nil {
			_, _ = io.Copy(l.out, io.NewSectionReader(part, l.offset, 1<<62))
			_ = part.Close()
		}
		l.offset = 0
	}
	n, err := io.Copy(l.out, io.NewSectionReader(l.file, l.offset, 1<<62))
	l.offset += n
	return err
}
