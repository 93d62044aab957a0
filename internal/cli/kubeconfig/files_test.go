package kubeconfig

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
)

func TestFind(t *testing.T) {
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	write(t, b, handmade)
	missing := filepath.Join(dir, "missing")
	list := func(files ...string) string { return strings.Join(files, string(filepath.ListSeparator)) }
	cases := map[string]struct {
		flag, env, home string
		path            string
		files           int
	}{
		"the flag wins":                       {flag: a, env: b, home: dir, path: a, files: 1},
		"one file":                            {env: a, home: dir, path: a, files: 1},
		"first that exists":                   {env: list(missing, b, a), path: b, files: 3},
		"none exists: the last":               {env: list(missing, a), path: a, files: 2},
		"empty and repeated parts":            {env: list("", b, b, ""), path: b, files: 1},
		"nothing but separators: the default": {env: list("", ""), home: dir, path: filepath.Join(dir, ".kube", "config"), files: 1},
		"home":                                {home: dir, path: filepath.Join(dir, ".kube", "config"), files: 1},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := Find(c.flag, func(k string) string { return map[string]string{"KUBECONFIG": c.env, "HOME": c.home}[k] })
			must(t, err)
			if got.Path != c.path || len(got.Files) != c.files {
				t.Errorf("got %+v", got)
			}
		})
	}
	if _, err := Find("", func(string) string { return "" }); err == nil || !strings.Contains(err.Error(), "--kubeconfig") {
		t.Errorf("without HOME: %v", err)
	}
}

func TestSeveralFiles(t *testing.T) {
	dir := t.TempDir()
	first, second := filepath.Join(dir, "first"), filepath.Join(dir, "second")
	empty := "apiVersion: v1\nkind: Config\nclusters: []\ncontexts: []\nusers: []\n"
	write(t, first, empty)
	write(t, second, handmade)
	target := Target{Files: []string{first, second}, Path: first}
	must(t, target.Merge("rehearse-a", entries("rehearse-a", "https://a")))
	if got := current(t, first, second); got != "rehearse-a" {
		t.Errorf("kubectl would see %q", got)
	}
	if read(t, second) != handmade {
		t.Error("the second file was touched")
	}
	must(t, target.Remove("rehearse-a", "https://a"))
	if got := current(t, first, second); got != "prod" {
		t.Errorf("afterwards kubectl would see %q", got)
	}
	if read(t, second) != handmade {
		t.Error("the second file was touched")
	}
}

func TestStaleEntryInAnotherFileDoesNotHideTheNewOne(t *testing.T) {
	dir := t.TempDir()
	first, second := filepath.Join(dir, "first"), filepath.Join(dir, "second")
	write(t, second, handmade)
	must(t, one(first).Merge("rehearse-a", entries("rehearse-a", "https://old")))
	target := Target{Files: []string{first, second}, Path: second}
	must(t, target.Merge("rehearse-a", entries("rehearse-a", "https://new")))
	c, err := (&clientcmd.ClientConfigLoadingRules{Precedence: target.Files}).Load()
	must(t, err)
	if got := c.Clusters["rehearse-a"].Server; got != "https://new" {
		t.Errorf("kubectl would go to %s", got)
	}
}

func TestSymlinkAndModeStay(t *testing.T) {
	dir := t.TempDir()
	real, link := filepath.Join(dir, "dotfiles", "kube"), filepath.Join(dir, "config")
	write(t, real, handmade)
	must(t, os.Chmod(real, 0o640))
	must(t, os.Symlink(filepath.Join("dotfiles", "kube"), link))
	must(t, one(link).Merge("rehearse-a", entries("rehearse-a", "https://a")))
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Error("the link was replaced by a file")
	}
	info, err := os.Stat(real)
	must(t, err)
	if info.Mode().Perm() != 0o640 {
		t.Errorf("mode became %o", info.Mode().Perm())
	}
	if !strings.Contains(read(t, real), "rehearse-a") {
		t.Error("the file behind the link was not written")
	}
	leftovers(t, filepath.Dir(real))
	leftovers(t, dir)
}

func TestDanglingLinkAndLoop(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(dir, "config")
	must(t, os.Symlink("later", link))
	must(t, one(link).Merge("rehearse-a", entries("rehearse-a", "https://a")))
	if !strings.Contains(read(t, filepath.Join(dir, "later")), "rehearse-a") {
		t.Error("the link's target was not made")
	}
	loop := filepath.Join(dir, "loop")
	must(t, os.Symlink("loop", loop))
	if err := one(loop).Check("x"); err == nil {
		t.Error("a link to itself was accepted")
	}
	if err := one(dir).Check("x"); err == nil || !strings.Contains(err.Error(), "directory") {
		t.Errorf("a directory was accepted: %v", err)
	}
}

// /proc is not writable even for root, which ignores permission bits.
func TestUnwritableDirectoryIsFoundByCheck(t *testing.T) {
	path := "/proc/self/config"
	if err := one(path).Check("rehearse-a"); err == nil || !strings.Contains(err.Error(), "its directory is not writable") {
		t.Errorf("got %v", err)
	}
}

func TestFullDiskLeavesTheOldFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config")
	write(t, path, handmade)
	whole := writeAll
	defer func() { writeAll = whole }()
	full := errors.New("no space left on device")
	writeAll = func(f *os.File, data []byte) error { return errors.Join(whole(f, data[:len(data)/2]), full) }
	err := one(path).Merge("rehearse-a", entries("rehearse-a", "https://a"))
	if !errors.Is(err, full) {
		t.Errorf("got %v", err)
	}
	if read(t, path) != handmade {
		t.Error("the file was changed")
	}
	leftovers(t, filepath.Dir(path))
}

func TestKubectlsLockIsRespected(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config")
	write(t, path, handmade)
	write(t, path+".lock", "")
	released := make(chan struct{})
	go func() {
		defer close(released)
		time.Sleep(50 * time.Millisecond) // as long as kubectl might take
		if read(t, path) != handmade {
			t.Error("written under another program's lock")
		}
		_ = os.Remove(path + ".lock")
	}()
	must(t, one(path).Merge("rehearse-a", entries("rehearse-a", "https://a")))
	<-released
	leftovers(t, filepath.Dir(path))
}

func TestLockOfADeadProcessIsCleared(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config")
	write(t, path+".lock", lockMark)
	must(t, one(path).Merge("rehearse-a", entries("rehearse-a", "https://a")))
	leftovers(t, filepath.Dir(path))
}

// TestLockHasADeadline: after a deadline, the error names a process that never releases the lock (because it
// is stopped, or its file system does not answer), and its lock file.
func TestLockHasADeadline(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config")
	unlock, err := lockOne(path + ".lock")
	must(t, err)
	defer unlock()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	err = awaitRelease(ctx, path+".lock")
	want := fmt.Sprintf("kubeconfig is locked: process %d has held %s.lock", os.Getpid(), path)
	if err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
}

// TestManyProcesses: several processes merge and remove at the same time, one of them with client-go's own
// writer. Finally, the file contains exactly the entries that were merged and not removed.
func TestManyProcesses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config")
	write(t, path, handmade)
	var wg sync.WaitGroup
	const processes = 6
	for p := range processes {
		wg.Go(func() {
			cmd := exec.Command(os.Args[0], "-test.run=^$")
			cmd.Env = append(os.Environ(), "KUBECONFIG_TEST_WORKER="+fmt.Sprint(p), "KUBECONFIG_TEST_FILE="+path)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("process %d: %v\n%s", p, err, out)
			}
		})
	}
	wg.Wait()
	c, err := clientcmd.LoadFromFile(path)
	must(t, err)
	if c.Clusters["prod"] == nil || c.AuthInfos["admin"] == nil {
		t.Error("entries of others were lost")
	}
	for p := range processes {
		name := fmt.Sprintf("rehearse-keep-%d", p)
		if c.Clusters[name] == nil || c.Contexts[name] == nil || c.AuthInfos[name] == nil {
			t.Errorf("%s was lost", name)
		}
	}
	if len(c.Clusters) != 1+processes {
		t.Errorf("%d clusters are left, want %d", len(c.Clusters), 1+processes)
	}
	leftovers(t, filepath.Dir(path))
}

// worker is one of the processes.
func worker(id, path string) error {
	for round := range 10 {
		name := fmt.Sprintf("rehearse-%s-%d", id, round)
		if err := one(path).Merge(name, entries(name, "https://"+name)); err != nil {
			return err
		}
		if err := one(path).Remove(name, "https://"+name); err != nil {
			return err
		}
	}
	name := "rehearse-keep-" + id
	return one(path).Merge(name, entries(name, "https://"+name))
}

func TestMain(m *testing.M) {
	if id := os.Getenv("KUBECONFIG_TEST_WORKER"); id != "" {
		if err := worker(id, os.Getenv("KUBECONFIG_TEST_FILE")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// TestKilledWriters kills processes during their writes: the file parses after every kill, and the lock of a
// dead process does not block the next one.
func TestKilledWriters(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config")
	write(t, path, handmade)
	for i := range 15 {
		cmd := exec.Command(os.Args[0], "-test.run=^$")
		cmd.Env = append(os.Environ(), "KUBECONFIG_TEST_WORKER=k", "KUBECONFIG_TEST_FILE="+path)
		must(t, cmd.Start())
		time.Sleep(time.Duration(10+3*i) * time.Millisecond) // kill a real process at different points
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		c, err := clientcmd.LoadFromFile(path)
		must(t, err)
		if c.Clusters["prod"] == nil || c.AuthInfos["admin"] == nil {
			t.Fatal("entries of others were lost")
		}
	}
	must(t, one(path).Merge("rehearse-z", entries("rehearse-z", "https://z")))
}
