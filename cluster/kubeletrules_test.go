//go:build unix

package cluster_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/rehearse-k8s/rehearse/api/crds"
)

// kubeletObjects has for each kind an object of the pod default/web, and one of the Cluster kind for all pods. Each says which one it is.
const kubeletObjects = `
apiVersion: kwok.x-k8s.io/v1alpha1
kind: ClusterLogs
metadata: {name: all}
spec: {logs: [{logsFile: DIR/all.log}]}
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Logs
metadata: {name: web, namespace: default}
spec: {logs: [{containers: [main], logsFile: DIR/own.log}]}
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: ClusterAttach
metadata: {name: all}
spec: {attaches: [{logsFile: DIR/all.log}]}
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Attach
metadata: {name: web, namespace: default}
spec: {attaches: [{containers: [main], logsFile: DIR/own.log}]}
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: ClusterExec
metadata: {name: all}
spec: {execs: [{local: {envs: [{name: WHICH, value: all}]}}]}
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Exec
metadata: {name: web, namespace: default}
spec: {execs: [{containers: [main], local: {workDir: DIR, envs: [{name: WHICH, value: own}]}}]}
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: ClusterPortForward
metadata: {name: all}
spec: {forwards: [{command: [echo, all]}]}
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: PortForward
metadata: {name: web, namespace: default}
spec: {forwards: [{ports: [80], target: {port: PORT, address: 127.0.0.1}}]}
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: ClusterResourceUsage
metadata: {name: all}
spec: {usages: [{usage: {memory: {value: 7Mi}}}]}
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: ResourceUsage
metadata: {name: web, namespace: default}
spec: {usages: [{containers: [main], usage: {cpu: {value: 300m}}}]}
`

// TestKubeletObjects: each kind works from a file and from the API. The object of a pod precedes that of the Cluster kind, and the default
// applies to a resource that the object does not name. An object of the API is used from the next request on, until it is deleted.
func TestKubeletObjects(t *testing.T) {
	for _, origin := range []string{"file", "API"} {
		t.Run(origin, func(t *testing.T) {
			dir, err := filepath.EvalSymlinks(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			for _, which := range []string{"own", "all"} {
				writeFile(t, filepath.Join(dir, which+".log"), criLog(0, "log "+which))
			}
			text := strings.NewReplacer("DIR", dir, "PORT", fmt.Sprint(greet(t, "own\n"))).Replace(kubeletObjects)
			if origin == "file" {
				k := startKubelets(t, writeFile(t, filepath.Join(dir, "rules.yaml"), text))
				k.pod(t, "web", map[string]corev1.ContainerState{"main": running()})
				k.pod(t, "other", map[string]corev1.ContainerState{"main": running()})
				k.wantObjects(t, dir, "web", "own", "300m 1Mi")
				k.wantObjects(t, dir, "other", "all", "1m 7Mi")
				return
			}
			k := startKubelets(t)
			admin, err := client.New(k.RESTConfig(), client.Options{})
			if err != nil {
				t.Fatal(err)
			}
			for _, definition := range append(crds.Kubelet(), crds.Usage()[:2]...) {
				asJSON, err := yaml.YAMLToJSON(definition)
				if err != nil {
					t.Fatal(err)
				}
				create(t, admin, string(asJSON))
			}
			k.pod(t, "web", map[string]corev1.ContainerState{"main": running()})
			k.pod(t, "other", map[string]corev1.ContainerState{"main": running()})
			var own []*unstructured.Unstructured
			for document := range strings.SplitSeq(text, "\n---\n") {
				if o := create(t, admin, document); o.GetNamespace() != "" {
					own = append(own, o)
				}
			}
			k.wantObjects(t, dir, "web", "own", "300m 1Mi")
			k.wantObjects(t, dir, "other", "all", "1m 7Mi")
			for _, o := range own {
				if err := admin.Delete(t.Context(), o); err != nil {
					t.Fatal(err)
				}
			}
			k.wantObjects(t, dir, "web", "all", "1m 7Mi")
		})
	}
}

// greet writes a text to each connection, and returns the port.
func greet(t *testing.T, text string) int {
	t.Helper()
	return serveTCP(t, func(conn net.Conn) { _, _ = io.WriteString(conn, text) }).Port
}

// wantObjects checks that the objects with the given name apply to a pod.
func (k kubeletCluster) wantObjects(t *testing.T, dir, pod, which, usage string) {
	t.Helper()
	k.wantLogs(t, pod, corev1.PodLogOptions{LimitBytes: ptr.To(int64(len("log \n") + len(which)))}, "log "+which+"\n")
	out, errOut, err := k.run(t, pod, "sh", "-c", "echo $WHICH; pwd")
	if workDir := strings.TrimPrefix(out, which+"\n"); err != nil || workDir == out || (workDir == dir+"\n") != (which == "own") {
		t.Errorf("exec in %s: got %q, %q, %v, want %s", pod, out, errOut, err, which)
	}
	url := k.CoreV1().RESTClient().Post().Namespace("default").Resource("pods").Name(pod).SubResource("portforward").URL()
	dialer, err := portforward.NewSPDYOverWebsocketDialer(url, k.config)
	if err != nil {
		t.Fatal(err)
	}
	if got, problem := forwardStream(t, dialer, 80, ""); got != which+"\n" || problem != "" {
		t.Errorf("port 80 of %s: got %q, %q, want %s", pod, got, problem, which)
	}
	k.wantAttached(t, pod, filepath.Join(dir, which+".log"))
	await(t, "usage of "+pod, func() error {
		data, err := k.CoreV1().RESTClient().Get().AbsPath("/apis/metrics.k8s.io/v1beta1/namespaces/default/pods/" + pod).DoRaw(t.Context())
		var metrics struct {
			Containers []struct{ Usage struct{ CPU, Memory string } }
		}
		if err == nil {
			err = json.Unmarshal(data, &metrics)
		}
		if err == nil && len(metrics.Containers) != 1 {
			err = fmt.Errorf("containers %v", metrics.Containers)
		}
		if err == nil {
			if got := metrics.Containers[0].Usage; got.CPU+" "+got.Memory != usage {
				err = fmt.Errorf("got %v, want %s", got, usage)
			}
		}
		return err
	})
}

// run runs a command in a container of a pod.
func (k kubeletCluster) run(t *testing.T, pod string, command ...string) (out, errOut string, err error) {
	t.Helper()
	o := &corev1.PodExecOptions{Container: "main", Command: command, Stdout: true, Stderr: true}
	var stdout, stderr bytes.Buffer
	err = k.executors(t, "exec", pod, o)["WebSocket"].StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdout: &stdout, Stderr: &stderr})
	return stdout.String(), stderr.String(), err
}

// wantAttached checks that an attached client receives what is appended to a file. The file keeps its content.
func (k kubeletCluster) wantAttached(t *testing.T, pod, file string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	output, input := io.Pipe()
	defer output.Close()
	e, ended := k.executors(t, "attach", pod, &corev1.PodAttachOptions{Container: "main", Stdout: true})["WebSocket"], make(chan error, 1)
	go func() {
		ended <- e.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: input})
		_ = input.Close()
	}()
	first := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(output).ReadString('\n')
		first <- line
	}()
	// The client does not know when the server starts to read the file, so the test writes until a line arrives.
	await(t, "a line of "+file+" for pod "+pod, func() error {
		extendFile(t, file, criLog(1, "attached"))
		select {
		case line := <-first:
			if line != "attached\n" {
				cancel()
				_ = output.Close()
				t.Fatalf("attach to %s: got %q, %v", pod, line, <-ended)
			}
			return nil
		default:
			return errors.New("no line")
		}
	})
}
