//go:build unix

package cli

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/rehearse-k8s/rehearse/internal/cli/statedir"
)

// TestMain lets this test binary run as rehearse, so that scripts use real processes.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"rehearse": func() {
			a := newApp(StdStreams())
			if os.Getenv("REHEARSE_TEST_FAKE") != "" {
				a.start = startFake
			}
			os.Exit(a.run(context.Background(), os.Args[1:]))
		},
	})
}

// TestScripts tests the contract of the command line: the output streams, exit codes, and files. Most scripts
// run without a cluster or with a fake one.
func TestScripts(t *testing.T) { runScripts(t, "testdata/script") }

// TestClusterScripts starts real clusters.
func TestClusterScripts(t *testing.T) { runScripts(t, "testdata/cluster") }

func runScripts(t *testing.T, dir string) { testscript.Run(t, scripts(dir)) }

// scripts runs the scripts of a directory, with their additional commands.
func scripts(dir string) testscript.Params {
	return testscript.Params{
		Dir:           dir,
		UpdateScripts: os.Getenv("UPDATE_GOLDEN") != "",
		Setup: func(e *testscript.Env) error {
			home := filepath.Join(e.WorkDir, "home")
			e.Setenv("HOME", home)
			e.Setenv("STATE", filepath.Join(home, ".local", "state", "rehearse", "clusters"))
			e.Setenv("REPO", repository())
			e.Defer(func() { killLeftovers(home) })
			return os.MkdirAll(home, 0o755)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"code":   exitsWith,
			"ready":  ready,
			"ended":  ended,
			"signal": signalCluster,
			"until":  until,
			"dial":   dial,
		},
	}
}

// repository returns the directory that contains deploy/ and docs/.
func repository() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "..", "..")
}

// killLeftovers kills the processes that a failed script left running.
func killLeftovers(home string) {
	root, _ := statedir.DefaultRoot(func(k string) string { return map[string]string{"HOME": home}[k] })
	entries, _ := root.List()
	for _, e := range entries {
		if e.Live && e.Record != nil && e.Record.Alive() {
			_ = syscall.Kill(e.Record.PID, syscall.SIGKILL)
		}
	}
}

func scriptRoot(ts *testscript.TestScript) statedir.Root {
	root, err := statedir.DefaultRoot(ts.Getenv)
	ts.Check(err)
	return root
}

// exitsWith runs a command and checks its exit code: code N COMMAND ARGS...
func exitsWith(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	// A command that should fail and keeps running is a failure, not a hang.
	limit := time.AfterFunc(scriptTimeout, func() { killLeftovers(ts.Getenv("HOME")) })
	defer limit.Stop()
	got := 0
	var exit *exec.ExitError
	if err := ts.Exec(args[1], args[2:]...); errors.As(err, &exit) {
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

const scriptTimeout = 60 * time.Second

// ready waits until the clusters of these names run.
func ready(ts *testscript.TestScript, _ bool, names []string) {
	root := scriptRoot(ts)
	for _, n := range names {
		deadline := time.Now().Add(scriptTimeout)
		for {
			e, _, err := root.Look(n)
			ts.Check(err)
			if e.Live && e.Record != nil && e.Record.Status == statedir.Running {
				break
			}
			if time.Now().After(deadline) {
				ts.Fatalf("cluster %s is not ready: %+v", n, e)
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
}

// ended waits until no process holds the names.
func ended(ts *testscript.TestScript, _ bool, names []string) {
	for _, n := range names {
		if !scriptRoot(ts).AwaitEnd(n, scriptTimeout) {
			ts.Fatalf("cluster %s still runs", n)
		}
	}
}

// signalCluster sends a signal to a cluster's process: signal INT|TERM|KILL|HUP NAME
func signalCluster(ts *testscript.TestScript, _ bool, args []string) {
	e, _, err := scriptRoot(ts).Look(args[1])
	ts.Check(err)
	if !e.Live || e.Record == nil {
		ts.Fatalf("cluster %s does not run", args[1])
	}
	sig := map[string]syscall.Signal{"INT": syscall.SIGINT, "TERM": syscall.SIGTERM, "KILL": syscall.SIGKILL, "HUP": syscall.SIGHUP}[args[0]]
	ts.Check(syscall.Kill(e.Record.PID, sig))
}

// until repeats a command until it succeeds, because a real cluster needs time.
func until(ts *testscript.TestScript, _ bool, args []string) {
	deadline := time.Now().Add(scriptTimeout)
	for ts.Exec(args[0], args[1:]...) != nil {
		if time.Now().After(deadline) {
			ts.Fatalf("it never succeeded")
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// forwarding is the line in which kubectl port-forward names its port on this machine.
var forwarding = regexp.MustCompile(`Forwarding from (127\.0\.0\.1:\d+) -> `)

// dial connects to the port that kubectl port-forward has named in a file with its output, and writes what it receives to stdout: dial FILE
func dial(ts *testscript.TestScript, _ bool, args []string) {
	found := forwarding.FindStringSubmatch(ts.ReadFile(args[0]))
	if found == nil {
		ts.Fatalf("%s names no port: %s", args[0], ts.ReadFile(args[0]))
	}
	conn, err := net.Dial("tcp", found[1])
	ts.Check(err)
	defer conn.Close()
	ts.Check(conn.SetDeadline(time.Now().Add(scriptTimeout)))
	// kubectl resets the connection when the target has an error, which it reports itself.
	answer, _ := io.ReadAll(conn)
	_, err = ts.Stdout().Write(answer)
	ts.Check(err)
}
