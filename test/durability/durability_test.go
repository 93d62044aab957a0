//go:build unix

package durability_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// kills is how often the cluster is killed in the middle of writes.
const kills = 20

// TestEveryAcknowledgedWriteSurvivesKill tests --data-dir: a process is killed with SIGKILL during writes, many times, and
// every acknowledged write exists afterwards, with its content.
func TestEveryAcknowledgedWriteSurvivesKill(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	kubeconfig := filepath.Join(home, "kubeconfig")
	acknowledged := map[string]string{} // name -> UID, written by the rounds below in turn
	for round := range kills {
		cluster := startDurable(t, home, kubeconfig)
		client := durableClient(t, kubeconfig)
		checkAcknowledged(t, client, acknowledged)
		if t.Failed() {
			t.Fatalf("lost after %d kills", round)
		}
		var written sync.Map
		ctx, cancel := context.WithCancel(t.Context())
		var writers sync.WaitGroup
		for w := range 4 {
			writers.Go(func() { writeUntilItEnds(ctx, client, fmt.Sprintf("kill-%d-writer-%d", round, w), &written) })
		}
		time.Sleep(time.Duration(50+rand.IntN(250)) * time.Millisecond) // a real process: it is killed at a random time
		_ = cluster.Process.Kill()
		_ = cluster.Wait()
		cancel()
		writers.Wait()
		written.Range(func(name, uid any) bool {
			acknowledged[name.(string)] = uid.(string)
			return true
		})
	}
	cluster := startDurable(t, home, kubeconfig)
	checkAcknowledged(t, durableClient(t, kubeconfig), acknowledged)
	_ = cluster.Process.Signal(os.Interrupt)
	_ = cluster.Wait()
	t.Logf("%d acknowledged writes survived %d kills", len(acknowledged), kills)
	if len(acknowledged) < kills {
		t.Errorf("only %d writes were acknowledged: the test did not write while it killed", len(acknowledged))
	}
}

// startDurable runs `rehearse up --data-dir` and waits for its context.
func startDurable(t *testing.T, home, kubeconfig string) *exec.Cmd {
	t.Helper()
	_ = os.Remove(kubeconfig) // the killed process left it; `up` replaces it too, which other tests show
	c := exec.Command("rehearse", "up", "--nodes", "0", "--data-dir", filepath.Join(home, "data"),
		"--kubeconfig", kubeconfig, "--controllers", "serviceaccount-controller")
	var log bytes.Buffer
	c.Env = append(os.Environ(), "HOME="+home)
	c.Stdout, c.Stderr = &log, &log
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Process.Kill() })
	deadline := time.Now().Add(timeout)
	for {
		if _, err := os.Stat(kubeconfig); err == nil {
			return c
		}
		if time.Now().After(deadline) {
			_ = c.Process.Kill()
			_ = c.Wait()
			t.Fatalf("the cluster did not come back:\n%s", log.String())
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func durableClient(t *testing.T, kubeconfig string) kubernetes.Interface {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// writeUntilItEnds logs each acknowledgement as it arrives. The first error ends it, because that write may
// or may not have been stored.
func writeUntilItEnds(ctx context.Context, client kubernetes.Interface, prefix string, written *sync.Map) {
	for i := 0; ctx.Err() == nil; i++ {
		name := fmt.Sprintf("%s-%d", prefix, i)
		m, err := client.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"name": name},
		}, metav1.CreateOptions{})
		if err != nil {
			return
		}
		written.Store(name, string(m.UID))
	}
}

func checkAcknowledged(t *testing.T, client kubernetes.Interface, acknowledged map[string]string) {
	t.Helper()
	list, err := client.CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]corev1.ConfigMap{}
	for _, m := range list.Items {
		found[m.Name] = m
	}
	for name, uid := range acknowledged {
		if m, ok := found[name]; !ok || string(m.UID) != uid || m.Data["name"] != name {
			t.Errorf("%s was acknowledged with UID %s; now it is %v with UID %s", name, uid, ok, m.UID)
		}
	}
}
