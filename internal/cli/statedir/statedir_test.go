package statedir

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func claim(t *testing.T, r Root, name string) (*Dir, *Record) {
	t.Helper()
	d, stale, err := r.Claim(name)
	must(t, err)
	return d, stale
}

func TestDefaultRoot(t *testing.T) {
	cases := map[string]struct {
		xdg, home string
		want      Root
	}{
		"XDG":                       {"/x/state", "/h", "/x/state/rehearse"},
		"home":                      {"", "/h", "/h/.local/state/rehearse"},
		"XDG must be absolute":      {"state", "/h", "/h/.local/state/rehearse"},
		"nothing is known":          {"", "", ""},
		"XDG is enough without one": {"/x", "", "/x/rehearse"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := DefaultRoot(func(k string) string { return map[string]string{"XDG_STATE_HOME": c.xdg, "HOME": c.home}[k] })
			if got != c.want || (err != nil) != (c.want == "") {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
}

func TestLifeOfOneName(t *testing.T) {
	r := Root(t.TempDir())
	d, stale := claim(t, r, "a")
	if stale != nil {
		t.Errorf("a new name has a past: %+v", stale)
	}
	info, err := os.Stat(d.Path)
	must(t, err)
	if info.Mode().Perm() != 0o700 {
		t.Errorf("mode %o", info.Mode().Perm())
	}
	must(t, d.Save(Self("a", time.Now())))
	must(t, d.WriteKubeconfig([]byte("x")))
	info, err = os.Stat(r.KubeconfigPath("a"))
	must(t, err)
	if info.Mode().Perm() != 0o600 {
		t.Errorf("kubeconfig has mode %o", info.Mode().Perm())
	}
	var live *LiveError
	if _, _, err := r.Claim("a"); !errors.As(err, &live) || live.Record.PID != os.Getpid() ||
		!strings.Contains(err.Error(), "rehearse down a") {
		t.Errorf("a second claim: %v", err)
	}
	entries, err := r.List()
	must(t, err)
	if len(entries) != 1 || !entries[0].Live || !entries[0].Record.Alive() {
		t.Errorf("list: %+v", entries)
	}
	must(t, d.Release(false))
	if _, err := os.Stat(d.Path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory is still there: %v", err)
	}
	if entries, err := r.List(); err != nil || len(entries) != 0 {
		t.Errorf("list: %+v, %v", entries, err)
	}
}

// TestHolderIsNamed: the error names the process and the file, even before a record exists.
func TestHolderIsNamed(t *testing.T) {
	r := Root(t.TempDir())
	d, _ := claim(t, r, "a")
	lock := filepath.Join(d.Path, lockFile)
	for _, want := range []string{
		fmt.Sprintf(`cluster "a" is being started by another process (pid %d, lock file %s)`, os.Getpid(), lock),
		fmt.Sprintf(`cluster "a" is already running (pid %d, lock file %s)`, os.Getpid(), lock),
	} {
		if _, _, err := r.Claim("a"); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
		if err := r.CheckFree("a"); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("without a claim: got %v, want %s", err, want)
		}
		must(t, d.Save(Self("a", time.Now())))
	}
	must(t, d.Release(false))
}

func TestReleaseCanKeepTheLog(t *testing.T) {
	r := Root(t.TempDir())
	d, _ := claim(t, r, "a")
	must(t, d.Save(Self("a", time.Now())))
	must(t, os.WriteFile(r.LogPath("a"), []byte("why"), 0o600))
	must(t, os.WriteFile(r.LogPath("a")+".1", []byte("and before"), 0o600))
	must(t, os.MkdirAll(filepath.Join(d.Path, "pki"), 0o700))
	must(t, d.Release(true))
	list, err := os.ReadDir(d.Path)
	must(t, err)
	if len(list) != 2 || list[0].Name() != "rehearse.log" || list[1].Name() != "rehearse.log.1" {
		t.Errorf("left: %v", list)
	}
	if entries, err := r.List(); err != nil || len(entries) != 0 {
		t.Errorf("a log alone is not a cluster: %+v, %v", entries, err)
	}
}

func TestDamagedRecordIsStillClaimed(t *testing.T) {
	r := Root(t.TempDir())
	must(t, r.Prepare("a"))
	must(t, os.WriteFile(filepath.Join(r.Path("a"), recordFile), []byte("{"), 0o600))
	entries, err := r.List()
	must(t, err)
	if len(entries) != 1 || entries[0].Live {
		t.Errorf("list: %+v", entries)
	}
	d, stale := claim(t, r, "a")
	if stale == nil || stale.Name != "a" || stale.PID != 0 {
		t.Errorf("stale: %+v", stale)
	}
	must(t, d.Release(false))
}

func TestRecycledProcessIDIsNotAlive(t *testing.T) {
	r := Self("a", time.Now())
	if !r.Alive() {
		t.Error("this process is not alive")
	}
	r.ProcessStart += "1"
	if r.Alive() {
		t.Error("another process with the same ID is taken for the cluster")
	}
	if (Record{}).Alive() {
		t.Error("an empty record is alive")
	}
}

// TestOnlookersDoNotDisturb: Look takes the lock for a moment, and a claim at that moment must not fail.
func TestOnlookersDoNotDisturb(t *testing.T) {
	r := Root(t.TempDir())
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					_, _, _ = r.Look("a")
				}
			}
		})
	}
	for range 200 {
		d, _ := claim(t, r, "a")
		must(t, d.Release(false))
	}
	close(stop)
	wg.Wait()
}

// TestOneHolderAtATime: several processes create and remove directories concurrently, and a name never has
// two holders.
func TestOneHolderAtATime(t *testing.T) {
	r := Root(t.TempDir())
	var holders, claims atomic.Int32
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 100 {
				d, err := r.tryClaim("a")
				if err != nil && !vanished(err) {
					t.Error(err)
				}
				if d == nil {
					continue
				}
				if holders.Add(1) != 1 {
					t.Error("two hold the same name")
				}
				claims.Add(1)
				holders.Add(-1)
				if err := d.Release(false); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if claims.Load() == 0 {
		t.Error("no process ever claimed it")
	}
}

func TestKilledHolder(t *testing.T) {
	r := Root(t.TempDir())
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), "STATEDIR_TEST_HOLD="+string(r))
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	e, ok, err := r.Look("a")
	if err != nil || !ok || !e.Live || !e.Record.Alive() || e.Record.PID != cmd.Process.Pid {
		t.Fatalf("while it lives: %+v %v %v", e, ok, err)
	}
	if r.AwaitEnd("a", 0) {
		t.Error("it has not ended")
	}
	must(t, cmd.Process.Kill())
	_ = cmd.Wait()
	if !r.AwaitEnd("a", 5*time.Second) {
		t.Fatal("a dead process holds the lock")
	}
	d, stale := claim(t, r, "a")
	if stale == nil || stale.PID != cmd.Process.Pid || stale.Alive() {
		t.Errorf("stale: %+v", stale)
	}
	must(t, d.Release(false))
}

func TestMain(m *testing.M) {
	if root := os.Getenv("STATEDIR_TEST_HOLD"); root != "" {
		d, _, err := Root(root).Claim("a")
		if err == nil {
			err = d.Save(Self("a", time.Now()))
		}
		fmt.Println("held", err)
		time.Sleep(time.Minute) // until it is killed
		os.Exit(1)
	}
	os.Exit(m.Run())
}
