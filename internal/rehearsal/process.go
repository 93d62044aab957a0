package rehearsal

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rehearse-k8s/rehearse/api/rehearse/v1alpha1"
	"github.com/rehearse-k8s/rehearse/scenario"
)

// tailLines is the number of last lines of a client's output that are kept.
const tailLines = 40

// killTimeout is how long a process and its children may take to exit after they were killed.
const killTimeout = 5 * time.Second

// process is one process of a client.
type process struct {
	cmd *exec.Cmd
	// exited is closed when the process has exited, and its children have closed its output or are abandoned. err says how it exited, and survived whether
	// a child still runs.
	exited   chan struct{}
	err      error
	survived bool
	// abandoned is closed when nothing waits for the output of children any more.
	abandoned chan struct{}
	timeout   time.Duration // killTimeout; lowered by tests

	mu     sync.Mutex
	killed bool
}

// output holds the last lines that a client printed, over all its processes in a run.
type output struct {
	mu    sync.Mutex
	lines []string
}

func (p *output) add(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lines = append(p.lines, line)
	if len(p.lines) > tailLines {
		p.lines = slices.Delete(p.lines, 0, len(p.lines)-tailLines)
	}
}

// tail returns the last lines, at most n.
func (p *output) tail(n int) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.lines[max(0, len(p.lines)-n):])
}

// launch starts a client's process.
func launch(c *v1alpha1.Client, command []string, words map[string]string, dir string, line func(string)) (*process, error) {
	ports := map[string]string{}
	lookup := func(word string) (string, bool) {
		if value, ok := words[word]; ok {
			return value, true
		}
		if word == "port" || strings.HasPrefix(word, "port:") {
			if ports[word] == "" {
				ports[word] = freePort()
			}
			return ports[word], true
		}
		return "", false
	}
	args := make([]string, len(command))
	for i, arg := range command {
		var err error
		if args[i], err = scenario.Expand(arg, lookup); err != nil {
			return nil, err
		}
	}
	p := &process{cmd: exec.Command(args[0], args[1:]...), exited: make(chan struct{}), abandoned: make(chan struct{}), timeout: killTimeout} //nolint:gosec // the user's own command
	p.cmd.Dir = c.Dir
	p.cmd.Env = append(os.Environ(), "KUBECONFIG="+words["kubeconfig"], "TMPDIR="+dir)
	for _, e := range c.Env {
		value, err := scenario.Expand(e.Value, lookup)
		if err != nil {
			return nil, err
		}
		p.cmd.Env = append(p.cmd.Env, e.Name+"="+value)
	}
	setProcessGroup(p.cmd)
	// With a file, Wait returns when the process exits. With a writer, it would also wait for children that keep the output open.
	read, write, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("client %s: %w", c.Name, err)
	}
	p.cmd.Stdout, p.cmd.Stderr = write, write
	err = p.cmd.Start()
	_ = write.Close() // the process has its own copy
	if err != nil {
		_ = read.Close()
		if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) {
			return nil, fmt.Errorf("client %s: program %q not found: %w", c.Name, args[0], err)
		}
		return nil, fmt.Errorf("client %s: %w", c.Name, err)
	}
	printed := make(chan struct{})
	go func() {
		defer close(printed)
		lines := bufio.NewScanner(read)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			line(lines.Text())
		}
		_, _ = io.Copy(io.Discard, read) // the remainder of a line that is too long
	}()
	go func() {
		p.awaitExit(printed)
		_ = read.Close()
		<-printed
		close(p.exited)
	}()
	return p, nil
}

// awaitExit waits until the process has exited and its output has ended. A child may keep the output open: it counts as a part of the process until that
// was killed.
func (p *process) awaitExit(printed <-chan struct{}) {
	p.err = p.cmd.Wait()
	select {
	case <-printed:
		return
	case <-p.abandoned:
	}
	select {
	case <-printed:
	case <-time.After(p.timeout):
		p.survived = true
	}
}

// kill kills the process and its children, and reports whether a child survived: one that has left the process group.
func (p *process) kill() (survived bool) {
	p.mu.Lock()
	first := !p.killed
	p.killed = true
	p.mu.Unlock()
	killGroup(p.cmd)
	select {
	case <-p.exited:
		return p.survived
	case <-time.After(p.timeout):
	}
	if first {
		close(p.abandoned)
	}
	<-p.exited
	return p.survived
}

// wasKilled reports whether kill was called.
func (p *process) wasKilled() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.killed
}

// freePort returns a TCP port of the loopback interface that is free at the moment.
func freePort() string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "0"
	}
	defer l.Close()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
}

// writeKubeconfig writes a client's kubeconfig, which only its user may read.
func writeKubeconfig(dir string, data []byte) (string, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	file := filepath.Join(dir, "kubeconfig")
	return file, os.WriteFile(file, data, 0o600)
}
