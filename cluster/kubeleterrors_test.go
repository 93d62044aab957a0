//go:build unix

package cluster_test

import (
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/portforward"
)

// TestKubeletErrors: the whole message of a command that cannot start, and of a target that does not answer. It names the object, its file,
// the field, the value, and what to do.
func TestKubeletErrors(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := closed.Addr().(*net.TCPAddr).Port
	_ = closed.Close()
	dir := t.TempDir()
	file := writeFile(t, filepath.Join(dir, "rules.yaml"), strings.NewReplacer("DIR", dir, "PORT", fmt.Sprint(port)).Replace(`
apiVersion: kwok.x-k8s.io/v1alpha1
kind: ClusterExec
metadata: {name: all}
spec: {execs: [{local: {}}]}
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Exec
metadata: {name: lost, namespace: default}
spec: {execs: [{local: {workDir: DIR/none}}]}
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Exec
metadata: {name: file, namespace: default}
spec: {execs: [{local: {workDir: DIR/rules.yaml}}]}
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: ClusterPortForward
metadata: {name: all}
spec:
  forwards:
  - {ports: [82], target: {port: PORT, address: 127.0.0.1}}
  - {ports: [84], command: [rehearse-no-such-command]}
  - {ports: [85], command: [/no/such/command, x]}
`))
	k := startKubelets(t, file)
	for _, name := range []string{"web", "lost", "file"} {
		k.pod(t, name, map[string]corev1.ContainerState{"main": running()})
	}
	const image = "; commands run on the machine that simulates the node, not in the image of the container"
	for _, c := range []struct{ pod, command, want string }{
		{"web", "rehearse-no-such-command", "ClusterExec all of file " + file + `: start "rehearse-no-such-command": executable file not found in $PATH` + image},
		{"web", "/no/such/command", "ClusterExec all of file " + file + `: start "/no/such/command": no such file or directory` + image},
		{"web", file, "ClusterExec all of file " + file + ": start \"" + file + "\": permission denied"},
		{"lost", "true", "Exec default/lost of file " + file + ": local.workDir " + dir + "/none: no such file or directory"},
		{"file", "true", "Exec default/file of file " + file + ": local.workDir " + file + ": is not a directory"},
	} {
		_, _, err := k.run(t, c.pod, c.command)
		if want := "Internal error occurred: Internal error occurred: error executing command in container: " + c.want; err == nil || err.Error() != want {
			t.Errorf("exec %s\ngot  %v\nwant %s", c.command, err, want)
		}
	}
	pod, err := k.CoreV1().Pods("default").Get(t.Context(), "web", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	url := k.CoreV1().RESTClient().Post().Namespace("default").Resource("pods").Name("web").SubResource("portforward").URL()
	dialer, err := portforward.NewSPDYOverWebsocketDialer(url, k.config)
	if err != nil {
		t.Fatal(err)
	}
	for port, want := range map[int]string{
		82: "target: dial tcp 127.0.0.1:" + fmt.Sprint(port) + ": connect: connection refused; start a server at this address, or change the target",
		84: `command: start "rehearse-no-such-command": executable file not found in $PATH` + image,
		85: `command: start "/no/such/command": no such file or directory` + image,
	} {
		want = fmt.Sprintf("error forwarding port %d to pod web, uid %s: ClusterPortForward all of file %s: %s", port, pod.UID, file, want)
		if _, got := forwardStream(t, dialer, port, ""); got != want {
			t.Errorf("port %d\ngot  %s\nwant %s", port, got, want)
		}
	}
}
