package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

func snapshotCommand(binary *string, out *figures) *cobra.Command {
	l := load{out: out}
	var formats []string
	c := &cobra.Command{
		Use:   "snapshot [-- UP-FLAGS]",
		Short: "Save a cluster of Running pods, and restore it into a cluster without controllers",
		RunE: func(cmd *cobra.Command, args []string) error {
			l.args = args
			return l.snapshot(cmd.Context(), binary, formats)
		},
	}
	l.addFlags(c, 100, 10000, 32)
	c.Flags().StringSliceVar(&formats, "formats", []string{"yaml", "yaml.gz", "jsonl", "jsonl.gz", "store", "store.gz"}, "suffixes of the files to measure")
	return c
}

func (l load) snapshot(ctx context.Context, binary *string, formats []string) error {
	if l.kubeconfig != "" { // the commands need the program too
		if err := build(ctx, binary); err != nil {
			return err
		}
	}
	s, err := l.filled(ctx, binary)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "rehearse-bench-snapshot-")
	if err != nil {
		s.stop()
		return err
	}
	defer os.RemoveAll(dir)
	idle, err := measure(ctx, *binary, "version")
	if err != nil {
		s.stop()
		return err
	}
	fmt.Printf("%d pods are Running; memory of the program without work: %s; load: %s\n", l.pods, mb(idle.peakBytes), machineLoad())
	for _, f := range formats {
		file := filepath.Join(dir, "cluster."+f)
		before := s.use()
		m, err := measure(ctx, *binary, "snapshot", "save", file, "--kubeconfig", s.kubeconfig)
		if err != nil {
			s.stop()
			return err
		}
		info, err := os.Stat(file)
		if err != nil {
			s.stop()
			return err
		}
		after := s.use()
		l.out.add("save "+f, "%s; server %.2f s CPU, %s more; file %s", m, (after.cpu - before.cpu).Seconds(), mb(after.memory-before.memory), mb(info.Size()))
	}
	s.stop() // the restore needs the processors and the memory
	for _, f := range formats {
		if err := l.restoreInto(ctx, *binary, f, filepath.Join(dir, "cluster."+f)); err != nil {
			return err
		}
	}
	return nil
}

// filled starts a cluster and creates pods until all are Running.
func (l load) filled(ctx context.Context, binary *string) (*server, error) {
	s, client, err := l.connect(ctx, binary)
	if err != nil {
		return nil, err
	}
	if err := l.fill(ctx, client); err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

// restoreInto measures a restore into a new cluster.
func (l load) restoreInto(ctx context.Context, binary, format, file string) error {
	if strings.HasPrefix(format, "store") {
		return l.beginWith(ctx, binary, format, file)
	}
	s, err := up(ctx, binary, "--nodes", "0", "--controllers=serviceaccount-controller")
	if err != nil {
		return err
	}
	defer s.stop()
	before := s.use()
	m, err := measure(ctx, binary, "snapshot", "restore", file, "--kubeconfig", s.kubeconfig)
	if err != nil {
		return err
	}
	after := s.use()
	l.out.add("restore "+format, "%s; server %.2f s CPU, %s more", m, (after.cpu - before.cpu).Seconds(), mb(after.memory-before.memory))
	return nil
}

// beginWith measures the start of a cluster that begins with a file, and that of one without.
func (l load) beginWith(ctx context.Context, binary, format, file string) error {
	start := func(args ...string) (time.Duration, usage, error) {
		begin := time.Now()
		s, err := up(ctx, binary, append([]string{"--nodes", "0", "--controllers=serviceaccount-controller"}, args...)...)
		if err != nil {
			return 0, usage{}, err
		}
		defer s.stop()
		return time.Since(begin), s.use(), nil
	}
	empty, _, err := start()
	if err != nil {
		return err
	}
	took, use, err := start("--from", file)
	if err != nil {
		return err
	}
	l.out.add("up --from "+format, "ready after %.2f s (%.2f s without --from); server %.2f s CPU, %s", took.Seconds(), empty.Seconds(), use.cpu.Seconds(), mb(use.memory))
	return nil
}

// measured is what one run of a command used.
type measured struct {
	wall, cpu time.Duration
	peakBytes int64
}

// String implements fmt.Stringer.
func (m measured) String() string {
	return fmt.Sprintf("%.2f s (%.2f s CPU), peak memory %s", m.wall.Seconds(), m.cpu.Seconds(), mb(m.peakBytes))
}

// measure runs a command of the program to its end.
func measure(ctx context.Context, binary string, args ...string) (measured, error) {
	c := exec.CommandContext(ctx, binary, args...)
	start := time.Now()
	out, err := c.CombinedOutput()
	if err != nil {
		return measured{}, fmt.Errorf("%s: %w\n%s", strings.Join(args, " "), err, out)
	}
	m := measured{wall: time.Since(start), cpu: c.ProcessState.UserTime() + c.ProcessState.SystemTime()}
	if u, ok := c.ProcessState.SysUsage().(*syscall.Rusage); ok {
		m.peakBytes = u.Maxrss
		if runtime.GOOS == "linux" {
			m.peakBytes <<= 10
		}
	}
	return m, nil
}

// machineLoad is the load average of the machine, which other work raises.
func machineLoad() string {
	data, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	return strings.Join(strings.Fields(string(data))[:3], " ")
}
