package kubeletapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	utilexec "k8s.io/utils/exec"

	"github.com/rehearse-k8s/rehearse/api/kwok/v1alpha1"
	"github.com/rehearse-k8s/rehearse/internal/kubeletapi/rules"
)

const (
	// idleTimeout ends a stream without traffic, as a kubelet's default does.
	idleTimeout = 4 * time.Hour
	// streamCreationTimeout limits the time until a client has opened its streams.
	streamCreationTimeout = 30 * time.Second
	// outputTimeout limits the time that a process may keep its output open after the end of the command that started it.
	outputTimeout = time.Second
)

// exec answers `kubectl exec`: it runs the command on this machine, if an Exec or ClusterExec object applies to the container.
func (s *Server) exec(w http.ResponseWriter, r *http.Request) {
	if s.rejectsCommands(w, "exec") {
		return
	}
	options, t, ok := s.streamTarget(w, r)
	if !ok {
		return
	}
	m, err := s.execRule(r.Context(), t)
	if err != nil {
		fail(w, err, statusOf(err))
		return
	}
	ctx, w, stop := untilLost(w, r)
	defer stop()
	remotecommand.ServeExec(w, r.WithContext(ctx), executor{m}, t.pod.Name, string(t.pod.UID), t.container, r.URL.Query()["command"],
		options, idleTimeout, streamCreationTimeout, remotecommand.SupportedStreamingProtocols)
}

// rejectsCommands answers a request with an error if Options.NoCommands is set.
func (s *Server) rejectsCommands(w http.ResponseWriter, what string) bool {
	if s.options.NoCommands == "" {
		return false
	}
	fail(w, fmt.Errorf("%s is disabled: %s", what, s.options.NoCommands), http.StatusForbidden)
	return true
}

// streamTarget reads the options and the container of a request. If it returns false, it has answered the request.
func (s *Server) streamTarget(w http.ResponseWriter, r *http.Request) (*remotecommand.Options, target, bool) {
	options, err := remotecommand.NewOptions(r)
	if err != nil {
		fail(w, err, http.StatusBadRequest)
		return nil, target{}, false
	}
	t, err := s.target(r.Context(), r.PathValue("namespace"), r.PathValue("pod"), r.PathValue("container"))
	if err == nil {
		err = checkUID(t, r.PathValue("uid"))
	}
	if err == nil {
		if run, failure := logInstance(t.pod, t.container, false); failure != nil || !run.running {
			err = failed(http.StatusInternalServerError, "container not found (%q): it does not run", t.container)
		}
	}
	if err != nil {
		fail(w, err, statusOf(err))
		return nil, target{}, false
	}
	return options, t, true
}

// checkUID rejects a request for another pod with the same name.
func checkUID(t target, uid string) error {
	if uid != "" && t.pod.UID != types.UID(uid) {
		return failed(http.StatusNotFound, "pod %q with UID %s not found", t.pod.Name, uid)
	}
	return nil
}

// statusOf returns the HTTP status of an error, 400 by default.
func statusOf(err error) int {
	if s := (*statusError)(nil); errors.As(err, &s) {
		return s.code
	}
	return http.StatusBadRequest
}

// execRule selects the entry for commands in a container. Without one it returns an error, because only an object allows commands.
func (s *Server) execRule(ctx context.Context, t target) (*rules.Match[v1alpha1.ExecTarget], error) {
	stored, err := s.stored(ctx, t, "execs", "clusterexecs")
	if err != nil {
		return nil, err
	}
	m, err := rules.Exec(slices.Concat(s.options.Rules.Execs, stored.Execs), t.pod.Namespace, t.pod.Name, t.container)
	switch {
	case err != nil:
		return nil, err
	case m == nil:
		return nil, fmt.Errorf("no Exec or ClusterExec object applies to container %q of pod %q, so no command runs: the container is simulated", t.container, t.pod.Namespace+"/"+t.pod.Name)
	case m.Entry.Local == nil:
		return nil, fmt.Errorf("%s has no field local for container %q, so no command runs", m.Object, t.container)
	}
	return m, nil
}

// executor implements remotecommand.Executor.
type executor struct {
	match *rules.Match[v1alpha1.ExecTarget]
}

// ExecInContainer runs a command with the settings of the entry. A command that fails gives its exit code; one that a signal ends gives
// 128 plus the number of the signal, as in a shell. The end of ctx kills the command and the processes that it has started.
func (e executor) ExecInContainer(ctx context.Context, _, _, _ string, command []string, in io.Reader, out, errOut io.WriteCloser, tty bool, resize <-chan remotecommand.TerminalSize, _ time.Duration) error {
	if len(command) == 0 {
		return errors.New("the request has no command")
	}
	c := exec.CommandContext(ctx, command[0], command[1:]...)
	local := e.match.Entry.Local
	c.Dir = local.WorkDir
	c.Env = os.Environ()
	for _, v := range local.Envs {
		c.Env = append(c.Env, v.Name+"="+v.Value)
	}
	c.WaitDelay = outputTimeout
	err := checkWorkDir(local.WorkDir)
	if err == nil {
		err = setUser(c, local.SecurityContext)
	}
	if err == nil {
		if tty {
			err = runOnTerminal(c, in, out, resize)
		} else {
			err = run(c, in, out, errOut)
		}
	}
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		code := exitCode(exit.ProcessState)
		return utilexec.CodeExitError{Err: fmt.Errorf("exit code %d", code), Code: code}
	}
	if err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		return fmt.Errorf("%s: %w", e.match.Object, startError(command[0], err))
	}
	return nil
}

// checkWorkDir names the directory that does not exist, because the error of Start would name the command.
func checkWorkDir(dir string) error {
	if dir == "" {
		return nil
	}
	info, err := os.Stat(dir)
	if failed := (*fs.PathError)(nil); errors.As(err, &failed) {
		err = failed.Err
	} else if err == nil && !info.IsDir() {
		err = errors.New("is not a directory")
	}
	if err != nil {
		return fmt.Errorf("local.workDir %s: %w", dir, err)
	}
	return nil
}

// startError explains an error of Start with the name of the command as the user wrote it. It returns other errors unchanged.
func startError(command string, err error) error {
	unknown, failed := (*exec.Error)(nil), (*fs.PathError)(nil)
	switch {
	case errors.As(err, &unknown):
		err = unknown.Err
	case errors.As(err, &failed) && failed.Op == "fork/exec":
		err = failed.Err
	default:
		return err
	}
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("start %q: %w; commands run on the machine that simulates the node, not in the image of the container", command, err)
	}
	return fmt.Errorf("start %q: %w", command, err)
}

// run runs a command with pipes. The end of in closes the command's stdin.
func run(c *exec.Cmd, in io.Reader, out, errOut io.WriteCloser) error {
	if in != nil {
		stdin, err := c.StdinPipe()
		if err != nil {
			return err
		}
		// This goroutine ends at the latest when the caller closes the connection. Wait does not wait for it.
		go func() {
			_, _ = io.Copy(stdin, in)
			_ = stdin.Close()
		}()
	}
	// A nil *os.File or writer inside an interface is not nil.
	if out != nil {
		c.Stdout = out
	}
	if errOut != nil {
		c.Stderr = errOut
	}
	newGroup(c)
	if err := c.Start(); err != nil {
		return err
	}
	return c.Wait()
}
