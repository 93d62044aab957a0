//go:build unix

package cluster

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rehearse-k8s/rehearse/internal/cli/statedir"
)

// TestChildThatDoesNotExit: a background process that does not stop is killed after the timeout, and the
// error says so.
func TestChildThatDoesNotExit(t *testing.T) {
	child := exec.Command("sleep", "60")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	err := awaitExit(child, 10*time.Millisecond)
	if err == nil || !strings.Contains(err.Error(), "did not exit within 10ms and was killed") {
		t.Errorf("error %v", err)
	}
	if child.ProcessState == nil {
		t.Error("the process still runs")
	}
}

// TestDownLeavesAClusterThatStarts: after `down` has found a directory without a cluster, and before it
// removes the directory, a cluster may start to use it.
func TestDownLeavesAClusterThatStarts(t *testing.T) {
	a := testApp(t)
	root, err := statedir.DefaultRoot(a.Getenv)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, root.LogPath("a"), "of one that failed\n")
	if e, ok, err := root.Look("a"); ok || err != nil {
		t.Fatalf("a log alone is no cluster: %+v, %v", e, err)
	}
	dir, _, err := root.Claim("a")
	if err != nil {
		t.Fatal(err)
	}
	if err := dir.WriteKubeconfig([]byte("its own")); err != nil {
		t.Fatal(err)
	}
	if err := a.removeLeftovers(root, "a"); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(root.KubeconfigPath("a")); err != nil {
		t.Errorf("the files of a cluster that starts were removed: %v", err)
	}
	if err := dir.Release(true); err != nil {
		t.Fatal(err)
	}
	if err := a.removeLeftovers(root, "a"); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(root.Path("a")); !os.IsNotExist(err) {
		t.Errorf("the directory of no cluster is still there: %v", err)
	}
}

// TestStartTimeout: a cluster that begins with a snapshot is not killed while it restores, unless the user says so.
func TestStartTimeout(t *testing.T) {
	file := filepath.Join(t.TempDir(), "cluster.yaml")
	writeFile(t, file, "apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n")
	for _, c := range []struct {
		args []string
		want time.Duration
	}{
		{nil, startTimeout}, {[]string{"--from", file}, restoreTimeout}, {[]string{"--from", file, "--timeout", "5s"}, 5 * time.Second},
	} {
		cmd, o := testApp(t).newUp()
		if err := cmd.ParseFlags(c.args); err != nil {
			t.Fatal(err)
		}
		if err := o.validate(cmd); err != nil || o.timeout != c.want {
			t.Errorf("%q: timeout %s, %v", c.args, o.timeout, err)
		}
	}
}
