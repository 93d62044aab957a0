package cli

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/rehearse-k8s/rehearse/cluster"
	clustercmd "github.com/rehearse-k8s/rehearse/internal/cli/cluster"
	"github.com/rehearse-k8s/rehearse/internal/cli/console"
	"github.com/rehearse-k8s/rehearse/internal/cli/statedir"
)

// testBench is an app whose environment consists of test values.
type testBench struct {
	*app
	home    string
	signal  chan os.Signal
	exits   chan int
	out     *bytes.Buffer
	err     *bufio.Reader
	errEnd  *io.PipeWriter
	cluster *fake
}

func newBench(t *testing.T) *testBench {
	t.Helper()
	r, w := io.Pipe()
	b := &testBench{
		home: t.TempDir(), signal: make(chan os.Signal), exits: make(chan int, 1),
		out: &bytes.Buffer{}, err: bufio.NewReader(r), errEnd: w,
	}
	b.app = newApp(Streams{In: strings.NewReader(""), Out: b.out, Err: w})
	b.Getenv = func(k string) string { return map[string]string{"HOME": b.home}[k] }
	b.Signals = func() (<-chan os.Signal, func()) { return b.signal, func() {} }
	b.Exit = func(code int) { b.exits <- code }
	b.Now = func() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) }
	b.start = func(_ context.Context, o cluster.Options) (clustercmd.Running, error) {
		b.cluster = newFake(o.Name, o.StateDir)
		return b.cluster, nil
	}
	return b
}

// begin runs a command in the background; the channel receives its exit code.
func (b *testBench) begin(args ...string) <-chan int {
	code := make(chan int, 1)
	go func() {
		code <- b.run(context.Background(), args)
		_ = b.errEnd.Close()
	}()
	return code
}

// line returns the next line on stderr.
func (b *testBench) line(t *testing.T) string {
	t.Helper()
	l, err := b.err.ReadString('\n')
	if err != nil && err != io.EOF {
		t.Fatal(err)
	}
	return strings.TrimSuffix(l, "\n")
}

func (b *testBench) config() string { return filepath.Join(b.home, ".kube", "config") }

func TestUpAndCtrlC(t *testing.T) {
	b := newBench(t)
	writeFile(t, b.config(), "apiVersion: v1\nkind: Config\ncurrent-context: prod\ncontexts:\n- {name: prod, context: {cluster: c}}\n")
	before := readConfig(t, b.config())
	code := b.begin("up", "--name", "a")
	if got, want := b.line(t),
		`Cluster "a" is ready in 0.0 s, context "rehearse-a"; try: kubectl --context rehearse-a get nodes (Ctrl-C stops it)`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	during := readConfig(t, b.config())
	if during.CurrentContext != "rehearse-a" || during.Clusters["rehearse-a"].Server != b.cluster.URL() {
		t.Errorf("not merged: %+v", during)
	}
	root := statedir.Root(filepath.Join(b.home, ".local", "state", "rehearse"))
	if e, _, err := root.Look("a"); err != nil || !e.Live || e.Record.URL != b.cluster.URL() {
		t.Errorf("not recorded: %+v %v", e, err)
	}
	b.signal <- os.Interrupt
	if got, want := b.line(t), `Cluster "a" has stopped.`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if c := <-code; c != console.ExitInterrupted {
		t.Errorf("exit code %d", c)
	}
	if after := readConfig(t, b.config()); after.CurrentContext != before.CurrentContext || len(after.Clusters)+len(after.AuthInfos) != 0 {
		t.Errorf("left behind: %+v", after)
	}
	if _, err := os.Stat(root.Path("a")); !os.IsNotExist(err) {
		t.Errorf("the state directory is still there: %v", err)
	}
	if b.out.Len() != 0 {
		t.Errorf("stdout: %s", b.out)
	}
}

func TestSecondCtrlCEndsAtOnce(t *testing.T) {
	b := newBench(t)
	stopping, release := make(chan struct{}), make(chan struct{})
	b.start = func(_ context.Context, o cluster.Options) (clustercmd.Running, error) {
		b.cluster = newFake(o.Name, o.StateDir)
		b.cluster.stop = func() { close(stopping); <-release }
		return b.cluster, nil
	}
	code := b.begin("up")
	_ = b.line(t)
	b.signal <- os.Interrupt
	<-stopping
	if _, err := os.Stat(b.config()); !os.IsNotExist(err) {
		t.Errorf("the kubeconfig is cleaned before anything that takes time: %v", err)
	}
	b.signal <- os.Interrupt
	if c := <-b.exits; c != console.ExitInterrupted {
		t.Errorf("exit code %d", c)
	}
	close(release)
	_ = b.line(t)
	<-code
}

func TestInterruptDuringStart(t *testing.T) {
	b := newBench(t)
	started := make(chan struct{})
	b.start = func(ctx context.Context, _ cluster.Options) (clustercmd.Running, error) {
		close(started)
		<-ctx.Done()
		return nil, ctx.Err()
	}
	code := b.begin("up")
	<-started
	b.signal <- syscall.SIGTERM
	if c := <-code; c != console.ExitInterrupted {
		t.Errorf("exit code %d", c)
	}
	if l := b.line(t); l != "" {
		t.Errorf("an interrupted command says nothing, this one says %q", l)
	}
}

func TestOptionsReachTheCluster(t *testing.T) {
	b := newBench(t)
	var got cluster.Options
	b.start = func(_ context.Context, o cluster.Options) (clustercmd.Running, error) {
		got = o
		return nil, &cluster.UsageError{Message: "--controllers: no such"}
	}
	dir := t.TempDir()
	for _, name := range []string{"a.yaml", "b.yaml"} {
		writeFile(t, filepath.Join(dir, name), "apiVersion: v1\nkind: ConfigMap\n") // up only lists the files
	}
	code := b.begin("up", "--name=x", "--nodes=7", "--data-dir=d", "--bind-address=::1", "--port=6443",
		"--controllers=*,-job", "--controllers=foo", "--stages="+dir+"/a.yaml,"+dir+"/b.yaml")
	if l := b.line(t); l != "rehearse: --controllers: no such (see 'rehearse up --help')" {
		t.Errorf("got %q", l)
	}
	if c := <-code; c != console.ExitUsage {
		t.Errorf("exit code %d", c)
	}
	if got.Name != "x" || got.Nodes != 7 || got.DataDir != "d" || got.BindAddress != "::1" || got.Port != 6443 ||
		strings.Join(got.Controllers, " ") != "* -job foo" || strings.Join(got.StageFiles, " ") != dir+"/a.yaml "+dir+"/b.yaml" ||
		got.Version == "" || !strings.HasSuffix(got.StateDir, "clusters/x") {
		t.Errorf("%+v", got)
	}
}

func writeFile(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func readConfig(t *testing.T, path string) *clientcmdapi.Config {
	t.Helper()
	c, err := clientcmd.LoadFromFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return c
}
