package apiserver_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gofrs/flock"
	"go.etcd.io/etcd/server/v3/embed"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rehearse-k8s/rehearse/internal/apiserver"
)

// TestDataDirectoryKeepsObjectsAndTokens starts twice over one directory.
func TestDataDirectoryKeepsObjectsAndTokens(t *testing.T) {
	dir := t.TempDir()
	var ca string
	for run := range 2 {
		ctx, cancel := context.WithCancel(t.Context())
		etcd, err := apiserver.StartEmbeddedEtcd(ctx, dir)
		if err != nil {
			t.Fatal(err)
		}
		s, err := start(ctx, dir, etcd)
		if err != nil {
			t.Fatal(err)
		}
		maps := client(t, s).CoreV1().ConfigMaps("default")
		roles := client(t, s).RbacV1().ClusterRoles()
		if run == 0 {
			ca = string(s.CA())
			if _, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "kept"}}, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			// The next start restores a default role that lost its rules.
			role, err := roles.Get(ctx, "system:node", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			role.Rules = nil
			if _, err := roles.Update(ctx, role, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
		} else {
			if _, err := maps.Get(ctx, "kept", metav1.GetOptions{}); err != nil {
				t.Error(err)
			}
			if role, err := roles.Get(ctx, "system:node", metav1.GetOptions{}); err != nil || len(role.Rules) == 0 {
				t.Errorf("the default role was not restored: %v", err)
			}
			if string(s.CA()) != ca {
				t.Error("the certificate authority changed: kubeconfigs that people copied would stop working")
			}
		}
		s.Stop()
		etcd.Close()
		cancel()
	}
}

func TestDataDirectoryInUse(t *testing.T) {
	dir := t.TempDir()
	first, err := apiserver.StartEmbeddedEtcd(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("is in use by another process (pid %d, lock file %s)", os.Getpid(), filepath.Join(dir, "lock"))
	if _, err := apiserver.StartEmbeddedEtcd(t.Context(), dir); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want one with %q", err, want)
	}
	late, cancel := context.WithDeadline(t.Context(), time.Unix(0, 0))
	defer cancel()
	if _, err := apiserver.StartEmbeddedEtcd(late, dir); !errors.Is(err, context.DeadlineExceeded) || strings.Contains(err.Error(), "in use") {
		t.Errorf("a start whose time is over: error %v", err)
	}
	first.Close()
	second, err := apiserver.StartEmbeddedEtcd(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	second.Close()
}

// TestDataDirectoryOfAnotherEtcd: an etcd that does not know our lock file locks its database; without a
// timeout, the start would wait for it forever.
func TestDataDirectoryOfAnotherEtcd(t *testing.T) {
	dir := t.TempDir()
	etcd, err := apiserver.StartEmbeddedEtcd(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	etcd.Close()
	database := flock.New(filepath.Join(dir, "etcd", "member", "snap", "db"))
	if err := database.Lock(); err != nil {
		t.Fatal(err)
	}
	_, err = apiserver.StartEmbeddedEtcd(t.Context(), dir)
	if want := "is in use by another etcd, which locks " + database.Path(); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want one with %q", err, want)
	}
	if err := database.Unlock(); err != nil {
		t.Fatal(err)
	}
	etcd, err = apiserver.StartEmbeddedEtcd(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	etcd.Close()
}

// TestKilledEtcdLeavesNoSockets kills a process that serves a data directory. Its sockets are in that
// directory or, if the path is too long for a socket, in a temporary one; the next start removes them.
func TestKilledEtcdLeavesNoSockets(t *testing.T) {
	for name, part := range map[string]string{"short path": "data", "long path": strings.Repeat("long/", 30) + "data"} {
		t.Run(name, func(t *testing.T) {
			temp, dir := t.TempDir(), filepath.Join(t.TempDir(), part)
			t.Setenv("TMPDIR", temp)
			serve := exec.Command(os.Args[0], "-test.run=^$")
			serve.Env = append(os.Environ(), serveDataDir+"="+dir)
			out, err := serve.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := serve.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = serve.Process.Kill() })
			if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "serving\n" {
				t.Fatalf("the other process says %q, %v", line, err)
			}
			_ = serve.Process.Kill()
			_ = serve.Wait()
			if _, err := os.Stat(filepath.Join(dir, "sockets", "client")); err != nil {
				t.Errorf("the killed process left no socket, so this test shows nothing: %v", err)
			}
			etcd, err := apiserver.StartEmbeddedEtcd(t.Context(), dir)
			if err != nil {
				t.Fatal(err)
			}
			etcd.Close()
			if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
				t.Errorf("left in the temporary directory: %v, %v", left, err)
			}
			if _, err := os.Lstat(filepath.Join(dir, "sockets")); !os.IsNotExist(err) {
				t.Errorf("the sockets are still there: %v", err)
			}
		})
	}
}

// TestDamagedDataDirectory damages etcd's database and log, in ways in which etcd would exit the process,
// wait forever, or start with an empty log.
func TestDamagedDataDirectory(t *testing.T) {
	const database, log = "etcd/member/snap/db", "etcd/member/wal"
	scribble := func(name string) error { return os.WriteFile(name, []byte(strings.Repeat("damage", 10000)), 0o600) }
	for name, c := range map[string]struct {
		file   string
		damage func(name string) error
		want   string
	}{
		"database":         {database, scribble, "database"},
		"database cut off": {database, func(name string) error { return os.Truncate(name, 16<<10) }, "it is truncated"},
		"log":              {log + "/0000000000000000-0000000000000000.wal", scribble, "log"},
		"log cut off": {log + "/0000000000000000-0000000000000000.wal", func(name string) error { return os.Truncate(name, 200) },
			"it ends at entry"},
		"log gone": {log, os.RemoveAll, "is missing"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			etcd, err := apiserver.StartEmbeddedEtcd(t.Context(), dir)
			if err != nil {
				t.Fatal(err)
			}
			etcd.Close()
			file := filepath.Join(dir, c.file)
			if err := c.damage(file); err != nil {
				t.Fatal(err)
			}
			before, _ := os.ReadFile(file)
			_, err = apiserver.StartEmbeddedEtcd(t.Context(), dir)
			if err == nil || !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
				t.Fatalf("error %v, want one line that names the directory, with %q", err, c.want)
			}
			if after, _ := os.ReadFile(file); !bytes.Equal(before, after) {
				t.Error("the damaged file was replaced: a user may want to repair it")
			}
			// A failed start must release the directory.
			if _, err := apiserver.StartEmbeddedEtcd(t.Context(), dir); err == nil || strings.Contains(err.Error(), "in use") {
				t.Errorf("second try: %v", err)
			}
		})
	}
}

// TestNoLeader: a member of a cluster whose other member does not exist waits for a leader forever, and so
// does etcd's own Close. Ours has a timeout.
func TestNoLeader(t *testing.T) {
	dir := t.TempDir()
	c := embed.NewConfig()
	c.Name, c.Dir = "rehearse", filepath.Join(dir, "etcd")
	c.ListenPeerUrls, c.ListenClientUrls = nil, []url.URL{{Scheme: "unix", Host: "", Path: filepath.Join(t.TempDir(), "c")}}
	c.AdvertisePeerUrls = []url.URL{{Scheme: "http", Host: "localhost:2380"}}
	c.InitialCluster = "rehearse=http://localhost:2380,other=http://localhost:2390"
	c.LogLevel = "panic"
	other, err := embed.StartEtcd(c)
	if err != nil {
		t.Fatal(err)
	}
	// The files of a killed member.
	killed := t.TempDir()
	if err := os.CopyFS(filepath.Join(killed, "etcd"), os.DirFS(c.Dir)); err != nil {
		t.Fatal(err)
	}
	other.Server.HardStop()

	// Long enough for etcd to start; it is then stopped before it has a leader.
	ctx, cancel := context.WithTimeout(t.Context(), 700*time.Millisecond)
	defer cancel()
	if _, err := apiserver.StartEmbeddedEtcd(ctx, killed); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("started, or gave up for another reason: %v", err)
	}
}

// TestInterruptedStart: a start that is interrupted while etcd opens its files leaves no etcd behind, which would keep the directory locked.
func TestInterruptedStart(t *testing.T) {
	dir := t.TempDir()
	for _, limit := range []time.Duration{time.Millisecond, 5 * time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond} {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		if e, err := apiserver.StartEmbeddedEtcd(ctx, dir); err == nil {
			e.Close() // a fast machine
		}
		cancel()
	}
	e, err := apiserver.StartEmbeddedEtcd(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	e.Close()
}
