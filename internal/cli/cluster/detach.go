package cluster

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rehearse-k8s/rehearse/internal/cli/config"
	"github.com/rehearse-k8s/rehearse/internal/cli/console"
	"github.com/rehearse-k8s/rehearse/internal/cli/kubeconfig"
	"github.com/rehearse-k8s/rehearse/internal/cli/statedir"
	"github.com/rehearse-k8s/rehearse/internal/cli/target"
)

// startTimeout is how long the start of a detached cluster may take by default. A normal start takes seconds.
const startTimeout = 2 * time.Minute

// restoreTimeout is the same for a cluster that begins with a snapshot, which may contain 100,000 objects.
const restoreTimeout = time.Hour

// childReport is what a detached cluster reports to the command that started it, as one line of JSON over a pipe.
type childReport struct {
	Ready bool   `json:"ready,omitempty"`
	Error string `json:"error,omitempty"`
	Code  int    `json:"code,omitempty"`
}

// reporter is the child's end of the pipe. Without a pipe it does nothing.
type reporter struct{ pipe *os.File }

func newReporter(fd int) *reporter {
	if fd <= 0 {
		return &reporter{}
	}
	return &reporter{pipe: os.NewFile(uintptr(fd), "ready")}
}

func (r *reporter) ready() { r.send(childReport{Ready: true}) }

// failed reports an error. After ready it does nothing.
func (r *reporter) failed(err error) {
	if err != nil {
		r.send(childReport{Error: console.Message(err), Code: console.ExitCode(err)})
	}
}

func (r *reporter) send(c childReport) {
	if r.pipe == nil {
		return
	}
	_ = json.NewEncoder(r.pipe).Encode(c) // without a parent the cluster runs on
	_ = r.pipe.Close()
	r.pipe = nil
}

// detach starts this program again in a session of its own and waits until its cluster is healthy.
func (a *app) detach(parent context.Context, o *upOptions, args []string) error {
	ctx, stop := a.Interruptible(parent)
	defer stop()
	root, err := a.precheck(ctx, o)
	if err != nil {
		return err
	}
	log, err := os.OpenFile(root.LogPath(o.cluster.Name), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("log file: %w", err)
	}
	defer log.Close()
	begin := a.Now()
	child, pipe, err := a.spawn(args, log)
	if err != nil {
		return err
	}
	defer pipe.Close()
	p := a.NewProgress()
	p.Show("Starting cluster %q ...", o.cluster.Name)
	report, err := awaitReport(ctx, pipe, o.timeout)
	p.Clear()
	switch {
	case errors.Is(err, console.ErrInterrupted):
		_ = child.Process.Signal(os.Interrupt)
		a.complain(awaitExit(child, stopTimeout))
		return err
	case err != nil:
		_ = child.Process.Kill()
		a.complain(awaitExit(child, killTimeout))
		a.showTail(log.Name())
		return fmt.Errorf("cluster %q did not start: %w (log: %s)", o.cluster.Name, err, log.Name())
	case !report.Ready:
		a.complain(awaitExit(child, stopTimeout))
		return childError(report)
	}
	if err := healthy(ctx, root.KubeconfigPath(o.cluster.Name)); err != nil {
		return fmt.Errorf("cluster %q runs but is not healthy: %w (log: %s; stop it: rehearse down %s)",
			o.cluster.Name, err, log.Name(), o.cluster.Name)
	}
	a.announce(o.cluster.Name, fmt.Sprintf("ready in %.1f s", a.Now().Sub(begin).Seconds()),
		"'"+strings.TrimSpace("rehearse down "+a.unlessDefault(o.cluster.Name))+"' stops it")
	return child.Process.Release()
}

// awaitExit waits until the child has exited. One that does not exit in time is killed, and the error says so.
func awaitExit(child *exec.Cmd, timeout time.Duration) error {
	exited := make(chan struct{})
	go func() {
		defer close(exited)
		_ = child.Wait() // the report or the log has the reason
	}()
	select {
	case <-exited:
		return nil
	case <-time.After(timeout):
	}
	pid := child.Process.Pid
	_ = child.Process.Kill()
	select {
	case <-exited:
		return fmt.Errorf("background process (pid %d): did not exit within %s and was killed", pid, timeout)
	case <-time.After(killTimeout):
		return fmt.Errorf("background process (pid %d): did not exit %s after SIGKILL", pid, killTimeout)
	}
}

// complain prints an error that does not change the exit code.
func (a *app) complain(err error) {
	if err != nil {
		a.Say("rehearse: %s", console.Message(err))
	}
}

func (a *app) unlessDefault(name string) string {
	if name == target.DefaultName(a.Getenv) {
		return ""
	}
	return name
}

// precheck finds errors in the foreground that would make the child exit at once.
func (a *app) precheck(ctx context.Context, o *upOptions) (statedir.Root, error) {
	files, err := kubeconfig.Find(o.kubeconfig, a.Getenv)
	if err != nil {
		return "", err
	}
	if err := files.Check(target.ContextName(o.cluster.Name)); err != nil {
		return "", err
	}
	if err := a.checkStopped(o); err != nil {
		return "", err
	}
	root, err := statedir.DefaultRoot(a.Getenv)
	if err != nil {
		return "", err
	}
	if err := root.CheckFree(o.cluster.Name); err != nil {
		return "", err
	}
	if err := checkContext(ctx, files, o.cluster.Name, ""); err != nil {
		return "", err
	}
	return root, root.Prepare(o.cluster.Name)
}

// spawn starts the child with stdout and stderr in the log and the pipe as its file descriptor 3.
func (a *app) spawn(args []string, log *os.File) (*exec.Cmd, *os.File, error) {
	exe, err := a.Executable()
	if err != nil {
		return nil, nil, err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	defer w.Close() // so that the pipe ends when the child does
	child := exec.Command(exe, append(args, "--ready-fd=3")...)
	child.Stdout, child.Stderr = log, log
	child.ExtraFiles = []*os.File{w}
	if err := ownSession(child); err != nil {
		_ = r.Close()
		return nil, nil, err
	}
	if err := child.Start(); err != nil {
		_ = r.Close()
		return nil, nil, fmt.Errorf("start the background process: %w", err)
	}
	return child, r, nil
}

// awaitReport waits for the child's line, its exit, the user, or the timeout.
func awaitReport(ctx context.Context, pipe *os.File, timeout time.Duration) (childReport, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("not ready after %s", timeout))
	defer cancel()
	type answer struct {
		report childReport
		err    error
	}
	got := make(chan answer, 1)
	go func() {
		var r answer
		line, err := bufio.NewReader(pipe).ReadBytes('\n')
		if err == nil {
			err = json.Unmarshal(line, &r.report)
		}
		if errors.Is(err, io.EOF) {
			err = errors.New("its process exited without a report")
		}
		r.err = err
		got <- r
	}()
	select {
	case r := <-got:
		return r.report, r.err
	case <-ctx.Done():
		if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
			return childReport{}, cause
		}
		return childReport{}, console.ErrInterrupted
	}
}

// childError is the child's error as an error of this command.
func childError(r childReport) error {
	switch r.Code {
	case console.ExitUsage:
		return &console.UsageError{Message: r.Error}
	case console.ExitInterrupted:
		return console.ErrInterrupted
	case console.ExitInconclusive:
		return &console.InconclusiveError{Message: r.Error}
	}
	return errors.New(r.Error)
}

// showTail prints the last lines of the log of a child that exited without a report.
func (a *app) showTail(path string) {
	data, err := os.ReadFile(path)
	if err != nil {
		return
	}
	lines := strings.Split(strings.TrimRight(string(data), "\n"), "\n")
	const shown = 20
	for _, l := range lines[max(0, len(lines)-shown):] {
		a.Say("  %s", l)
	}
}

// childArgs is the command line again, flag by flag, without --detach.
func childArgs(cmd *cobra.Command) []string {
	args := []string{"up"}
	named := false
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if f.Name == "detach" || f.Name == "config" || f.Name == "timeout" {
			return // the flags have the values of the file
		}
		named = named || f.Name == "name"
		value := f.Value.String()
		if list, ok := f.Value.(pflag.SliceValue); ok {
			value = config.Line(list.GetSlice())
		}
		args = append(args, "--"+f.Name+"="+value)
	})
	if !named {
		args = append(args, "--name="+cmd.Flag("name").Value.String())
	}
	return args
}
