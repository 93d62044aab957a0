package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// server is a `rehearse up` in its own process.
type server struct {
	command    *exec.Cmd // nil: the user started it
	pid        int
	kubeconfig string
	dir        string
	log        bytes.Buffer
	ended      chan error // the result of the process
}

// build builds the binary once, unless the user named one.
func build(ctx context.Context, binary *string) error {
	if *binary != "" {
		return nil
	}
	*binary = filepath.Join(os.TempDir(), "rehearse-bench")
	c := exec.CommandContext(ctx, "go", "build", "-o", *binary, "./cmd/rehearse")
	c.Stderr = os.Stderr
	return c.Run()
}

// up starts `rehearse up` with its own kubeconfig and state, and waits until it has written the
// kubeconfig, which means that the cluster answers.
func up(ctx context.Context, binary string, args ...string) (*server, error) {
	return start(ctx, binary, "up", args...)
}

// start is up for any command that serves a cluster like `up`.
func start(ctx context.Context, binary, command string, args ...string) (*server, error) {
	dir, err := os.MkdirTemp("", "rehearse-bench-")
	if err != nil {
		return nil, err
	}
	s := &server{dir: dir, kubeconfig: filepath.Join(dir, "kubeconfig"), ended: make(chan error, 1)}
	s.command = exec.Command(binary, append([]string{command, "--name", "bench", "--kubeconfig", s.kubeconfig}, args...)...)
	s.command.Env = append(os.Environ(), "XDG_STATE_HOME="+dir)
	s.command.Stderr, s.command.Stdout = &s.log, &s.log
	if err := s.command.Start(); err != nil {
		return nil, err
	}
	s.pid = s.command.Process.Pid
	go func() { s.ended <- s.command.Wait() }()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		if _, err := os.Stat(s.kubeconfig); err == nil {
			return s, nil
		}
		select {
		case err := <-s.ended:
			return nil, fmt.Errorf("%s %s ended: %v\n%s", filepath.Base(binary), command, err, s.log.String())
		case <-ctx.Done():
			_ = s.command.Process.Kill()
			return nil, ctx.Err()
		case <-tick.C:
		}
	}
}

// config returns the configuration of an outside client without client-side limits, which uses
// protobuf.
func (s *server) config() (*rest.Config, error) {
	c, err := clientcmd.BuildConfigFromFlags("", s.kubeconfig)
	if err != nil {
		return nil, err
	}
	c.QPS = -1
	c.ContentType = "application/vnd.kubernetes.protobuf"
	c.AcceptContentTypes = c.ContentType + ",application/json"
	return c, nil
}

// explain adds the log of a server that ends to the error of its client, which may notice the end first.
func (s *server) explain(err error) error {
	if s.command == nil {
		return err
	}
	timeout := time.NewTimer(3 * time.Second)
	defer timeout.Stop()
	select {
	case result := <-s.ended:
		s.ended <- result // for stop
		return fmt.Errorf("%w; the server ended: %v\n%s", err, result, s.log.String())
	case <-timeout.C:
		return err
	}
}

func (s *server) stop() {
	if s.command == nil {
		return
	}
	_ = s.command.Process.Signal(syscall.SIGTERM)
	timeout := time.NewTimer(10 * time.Second)
	defer timeout.Stop()
	select {
	case <-s.ended:
	case <-timeout.C:
		_ = s.command.Process.Kill()
		<-s.ended
	}
	_ = os.RemoveAll(s.dir)
}

// usage is the CPU that a process has used since its start, and its memory now.
type usage struct {
	cpu    time.Duration
	memory int64 // bytes in RAM
}

// percentOfCore returns the CPU time between two usages, in percent of the duration.
func percentOfCore(before, after usage, d time.Duration) float64 {
	return 100 * (after.cpu - before.cpu).Seconds() / d.Seconds()
}

// use reads /proc; on other systems the result is zero.
func use(pid int) usage {
	var u usage
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err == nil {
		// The command's name may contain spaces; the fields start after its closing bracket.
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		user, _ := strconv.ParseInt(fields[11], 10, 64)
		system, _ := strconv.ParseInt(fields[12], 10, 64)
		u.cpu = time.Duration(user+system) * (time.Second / 100) // USER_HZ
	}
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kb, _ := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			u.memory = kb << 10
		}
	}
	return u
}

// use returns what the server uses, with the processes that it has started. Memory that these share counts once: the parts of
// the reference are processes of one binary.
func (s *server) use() usage {
	all, started := use(s.pid), children(s.pid)
	if len(started) > 0 {
		all.memory = proportional(s.pid, all.memory)
	}
	for _, pid := range started {
		u := use(pid)
		all.cpu, all.memory = all.cpu+u.cpu, all.memory+proportional(pid, u.memory)
	}
	return all
}

// proportional returns the memory of a process, in bytes, with its part of the pages that it shares; otherwise, without
// /proc/PID/smaps_rollup (Linux before 4.14), the given number.
func proportional(pid int, otherwise int64) int64 {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "Pss:"); ok {
			if kb, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64); err == nil {
				return kb << 10
			}
		}
	}
	return otherwise
}

// children reads the PIDs of the processes that a process has started; none on systems without /proc.
func children(pid int) (all []int) {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, file := range files {
		text, _ := os.ReadFile(file)
		for _, field := range strings.Fields(string(text)) {
			if child, err := strconv.Atoi(field); err == nil {
				all = append(all, child)
			}
		}
	}
	return all
}

func mb(n int64) string { return fmt.Sprintf("%d MB", n>>20) }
