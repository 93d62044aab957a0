package cluster_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rehearse-k8s/rehearse/api/crds"
	"github.com/rehearse-k8s/rehearse/cluster"
)

// kubeletCluster is a cluster with one simulated node and without controllers, so that the test alone writes the status of pods.
type kubeletCluster struct {
	*cluster.Cluster
	config *rest.Config // over the socket, as kubectl's
	*kubernetes.Clientset
}

func startKubelets(t *testing.T, files ...string) kubeletCluster {
	t.Helper()
	c := startCluster(t, cluster.Options{Controllers: []string{"-stage"}, Nodes: 1, StageFiles: files})
	config, err := clientcmd.NewDefaultClientConfig(*c.Kubeconfig(), nil).ClientConfig()
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1
	k := kubeletCluster{c, config, kubernetes.NewForConfigOrDie(config)}
	node, err := k.CoreV1().Nodes().Get(t.Context(), "node-0", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	node.Status.Addresses = []corev1.NodeAddress{ // as the built-in stages set them
		{Type: corev1.NodeInternalIP, Address: "10.255.0.1"}, {Type: corev1.NodeHostName, Address: "node-0"},
	}
	if _, err := k.CoreV1().Nodes().UpdateStatus(t.Context(), node, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	if _, err := k.CoreV1().ServiceAccounts("default").Create(t.Context(), account, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return k
}

// started is when the containers of the tests have started.
var started = time.Date(2027, 3, 1, 9, 0, 0, 0, time.UTC)

func running() corev1.ContainerState {
	return corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(started)}}
}

func terminated() corev1.ContainerState {
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{StartedAt: metav1.NewTime(started), FinishedAt: metav1.NewTime(started.Add(time.Minute))}}
}

// pod creates a pod on the node whose containers are in the given states.
func (k kubeletCluster) pod(t *testing.T, name string, states map[string]corev1.ContainerState) *corev1.Pod {
	t.Helper()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{NodeName: "node-0"}}
	for c := range states {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: c, Image: "registry.example/" + c + ":1"})
	}
	p, err := k.CoreV1().Pods("default").Create(t.Context(), p, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	p.Status.Phase = corev1.PodRunning
	for c, state := range states {
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{Name: c, State: state})
	}
	return k.setStatus(t, p)
}

func (k kubeletCluster) setStatus(t *testing.T, p *corev1.Pod) *corev1.Pod {
	t.Helper()
	p, err := k.CoreV1().Pods("default").UpdateStatus(t.Context(), p, metav1.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func (k kubeletCluster) logs(t *testing.T, pod string, o corev1.PodLogOptions) (string, error) {
	t.Helper()
	stream, err := k.CoreV1().Pods("default").GetLogs(pod, &o).Stream(t.Context())
	if err != nil {
		return "", err
	}
	defer stream.Close()
	data, err := io.ReadAll(stream)
	return string(data), err
}

// wantLogs checks the log of a container.
func (k kubeletCluster) wantLogs(t *testing.T, pod string, o corev1.PodLogOptions, want string) {
	t.Helper()
	if got, err := k.logs(t, pod, o); err != nil || got != want {
		t.Errorf("logs of %s with %+v: got %q, %v, want %q", pod, o, got, err, want)
	}
}

// wantLogError checks the status code and the message of a failed request.
func (k kubeletCluster) wantLogError(t *testing.T, pod string, o corev1.PodLogOptions, code int32, want string) {
	t.Helper()
	got, err := k.logs(t, pod, o)
	status, ok := err.(apierrors.APIStatus)
	if !ok || status.Status().Code != code || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("logs of %s with %+v: got %q, %v, want %d %q", pod, o, got, err, code, want)
	}
}

// follow opens a log with follow.
func (k kubeletCluster) follow(t *testing.T, pod string, o corev1.PodLogOptions) (*bufio.Reader, io.Closer) {
	t.Helper()
	o.Follow = true
	stream, err := k.CoreV1().Pods("default").GetLogs(pod, &o).Stream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = stream.Close() })
	return bufio.NewReader(stream), stream
}

func wantLine(t *testing.T, r *bufio.Reader, want string) {
	t.Helper()
	if got, err := r.ReadString('\n'); err != nil || got != want+"\n" {
		t.Fatalf("got line %q, %v, want %q", got, err, want)
	}
}

func wantEnd(t *testing.T, r *bufio.Reader) {
	t.Helper()
	if rest, err := io.ReadAll(r); err != nil || len(rest) > 0 {
		t.Errorf("got %q, %v, want the end of the log", rest, err)
	}
}

func writeFile(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func extendFile(t *testing.T, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err == nil {
		_, err = f.WriteString(text)
		_ = f.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// criLog has one record per second with the given texts.
func criLog(from int, texts ...string) string {
	var b strings.Builder
	for i, text := range texts {
		fmt.Fprintf(&b, "%s stdout F %s\n", started.Add(time.Duration(from+i)*time.Second).Format(time.RFC3339Nano), text)
	}
	return b.String()
}

// TestLogsOfSimulatedContainer: without an object that names a file, the log is one line about the container.
func TestLogsOfSimulatedContainer(t *testing.T) {
	k := startKubelets(t)
	p := k.pod(t, "web", map[string]corev1.ContainerState{
		"main": running(), "side": {Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}}, "job": terminated(),
	})
	line := func(c string) string {
		return `container "` + c + `" of pod "default/web" is simulated: image registry.example/` + c + `:1, started 2027-03-01T09:00:00Z. No Logs or ClusterLogs object names a log file for it.` + "\n"
	}
	k.wantLogs(t, "web", corev1.PodLogOptions{Container: "main"}, line("main"))
	k.wantLogs(t, "web", corev1.PodLogOptions{Container: "main", Timestamps: true}, "2027-03-01T09:00:00.000000000Z "+line("main"))
	k.wantLogs(t, "web", corev1.PodLogOptions{Container: "main", TailLines: ptr.To[int64](0)}, "")
	k.wantLogs(t, "web", corev1.PodLogOptions{Container: "main", SinceTime: &metav1.Time{Time: started.Add(time.Second)}}, "")
	k.wantLogs(t, "web", corev1.PodLogOptions{Container: "job", Follow: true}, line("job"))
	k.wantLogError(t, "web", corev1.PodLogOptions{Container: "side"}, 400, `container "side" in pod "web" is waiting to start: trying and failing to pull image`)
	k.wantLogError(t, "web", corev1.PodLogOptions{Container: "main", Previous: true}, 400, `previous terminated container "main" in pod "web" not found`)
	k.wantLogError(t, "web", corev1.PodLogOptions{Container: "none"}, 400, `container none is not valid for pod web`)
	k.wantLogError(t, "none", corev1.PodLogOptions{}, 404, `pods "none" not found`)

	// Through the proxy of the node, without the API server's checks.
	http, err := rest.HTTPClientFor(k.config)
	if err != nil {
		t.Fatal(err)
	}
	path := func(parts ...string) (string, int) {
		resp, err := http.Get(k.URL() + "/api/v1/nodes/node-0/proxy/" + strings.Join(parts, "/"))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		data, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Error(err)
		}
		return string(data), resp.StatusCode
	}
	for _, probe := range []string{"healthz", "livez", "readyz"} {
		if text, code := path(probe); text != "ok" || code != 200 {
			t.Errorf("%s of the node: %q %d", probe, text, code)
		}
	}
	if text, code := path("debug", "pprof", "goroutine?debug=1"); code != 200 || !strings.HasPrefix(text, "goroutine profile") {
		t.Errorf("a profile of the node: %.200q %d", text, code)
	}
	if text, code := path("containerLogs", "default", "none", "main"); code != 404 || !strings.Contains(text, `pod "none" does not exist`) {
		t.Errorf("logs of an unknown pod: %q %d", text, code)
	}
	if text, code := path("containerLogs", "default", "web", "none"); code != 404 || !strings.Contains(text, `container "none" not found in pod "web"`) {
		t.Errorf("logs of an unknown container: %q %d", text, code)
	}

	// A followed log ends with the container, or with the client.
	r, _ := k.follow(t, "web", corev1.PodLogOptions{Container: "main"})
	other, closer := k.follow(t, "web", corev1.PodLogOptions{Container: "main"})
	wantLine(t, r, strings.TrimSuffix(line("main"), "\n"))
	wantLine(t, other, strings.TrimSuffix(line("main"), "\n"))
	if err := closer.Close(); err != nil {
		t.Error(err)
	}
	for i, s := range p.Status.ContainerStatuses {
		if s.Name == "main" {
			p.Status.ContainerStatuses[i].LastTerminationState, p.Status.ContainerStatuses[i].RestartCount = terminated(), 1
		}
	}
	k.setStatus(t, p)
	wantEnd(t, r)
	k.wantLogs(t, "web", corev1.PodLogOptions{Container: "main", Previous: true}, line("main"))

	r, _ = k.follow(t, "web", corev1.PodLogOptions{Container: "main", TailLines: ptr.To[int64](0)})
	if err := k.CoreV1().Pods("default").Delete(t.Context(), "web", metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}); err != nil {
		t.Fatal(err)
	}
	wantEnd(t, r)
}

// TestLogFiles: objects from files and from the API name log files, and the options of a request select lines.
func TestLogFiles(t *testing.T) {
	dir := t.TempDir()
	web := writeFile(t, filepath.Join(dir, "web.log"), criLog(0, "one", "two", "three"))
	previous := writeFile(t, filepath.Join(dir, "previous.log"), criLog(0, "before"))
	docker := writeFile(t, filepath.Join(dir, "docker.log"), `{"log":"from docker\n","stream":"stderr","time":"2027-03-01T09:00:00Z"}`+"\n")
	plain := writeFile(t, filepath.Join(dir, "plain.log"), "plain\n")
	now := time.Now().UTC()
	recent := writeFile(t, filepath.Join(dir, "recent.log"), now.Add(-time.Hour).Format(time.RFC3339Nano)+" stdout F an hour ago\n"+now.Format(time.RFC3339Nano)+" stdout F now\n")
	config := writeFile(t, filepath.Join(dir, "rules.yaml"), fmt.Sprintf(`# Logs of the tests.
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: ClusterLogs
metadata: {name: all}
spec:
  logs:
  - {containers: [main], logsFile: %s, previousLogsFile: %s, follow: true}
  - {containers: [docker], logsFile: %s}
  - {containers: [plain], logsFile: %s}
  - {containers: [recent], logsFile: %s}
  - {containers: [missing], logsFile: %s}
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Logs
metadata: {name: own, namespace: default}
spec: {logs: [{containers: [side], logsFile: %s}]}
`, web, previous, docker, plain, recent, filepath.Join(dir, "missing.log"), docker))
	k := startKubelets(t, config)
	p := k.pod(t, "web", map[string]corev1.ContainerState{"main": running(), "docker": running(), "plain": running(), "recent": running(), "missing": running()})
	k.pod(t, "own", map[string]corev1.ContainerState{"main": running(), "side": running()})

	main := func(o corev1.PodLogOptions) corev1.PodLogOptions { o.Container = "main"; return o }
	k.wantLogs(t, "web", main(corev1.PodLogOptions{}), "one\ntwo\nthree\n")
	k.wantLogs(t, "web", main(corev1.PodLogOptions{TailLines: ptr.To[int64](1), Timestamps: true}), "2027-03-01T09:00:02.000000000Z three\n")
	k.wantLogs(t, "web", main(corev1.PodLogOptions{SinceTime: &metav1.Time{Time: started.Add(time.Second)}}), "two\nthree\n")
	k.wantLogs(t, "web", corev1.PodLogOptions{Container: "recent", SinceSeconds: ptr.To[int64](1800)}, "now\n")
	k.wantLogs(t, "web", corev1.PodLogOptions{Container: "recent", SinceSeconds: ptr.To[int64](7200)}, "an hour ago\nnow\n")
	k.wantLogs(t, "web", main(corev1.PodLogOptions{LimitBytes: ptr.To[int64](5)}), "one\nt")
	k.wantLogs(t, "web", corev1.PodLogOptions{Container: "docker"}, "from docker\n")
	k.wantLogs(t, "own", corev1.PodLogOptions{Container: "side"}, "from docker\n")
	k.wantLogError(t, "own", main(corev1.PodLogOptions{}), 400, `Logs default/own of file `+config+` has no entry for container "main"`) // no fallback to the Cluster kind
	k.wantLogError(t, "web", corev1.PodLogOptions{Container: "plain"}, 400, "(a JSON object with log, stream and time)")
	k.wantLogError(t, "web", corev1.PodLogOptions{Container: "missing", Follow: true}, 400, "ClusterLogs all of file "+config+": open "+filepath.Join(dir, "missing.log")+": no such file or directory")

	// The log before the last restart.
	for i, s := range p.Status.ContainerStatuses {
		if s.Name == "main" {
			p.Status.ContainerStatuses[i].LastTerminationState, p.Status.ContainerStatuses[i].RestartCount = terminated(), 1
		}
	}
	p = k.setStatus(t, p)
	k.wantLogs(t, "web", main(corev1.PodLogOptions{Previous: true}), "before\n")

	// A followed log receives new lines, and what the container wrote before its end.
	r, _ := k.follow(t, "web", main(corev1.PodLogOptions{TailLines: ptr.To[int64](1)}))
	wantLine(t, r, "three")
	extendFile(t, web, criLog(3, "four"))
	wantLine(t, r, "four")
	extendFile(t, web, criLog(4, "five"))
	p.Status.Phase = corev1.PodSucceeded
	k.setStatus(t, p)
	wantLine(t, r, "five")
	wantEnd(t, r)

	// Objects of the API apply at once, after those of files of the same scope.
	admin, err := client.New(k.RESTConfig(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, definition := range crds.Kubelet() {
		asJSON, err := yaml.ToJSON(definition)
		if err != nil {
			t.Fatal(err)
		}
		create(t, admin, string(asJSON))
	}
	k.pod(t, "late", map[string]corev1.ContainerState{"other": running()})
	logs := create(t, admin, "apiVersion: kwok.x-k8s.io/v1alpha1\nkind: ClusterLogs\nmetadata: {name: stored}\nspec: {selector: {matchNames: [late]}, logs: [{logsFile: "+web+"}]}")
	k.wantLogs(t, "late", corev1.PodLogOptions{TailLines: ptr.To[int64](1)}, "five\n")
	patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"logs":[{"logsFile":"`+docker+`"}]}}`))
	if err := admin.Patch(t.Context(), logs, patch); err != nil {
		t.Fatal(err)
	}
	k.wantLogs(t, "late", corev1.PodLogOptions{}, "from docker\n")
	create(t, admin, "apiVersion: kwok.x-k8s.io/v1alpha1\nkind: Logs\nmetadata: {name: late, namespace: default}\nspec: {logs: [{logsFile: "+previous+"}]}")
	k.wantLogs(t, "late", corev1.PodLogOptions{}, "before\n")
}

// TestStopWithFollowedLog: a followed log does not delay the end of the cluster.
func TestStopWithFollowedLog(t *testing.T) {
	k := startKubelets(t)
	k.pod(t, "web", map[string]corev1.ContainerState{"main": running()})
	r, _ := k.follow(t, "web", corev1.PodLogOptions{})
	if _, err := r.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	k.Stop()
	if took := time.Since(begin); took > 20*time.Second {
		t.Errorf("the cluster stopped after %v", took)
	}
}

// TestFollow200 follows the logs of 200 pods of the stage engine at once; with -short, of 40.
func TestFollow200(t *testing.T) {
	pods := 200
	if testing.Short() {
		pods = 40
	}
	dir := t.TempDir()
	for i := range pods {
		writeFile(t, filepath.Join(dir, fmt.Sprintf("pod-%d.log", i)), criLog(0, "ready"))
	}
	var config strings.Builder
	for i := range pods {
		fmt.Fprintf(&config, "---\napiVersion: kwok.x-k8s.io/v1alpha1\nkind: Logs\nmetadata: {name: pod-%d, namespace: default}\nspec: {logs: [{logsFile: %s}]}\n",
			i, filepath.Join(dir, fmt.Sprintf("pod-%d.log", i)))
	}
	c := startCluster(t, cluster.Options{Nodes: 2, StageFiles: []string{writeFile(t, filepath.Join(dir, "rules.yaml"), config.String())}})
	restConfig, err := clientcmd.NewDefaultClientConfig(*c.Kubeconfig(), nil).ClientConfig()
	if err != nil {
		t.Fatal(err)
	}
	restConfig.QPS = -1
	k := kubernetes.NewForConfigOrDie(restConfig)
	await(t, "service account", func() error {
		_, err := k.CoreV1().ServiceAccounts("default").Get(t.Context(), "default", metav1.GetOptions{})
		return err
	})
	w, err := k.CoreV1().Pods("default").Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	each := func(what string, f func(ctx context.Context, i int) error) {
		t.Helper()
		begin := time.Now()
		all, ctx := errgroup.WithContext(t.Context())
		for i := range pods {
			all.Go(func() error { return f(ctx, i) })
		}
		if err := all.Wait(); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		t.Logf("%s: %d pods in %v", what, pods, time.Since(begin).Round(time.Millisecond))
	}
	each("create", func(ctx context.Context, i int) error {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("pod-%d", i)}, Spec: corev1.PodSpec{
			NodeName: fmt.Sprintf("node-%d", i%2), Containers: []corev1.Container{{Name: "main", Image: "x"}},
		}}
		_, err := k.CoreV1().Pods("default").Create(ctx, p, metav1.CreateOptions{})
		return err
	})
	ready := map[string]bool{}
	for e := range w.ResultChan() {
		if p, ok := e.Object.(*corev1.Pod); ok && p.Status.Phase == corev1.PodRunning {
			ready[p.Name] = true
		}
		if len(ready) == pods {
			break
		}
	}
	streams := make([]*bufio.Reader, pods)
	each("open `logs -f`, first line", func(_ context.Context, i int) error {
		stream, err := k.CoreV1().Pods("default").GetLogs(fmt.Sprintf("pod-%d", i), &corev1.PodLogOptions{Follow: true}).Stream(t.Context())
		if err != nil {
			return err
		}
		streams[i] = bufio.NewReader(stream)
		return expectLine(streams[i], "ready")
	})
	each("append a line, receive it", func(_ context.Context, i int) error {
		text := fmt.Sprintf("line of %d", i)
		extendFile(t, filepath.Join(dir, fmt.Sprintf("pod-%d.log", i)), criLog(1, text))
		return expectLine(streams[i], text)
	})
	each("delete, end of the log", func(ctx context.Context, i int) error {
		if err := k.CoreV1().Pods("default").Delete(ctx, fmt.Sprintf("pod-%d", i), metav1.DeleteOptions{}); err != nil {
			return err
		}
		_, err := io.Copy(io.Discard, streams[i])
		return err
	})
}

func expectLine(r *bufio.Reader, want string) error {
	got, err := r.ReadString('\n')
	if err == nil && got != want+"\n" {
		err = fmt.Errorf("got %q, want %q", got, want)
	}
	return err
}

// TestMixedFiles: files may contain stages and objects for kubelet endpoints; an error names the file and the line.
func TestMixedFiles(t *testing.T) {
	logs := "apiVersion: kwok.x-k8s.io/v1alpha1\nkind: ClusterLogs\nmetadata: {name: a}\nspec: {logs: [{logsFile: /a}]}\n"
	invalid := "apiVersion: kwok.x-k8s.io/v1alpha1\nkind: Stage\nmetadata: {name: a}\nspec:\n  resourceRef: {kind: Pod}\n  selectr: {}\n"
	list := "apiVersion: v1\nkind: List\nitems:\n"
	item := func(text string) string {
		return "- " + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n  ") + "\n"
	}
	dir := t.TempDir()
	for name, c := range map[string]struct{ text, want string }{
		"stage.yaml":  {logs + "---\n" + invalid, "stage.yaml:11: "},
		"logs.yaml":   {"# comment\n---\n" + strings.Replace(logs, "logsFile", "logFile", 1), `logs.yaml:2: ClusterLogs a: unknown field "spec.logs[0].logFile"`},
		"twice.yaml":  {logs + "---\n" + logs, "twice.yaml:5: ClusterLogs a: another object of this kind and name"},
		"list.yaml":   {list + item(logs) + item(invalid), "list.yaml:1: the List contains stages and objects of other kinds: use two Lists"},
		"absent.yaml": {"# nothing\n", "absent.yaml: no Stage in this file"},
	} {
		_, err := cluster.Start(t.Context(), cluster.Options{StateDir: dir, StageFiles: []string{writeFile(t, filepath.Join(dir, name), c.text)}})
		var wrong *cluster.UsageError
		if !errors.As(err, &wrong) || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}
