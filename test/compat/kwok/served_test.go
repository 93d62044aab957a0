//go:build unix

package kwok

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"

	"github.com/rehearse-k8s/rehearse/cluster"
	"github.com/rehearse-k8s/rehearse/internal/apiserver"
	"github.com/rehearse-k8s/rehearse/internal/kubeletapi/rules"
)

// moduleRoot is the directory of KWOK's module.
func moduleRoot(t *testing.T) string {
	t.Helper()
	stages, err := shipped()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(stages, "..", "..")
}

// served is a running cluster with one simulated node, the built-in stages and files of KWOK.
type served struct {
	*kubernetes.Clientset
	config *rest.Config
}

func serve(t *testing.T, files ...string) served {
	t.Helper()
	apiserver.Quiet()
	c, err := cluster.Start(t.Context(), cluster.Options{StateDir: t.TempDir(), Nodes: 1, StageFiles: files})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Stop()
		if err := c.Err(); err != nil {
			t.Errorf("the cluster ended with %v", err)
		}
	})
	config, err := clientcmd.NewDefaultClientConfig(*c.Kubeconfig(), nil).ClientConfig()
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1
	s := served{kubernetes.NewForConfigOrDie(config), config}
	accounts, err := s.CoreV1().ServiceAccounts("default").Watch(t.Context(), named("default"))
	if err != nil {
		t.Fatal(err)
	}
	awaitEvent(t, accounts, "service account", func(*corev1.ServiceAccount) bool { return true })
	nodes, err := s.CoreV1().Nodes().Watch(t.Context(), named("node-0"))
	if err != nil {
		t.Fatal(err)
	}
	// The API server finds the kubelet of a pod by the addresses of its node.
	awaitEvent(t, nodes, "node", func(n *corev1.Node) bool { return len(n.Status.Addresses) > 0 })
	return s
}

func named(name string) metav1.ListOptions {
	return metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()}
}

// awaitEvent waits for an object that meets a condition.
func awaitEvent[T any](t *testing.T, w watch.Interface, what string, met func(T) bool) {
	t.Helper()
	defer time.AfterFunc(time.Minute, w.Stop).Stop()
	defer w.Stop()
	for e := range w.ResultChan() {
		if o, ok := e.Object.(T); ok && met(o) {
			return
		}
	}
	t.Fatalf("the watch of the %s ended, or a minute is over", what)
}

// pod creates a pod, and waits until the stages have started it.
func (s served) pod(t *testing.T, name string, annotations map[string]string, containers ...string) {
	t.Helper()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations}, Spec: corev1.PodSpec{NodeName: "node-0"}}
	for _, c := range containers {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: c, Image: c})
	}
	if _, err := s.CoreV1().Pods("default").Create(t.Context(), p, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	w, err := s.CoreV1().Pods("default").Watch(t.Context(), named(name))
	if err != nil {
		t.Fatal(err)
	}
	awaitEvent(t, w, "pod", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning })
}

// TestShippedObjectsAreTested: the tests of this package run each file of KWOK that configures a kubelet endpoint, usage or a metric.
func TestShippedObjectsAreTested(t *testing.T) {
	root := moduleRoot(t)
	var found []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".yaml" {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for document := range strings.SplitSeq(string(data), "\n---\n") {
			if rules.IsRule([]byte(document)) {
				name, err := filepath.Rel(root, path)
				found = append(found, filepath.ToSlash(name))
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	charts := []string{"charts/metrics-usage/templates/metrics-resource.yaml", "charts/metrics-usage/templates/usage-from-annotation.yaml"}
	tested := slices.Concat(charts, usageFiles)
	for _, e := range examples {
		tested = append(tested, e.files()...)
	}
	slices.Sort(tested)
	if !slices.Equal(found, tested) {
		t.Errorf("KWOK has  %v\ntests run %v", found, tested)
	}
	for i, chart := range charts {
		if a, b := readFile(t, filepath.Join(root, chart)), readFile(t, filepath.Join(root, usageFiles[i])); a != b {
			t.Errorf("%s is not %s", chart, usageFiles[i])
		}
	}
}

// example is a directory of KWOK with one file for each of logs, exec, attach and port-forward.
type example struct {
	dir, portForward string
	// logs and attach are the files that the objects name, relative to the working directory of the cluster.
	logs, attach string
	env          string // the variable of the Exec object
	port         int32  // the port of the pod that KWOK's test or demonstration forwards
}

var examples = []example{
	{dir: "test/e2e", portForward: "port_forward.yaml", logs: "logs.log", attach: "attach.log", env: "TEST=test", port: 8080},
	{dir: "demo", portForward: "port-forward.yaml", logs: "logs/kwok.log", attach: "logs/kwok.log", env: "TEST_ENV=test", port: 10247},
}

func (e example) files() []string {
	return []string{e.dir + "/attach.yaml", e.dir + "/exec.yaml", e.dir + "/logs.yaml", e.dir + "/" + e.portForward}
}

// TestShippedExamples: KWOK's files for logs, exec, attach and port-forward work unchanged, with the steps of KWOK's own tests.
func TestShippedExamples(t *testing.T) {
	for _, e := range examples {
		t.Run(e.dir, func(t *testing.T) {
			var files []string
			for _, name := range e.files() {
				files = append(files, filepath.Join(moduleRoot(t), filepath.FromSlash(name)))
			}
			t.Chdir(t.TempDir())
			for _, name := range []string{e.logs, e.attach} {
				if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
					t.Fatal(err)
				}
				appendTo(t, name, "")
			}
			healthAt(t, "127.0.0.1:10247")
			s := serve(t, files...)
			s.pod(t, "pod0", nil, "app")
			s.checkLogs(t, e.logs)
			s.checkExec(t, e.env)
			s.checkAttach(t, e.attach)
			s.checkPortForward(t, e.port)
		})
	}
}

// appendTo appends a line of a container to a log file.
func appendTo(t *testing.T, name, line string) {
	t.Helper()
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil && line != "" {
		_, err = fmt.Fprintf(f, "2016-10-06T00:00:00Z stdout F %s\n", line)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// healthAt serves /healthz as KWOK does at its port, to which KWOK's files forward.
func healthAt(t *testing.T, address string) {
	t.Helper()
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatalf("KWOK's files need this port: %v", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") })
	server := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener) // ends in Close
	}()
	t.Cleanup(func() { _ = server.Close(); <-done })
}

func (s served) checkLogs(t *testing.T, file string) {
	t.Helper()
	want := []string{"log content 1", "log content 2", "log content 3"}
	appendTo(t, file, want[0])
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	stream, err := s.CoreV1().Pods("default").GetLogs("pod0", &corev1.PodLogOptions{Follow: true}).Stream(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	lines := bufio.NewReader(stream)
	for i, text := range want {
		if i > 0 {
			appendTo(t, file, text)
		}
		if got, err := lines.ReadString('\n'); err != nil || got != text+"\n" {
			t.Fatalf("logs: got %q, %v, want %q", got, err, text)
		}
	}
}

// executor opens a stream as kubectl does.
func (s served) executor(t *testing.T, subresource string, options any) remotecommand.Executor {
	t.Helper()
	request := s.CoreV1().RESTClient().Get().Namespace("default").Resource("pods").Name("pod0").SubResource(subresource)
	switch o := options.(type) {
	case *corev1.PodExecOptions:
		request.VersionedParams(o, scheme.ParameterCodec)
	case *corev1.PodAttachOptions:
		request.VersionedParams(o, scheme.ParameterCodec)
	}
	e, err := remotecommand.NewWebSocketExecutor(s.config, http.MethodGet, request.URL().String())
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func (s served) checkExec(t *testing.T, env string) {
	t.Helper()
	var out bytes.Buffer
	e := s.executor(t, "exec", &corev1.PodExecOptions{Command: []string{"env"}, Stdout: true})
	if err := e.StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdout: &out}); err != nil || !slices.Contains(strings.Split(out.String(), "\n"), env) {
		t.Errorf("exec env: %v, no line %s", err, env)
	}
}

func (s served) checkAttach(t *testing.T, file string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	output, input := io.Pipe()
	defer output.Close()
	e, ended := s.executor(t, "attach", &corev1.PodAttachOptions{Stdout: true}), make(chan error, 1)
	go func() {
		ended <- e.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: input})
		_ = input.Close()
	}()
	// The client does not know when the server starts to read the file, so the test writes until a line arrives, as KWOK's test does.
	defer time.AfterFunc(time.Minute, func() { _ = input.Close() }).Stop() // ends the reads below
	lines, first := bufio.NewReader(output), make(chan struct{})
	go func() {
		defer close(first)
		_, _ = lines.Peek(1)
	}()
	err := wait.PollUntilContextTimeout(ctx, 10*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		appendTo(t, file, "wait")
		select {
		case <-first:
			return true, nil
		default:
			return false, nil
		}
	})
	if err != nil {
		t.Fatalf("attach: no line arrived: %v", err)
	}
	want := []string{"attach content 1", "attach content 2", "attach content 3"}
	for _, text := range want {
		appendTo(t, file, text)
	}
	for len(want) > 0 {
		got, err := lines.ReadString('\n')
		if got = strings.TrimSuffix(got, "\n"); err != nil || got != "wait" && got != want[0] {
			t.Fatalf("attach: got %q, %v, want %q", got, err, want[0])
		}
		if got != "wait" {
			want = want[1:]
		}
	}
	cancel()
	_ = output.Close()
	<-ended
}

func (s served) checkPortForward(t *testing.T, port int32) {
	t.Helper()
	url := s.CoreV1().RESTClient().Post().Namespace("default").Resource("pods").Name("pod0").SubResource("portforward").URL()
	dialer, err := portforward.NewSPDYOverWebsocketDialer(url, s.config)
	if err != nil {
		t.Fatal(err)
	}
	stop, ready, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	f, err := portforward.New(dialer, []string{fmt.Sprintf("0:%d", port)}, stop, ready, io.Discard, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
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
	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Get(fmt.Sprintf("http://127.0.0.1:%d/healthz", ports[0].Local))
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if body, err := io.ReadAll(answer.Body); err != nil || answer.StatusCode != http.StatusOK || string(body) != "ok" {
		t.Errorf("port-forward: %s %s %v", answer.Status, body, err)
	}
}
