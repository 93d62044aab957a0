//go:build linux

package durability_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/rehearse-k8s/rehearse/internal/cli/console"
)

// roomBytes is how large a file of the cluster may become in TestFullDisk: less
// than etcd's log and database need for the writes of the test.
const roomBytes = 32 << 20

// TestFullDisk fills the disk under a running cluster. Without a file system of its own, a test can limit the
// size of a process's files: a write beyond the limit fails like one on a full disk, with another error
// number (EFBIG; Go ignores the corresponding signal on Linux). The cluster exits with an error of one line
// and removes its kubeconfig entries, and the acknowledged writes exist after a restart with enough space.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	kubeconfig := filepath.Join(home, "kubeconfig")
	cluster := startDurable(t, home, kubeconfig)
	client := durableClient(t, kubeconfig)
	if err := unix.Prlimit(cluster.Process.Pid, unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: roomBytes, Max: unix.RLIM_INFINITY}, nil); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	acknowledged := fill(ctx, client)
	if ctx.Err() != nil || len(acknowledged) < 2 {
		t.Fatalf("%d writes of 1 MB were acknowledged, and the limit of %d MB stopped none: %v", len(acknowledged), roomBytes>>20, ctx.Err())
	}
	_ = cluster.Wait()
	if code := cluster.ProcessState.ExitCode(); code != console.ExitFailed {
		t.Errorf("exit code %d, want %d", code, console.ExitFailed)
	}
	said := strings.Split(strings.TrimSpace(cluster.Stderr.(*bytes.Buffer).String()), "\n")
	if len(said) != 2 || !strings.Contains(said[1], "the embedded etcd stopped") || !strings.Contains(said[1], filepath.Join(home, "data")) {
		t.Errorf("want the line that it is ready and one that says why it ended and where the data is, got:\n%s", strings.Join(said, "\n"))
	}
	if data, err := os.ReadFile(kubeconfig); err == nil && bytes.Contains(data, []byte("rehearse-rehearse")) {
		t.Errorf("the kubeconfig still names the cluster:\n%s", data)
	}
	cluster = startDurable(t, home, kubeconfig) // this one may use the whole disk
	checkAcknowledged(t, durableClient(t, kubeconfig), acknowledged)
	_ = cluster.Process.Signal(os.Interrupt)
	_ = cluster.Wait()
}

// fill writes until a write fails and returns the acknowledged writes.
func fill(ctx context.Context, client kubernetes.Interface) map[string]string {
	acknowledged := map[string]string{}
	ballast := strings.Repeat("x", 1<<20-1024) // the limit of a ConfigMap is 1 MiB
	for i := 0; ; i++ {
		name := fmt.Sprintf("ballast-%d", i)
		m, err := client.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"name": name, "ballast": ballast},
		}, metav1.CreateOptions{})
		if err != nil {
			return acknowledged
		}
		acknowledged[name] = string(m.UID)
	}
}
