//go:build unix

package cluster_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	//lint:ignore SA1019 the dialers of client-go still have the type of this package
	"k8s.io/apimachinery/pkg/util/httpstream"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/transport/spdy"
	utilexec "k8s.io/client-go/util/exec"
)

// executors open a stream with each of the protocols that kubectl uses.
func (k kubeletCluster) executors(t *testing.T, subresource, pod string, options any) map[string]remotecommand.Executor {
	t.Helper()
	request := k.CoreV1().RESTClient().Post().Namespace("default").Resource("pods").Name(pod).SubResource(subresource)
	switch o := options.(type) {
	case *corev1.PodExecOptions:
		request.VersionedParams(o, scheme.ParameterCodec)
	case *corev1.PodAttachOptions:
		request.VersionedParams(o, scheme.ParameterCodec)
	}
	overSPDY, err := remotecommand.NewSPDYExecutor(k.config, http.MethodPost, request.URL())
	if err != nil {
		t.Fatal(err)
	}
	overWebSocket, err := remotecommand.NewWebSocketExecutor(k.config, http.MethodGet, request.URL().String())
	if err != nil {
		t.Fatal(err)
	}
	return map[string]remotecommand.Executor{"SPDY": overSPDY, "WebSocket": overWebSocket}
}

// command runs a shell command in a container with each protocol.
func (k kubeletCluster) command(t *testing.T, container, script, stdin string, check func(out, errOut string, err error) string) {
	t.Helper()
	o := &corev1.PodExecOptions{Container: container, Command: []string{"sh", "-c", script}, Stdin: stdin != "", Stdout: true, Stderr: true}
	for protocol, e := range k.executors(t, "exec", "web", o) {
		var out, errOut bytes.Buffer
		s := remotecommand.StreamOptions{Stdout: &out, Stderr: &errOut}
		if stdin != "" {
			s.Stdin = strings.NewReader(stdin)
		}
		err := e.StreamWithContext(t.Context(), s)
		if problem := check(out.String(), errOut.String(), err); problem != "" {
			t.Errorf("%s over %s: %s: got %q, %q, %v", script, protocol, problem, out.String(), errOut.String(), err)
		}
	}
}

// output checks the output of a command that succeeds.
func output(want string) func(out, errOut string, err error) string {
	return func(out, _ string, err error) string {
		if err != nil || out != want {
			return fmt.Sprintf("want %q", want)
		}
		return ""
	}
}

// failure checks the error of a request.
func failure(want string) func(out, errOut string, err error) string {
	return func(_, _ string, err error) string {
		if err == nil || !strings.Contains(err.Error(), want) {
			return fmt.Sprintf("want error %q", want)
		}
		return ""
	}
}

const execRules = `
apiVersion: kwok.x-k8s.io/v1alpha1
kind: ClusterExec
metadata: {name: all}
spec:
  execs:
  - containers: [main]
    local:
      workDir: DIR
      envs: [{name: TEST_ENV, value: a b}]
  - containers: [own]
    local: {securityContext: {runAsUser: UID}}
  - containers: [other]
    local: {securityContext: {runAsUser: 65534, runAsGroup: 65533}}
`

// TestExec: commands run with the settings of the entry that applies, and only if one applies.
func TestExec(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	text := strings.NewReplacer("DIR", dir, "UID", fmt.Sprint(os.Getuid())).Replace(execRules)
	k := startKubelets(t, writeFile(t, filepath.Join(dir, "exec.yaml"), text))
	k.pod(t, "web", map[string]corev1.ContainerState{"main": running(), "own": running(), "other": running(), "bare": running(), "done": terminated()})

	k.command(t, "main", "echo $TEST_ENV; pwd", "", output("a b\n"+dir+"\n"))
	k.command(t, "main", "cat; echo end", "from stdin\n", output("from stdin\nend\n"))
	k.command(t, "main", "echo out; echo err >&2; exit 3", "", func(out, errOut string, err error) string {
		if exit := (utilexec.CodeExitError{}); !errors.As(err, &exit) || exit.Code != 3 || out != "out\n" || errOut != "err\n" {
			return "want exit code 3 and separate streams"
		}
		return ""
	})
	k.command(t, "main", "kill -TERM $$", "", func(_, _ string, err error) string {
		if exit := (utilexec.CodeExitError{}); !errors.As(err, &exit) || exit.Code != 143 {
			return "want exit code 143"
		}
		return ""
	})
	k.command(t, "own", "id -u", "", output(fmt.Sprintln(os.Getuid())))
	if os.Getuid() == 0 {
		k.command(t, "other", "id -u; id -g", "", output("65534\n65533\n"))
	} else {
		k.command(t, "other", "id -u", "", failure("operation not permitted"))
	}
	k.command(t, "bare", "touch "+filepath.Join(dir, "ran"), "", failure(`no Exec or ClusterExec object applies to container "bare" of pod "default/web", so no command runs`))
	if _, err := os.Stat(filepath.Join(dir, "ran")); err == nil {
		t.Error("a command ran without an object that allows it")
	}
	k.command(t, "done", "true", "", failure(`container not found ("done")`))
	o := &corev1.PodExecOptions{Container: "main", Command: []string{"/no/such/command"}, Stdout: true}
	for protocol, e := range k.executors(t, "exec", "web", o) {
		err := e.StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdout: io.Discard})
		if problem := failure("no such file or directory")("", "", err); problem != "" {
			t.Errorf("%s: %s, got %v", protocol, problem, err)
		}
	}
}

// sizes is a queue of terminal sizes.
type sizes chan remotecommand.TerminalSize

// Next implements remotecommand.TerminalSizeQueue.
func (s sizes) Next() *remotecommand.TerminalSize {
	size, ok := <-s
	if !ok {
		return nil
	}
	return &size
}

// TestExecTerminal: with -t the command has a controlling terminal, whose size follows the client's.
func TestExecTerminal(t *testing.T) {
	dir := t.TempDir()
	k := startKubelets(t, writeFile(t, filepath.Join(dir, "exec.yaml"), "apiVersion: kwok.x-k8s.io/v1alpha1\nkind: ClusterExec\nmetadata: {name: all}\nspec: {execs: [{local: {}}]}\n"))
	k.pod(t, "web", map[string]corev1.ContainerState{"main": running()})
	script := `stty -echo; test -t 0 && test -t 1 && test -t 2 && echo terminal; echo controlling >/dev/tty
until [ "$(stty size)" = "30 100" ]; do :; done; echo resized; read line; echo "got $line"; exit 4`
	o := &corev1.PodExecOptions{Command: []string{"sh", "-c", script}, Stdin: true, Stdout: true, TTY: true}
	for protocol, e := range k.executors(t, "exec", "web", o) {
		size := make(sizes, 2)
		size <- remotecommand.TerminalSize{Width: 80, Height: 24}
		size <- remotecommand.TerminalSize{Width: 100, Height: 30}
		var out bytes.Buffer
		err := e.StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdin: strings.NewReader("input\n"), Stdout: &out, Tty: true, TerminalSizeQueue: size})
		close(size)
		// The input may be echoed before stty turns the echo off.
		got := strings.TrimPrefix(out.String(), "input\r\n")
		if exit := (utilexec.CodeExitError{}); !errors.As(err, &exit) || exit.Code != 4 || got != "terminal\r\ncontrolling\r\nresized\r\ngot input\r\n" {
			t.Errorf("%s: got %q, %v", protocol, out.String(), err)
		}
	}
}

// TestExecEnds: the command and its children end when the client leaves. Over WebSocket the API server notices only the end of the
// client's input, so a command that reads no input ends with the cluster.
func TestExecEnds(t *testing.T) {
	dir := t.TempDir()
	fifo := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	k := startKubelets(t, writeFile(t, filepath.Join(dir, "exec.yaml"), "apiVersion: kwok.x-k8s.io/v1alpha1\nkind: ClusterExec\nmetadata: {name: all}\nspec: {execs: [{local: {}}]}\n"))
	k.pod(t, "web", map[string]corev1.ContainerState{"main": running()})
	// start runs a command with children. They have the FIFO open for writing until the last of them has ended.
	start := func(protocol, command string, stdin, tty bool) (leave func(), ended *os.File) {
		o := &corev1.PodExecOptions{Command: []string{"sh", "-c", `exec 3>"` + fifo + `"; echo open >&3; ` + command + `; true`}, Stdin: stdin, Stdout: true, TTY: tty}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		stream := remotecommand.StreamOptions{Stdout: io.Discard, Tty: tty}
		if stdin {
			input, writer := io.Pipe()
			t.Cleanup(func() { _ = writer.Close() })
			stream.Stdin = input
		}
		go func() {
			defer close(done)
			err := k.executors(t, "exec", "web", o)[protocol].StreamWithContext(ctx, stream)
			// If the command was never started, this releases the test, which opens the FIFO to read.
			if f, e := os.OpenFile(fifo, os.O_WRONLY|syscall.O_NONBLOCK, 0); e == nil {
				_ = f.Close()
				if ctx.Err() == nil {
					t.Errorf("exec ended before its command: %v", err)
				}
			}
		}()
		f, err := os.Open(fifo)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Close() })
		if _, err := f.Read(make([]byte, 5)); err != nil {
			t.Error(err)
		}
		return func() { cancel(); <-done }, f
	}
	wantEnded := func(what string, ended *os.File) {
		t.Helper()
		if rest, err := io.ReadAll(ended); err != nil || len(rest) > 0 {
			t.Errorf("%s: got %q, %v", what, rest, err)
		}
	}
	for _, tty := range []bool{false, true} {
		leave, ended := start("SPDY", "tail -f /dev/null", false, tty)
		leave()
		wantEnded("SPDY", ended)
		leave, ended = start("WebSocket", "cat", true, tty)
		leave()
		wantEnded("WebSocket", ended)
	}
	leave, ended := start("WebSocket", "tail -f /dev/null", false, false)
	leave()
	k.Stop()
	wantEnded("the cluster", ended)
}

// lockedBuffer receives the output of a stream while the test reads it.
type lockedBuffer struct {
	mu      sync.Mutex
	text    bytes.Buffer
	written chan struct{}
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	defer func() {
		select {
		case b.written <- struct{}{}:
		default:
		}
	}()
	return b.text.Write(p)
}

// await waits until the output is text, and fails if the stream ends before that.
func (b *lockedBuffer) await(t *testing.T, text string, ended <-chan error) {
	t.Helper()
	for {
		select {
		case <-b.written:
		case err := <-ended:
			t.Fatalf("the stream ended before it wrote %q: %v", text, err)
		}
		b.mu.Lock()
		got := b.text.String()
		b.mu.Unlock()
		if got == text {
			return
		}
	}
}

// TestAttach: an attached client receives the lines that are written from then on, until the container ends.
func TestAttach(t *testing.T) {
	for _, protocol := range []string{"SPDY", "WebSocket"} {
		t.Run(protocol, func(t *testing.T) {
			dir := t.TempDir()
			file := writeFile(t, filepath.Join(dir, "web.log"), criLog(0, "before"))
			k := startKubelets(t, writeFile(t, filepath.Join(dir, "attach.yaml"),
				"apiVersion: kwok.x-k8s.io/v1alpha1\nkind: ClusterAttach\nmetadata: {name: all}\nspec: {attaches: [{containers: [main], logsFile: "+file+"}, {containers: [missing], logsFile: "+file+".missing}]}\n"))
			p := k.pod(t, "web", map[string]corev1.ContainerState{"main": running(), "missing": running(), "bare": running()})
			for container, want := range map[string]string{
				"missing": "open " + file + ".missing: no such file or directory",
				"bare":    `no Attach or ClusterAttach object applies to container "bare" of pod "default/web"`,
			} {
				e := k.executors(t, "attach", "web", &corev1.PodAttachOptions{Container: container, Stdout: true})[protocol]
				err := e.StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdout: io.Discard})
				if problem := failure(want)("", "", err); problem != "" {
					t.Errorf("%s, got %v", problem, err)
				}
			}
			out, errOut := &lockedBuffer{written: make(chan struct{}, 1)}, &lockedBuffer{written: make(chan struct{}, 1)}
			e := k.executors(t, "attach", "web", &corev1.PodAttachOptions{Container: "main", Stdin: true, Stdout: true, Stderr: true})[protocol]
			done := make(chan error, 1)
			stdin, input := io.Pipe()
			defer input.Close()
			go func() {
				done <- e.StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdin: stdin, Stdout: out, Stderr: errOut})
			}()
			// The client does not know when the server starts to read the file, so the test writes until a line arrives.
			n := 1
			tick := time.NewTicker(10 * time.Millisecond)
			defer tick.Stop()
			for arrived := false; !arrived; n++ {
				extendFile(t, file, criLog(n, "now"))
				select {
				case <-out.written:
					arrived = true
				case err := <-done:
					t.Fatalf("attach ended before a line arrived: %v", err)
				case <-tick.C:
				}
			}
			extendFile(t, file, strings.Replace(criLog(n, "wrong"), "stdout", "stderr", 1))
			errOut.await(t, "wrong\n", done)
			p.Status.Phase = corev1.PodSucceeded
			k.setStatus(t, p)
			if err := <-done; err != nil {
				t.Error(err)
			}
			if strings.Contains(out.text.String(), "before") || strings.Contains(out.text.String(), "wrong") {
				t.Errorf("got %q", out.text.String())
			}
		})
	}
}

// echo answers each connection with what it received, when the client has ended its direction.
func echo(t *testing.T) *net.TCPAddr {
	t.Helper()
	return serveTCP(t, func(conn net.Conn) {
		data, _ := io.ReadAll(conn)
		_, _ = fmt.Fprintf(conn, "echo %s", data)
	})
}

// serveTCP answers each connection until the end of the test, and closes it.
func serveTCP(t *testing.T, answer func(net.Conn)) *net.TCPAddr {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				answer(conn)
			}()
		}
	}()
	return l.Addr().(*net.TCPAddr)
}

// forwardStream sends a text to a port over a stream of its own, and returns the answer and the error of the kubelet.
func forwardStream(t *testing.T, dialer httpstream.Dialer, port int, text string) (answer, problem string) {
	t.Helper()
	conn, _, err := dialer.Dial(portforward.PortForwardProtocolV1Name)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	stream := func(kind string) (httpstream.Stream, error) {
		return conn.CreateStream(http.Header{
			http.CanonicalHeaderKey(corev1.StreamType): {kind}, http.CanonicalHeaderKey(corev1.PortHeader): {fmt.Sprint(port)},
			http.CanonicalHeaderKey(corev1.PortForwardRequestIDHeader): {"1"},
		})
	}
	problems, err := stream(corev1.StreamTypeError)
	if err != nil {
		t.Fatal(err)
	}
	_ = problems.Close()
	// An error of the port resets the stream, perhaps before upstream's handler has confirmed it (its portForward does not wait for the reply).
	data, err := stream(corev1.StreamTypeData)
	if err != nil && err.Error() != "Stream reset" {
		t.Fatal(err)
	}
	var out []byte
	if err == nil {
		_, _ = io.WriteString(data, text)
		_ = data.Close()
		out, _ = io.ReadAll(data)
	}
	message, _ := io.ReadAll(problems)
	return string(out), string(message)
}

// forwardPort forwards a port of this machine as kubectl does, sends a text through one connection, and returns the answer.
func forwardPort(t *testing.T, dialer httpstream.Dialer, port int, text string) string {
	t.Helper()
	stop, ready := make(chan struct{}), make(chan struct{})
	f, err := portforward.New(dialer, []string{fmt.Sprintf("0:%d", port)}, stop, ready, io.Discard, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- f.ForwardPorts() }()
	select {
	case <-ready:
	case err := <-done:
		t.Fatal(err)
	}
	defer func() { close(stop); <-done }()
	ports, err := f.GetPorts()
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", ports[0].Local))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, text); err != nil {
		t.Error(err)
	}
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Error(err)
	}
	data, err := io.ReadAll(conn)
	if err != nil {
		t.Error(err)
	}
	return string(data)
}

// TestPortForward: connections go to the address or the command of the entry for the port.
func TestPortForward(t *testing.T) {
	dir, address := t.TempDir(), echo(t)
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closedPort := closed.Addr().(*net.TCPAddr).Port
	_ = closed.Close()
	config := writeFile(t, filepath.Join(dir, "forward.yaml"), fmt.Sprintf(`
apiVersion: kwok.x-k8s.io/v1alpha1
kind: ClusterPortForward
metadata: {name: all}
spec:
  forwards:
  - {ports: [80], target: {port: %d, address: localhost}}
  - {ports: [81], command: [sh, -c, "read line; echo command $line"]}
  - {ports: [82], target: {port: %d, address: 127.0.0.1}}
  - {ports: [84], command: [sh, -c, "echo wrong >&2; exit 5"]}
`, address.Port, closedPort))
	k := startKubelets(t, config)
	k.pod(t, "web", map[string]corev1.ContainerState{"main": running()})
	url := k.CoreV1().RESTClient().Post().Namespace("default").Resource("pods").Name("web").SubResource("portforward").URL()
	roundTripper, upgrader, err := spdy.RoundTripperFor(k.config)
	if err != nil {
		t.Fatal(err)
	}
	tunnel, err := portforward.NewSPDYOverWebsocketDialer(url, k.config)
	if err != nil {
		t.Fatal(err)
	}
	for protocol, dialer := range map[string]httpstream.Dialer{
		"SPDY": spdy.NewDialer(upgrader, &http.Client{Transport: roundTripper}, http.MethodPost, url), "WebSocket": tunnel,
	} {
		t.Run(protocol, func(t *testing.T) {
			for _, c := range []struct {
				port       int
				want, fail string
			}{
				{port: 80, want: "echo hello\n"},
				{port: 81, want: "command hello\n"},
				{port: 82, fail: "connection refused"},
				{port: 83, fail: `no PortForward or ClusterPortForward object applies to port 83 of pod "default/web"`},
				{port: 84, fail: "ClusterPortForward all of file " + config + ": sh: exit status 5: wrong"},
			} {
				got, problem := forwardStream(t, dialer, c.port, "hello\n")
				if got != c.want || !strings.Contains(problem, c.fail) || c.fail == "" && problem != "" {
					t.Errorf("port %d: got %q, %q, want %q, %q", c.port, got, problem, c.want, c.fail)
				}
				if c.fail != "" {
					continue
				}
				if got := forwardPort(t, dialer, c.port, "hello\n"); got != c.want {
					t.Errorf("port %d of this machine: got %q, want %q", c.port, got, c.want)
				}
			}
		})
	}
}
