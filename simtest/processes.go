package simtest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rehearse-k8s/rehearse/internal/sim"
)

// A process plays one run at a time. With -simtest.processes a search also plays runs in worker processes: the same test binary,
// which executes the same test up to the same search (worker.go). The parent chooses the plans, and confirms, shrinks and
// reports what fails.

// oneSearch is locked during a search with worker processes, so that parallel tests do not each start theirs.
var oneSearch sync.Mutex

// awaitWorkers makes a search begin when its worker processes are ready. Tests set it; otherwise the process plays the first
// runs while the others start.
var awaitWorkers bool

// processorCount is the number of processors, from before a search sets GOMAXPROCS.
var processorCount = runtime.GOMAXPROCS(0)

// workerCount returns how many worker processes a search of a test starts.
func workerCount(t testing.TB) int {
	if _, ok := t.(*testing.T); !ok || worker != nil {
		return 0 // -test.run selects neither benchmarks nor examples
	}
	if *flagProcesses == 0 {
		return processorCount - 1
	}
	return *flagProcesses - 1
}

// workerProcess is a process that plays runs. It implements sim.World.
type workerProcess struct {
	*sim.Remote
	name   string
	cmd    *exec.Cmd
	in     io.Closer
	output excerpt
	// exited is closed when the process has exited; then err is set.
	exited chan struct{}
	err    error
	// early: the search ended before the process reached it.
	early bool
}

// workerGroup are the worker processes of one search.
type workerGroup struct {
	all    []*workerProcess
	once   sync.Once
	locked bool // oneSearch
}

// startWorkers starts n worker processes for the search with a key. The caller must call end.
func startWorkers(t testing.TB, n int, key string) (*workerGroup, error) {
	s := &workerGroup{}
	if n < 1 {
		return s, nil
	}
	oneSearch.Lock()
	s.locked = true
	for number := range n {
		w, err := startWorker(t.Name(), fmt.Sprintf("worker process %d", number+1), key)
		if err != nil {
			s.end()
			return nil, fmt.Errorf("-simtest.processes: start %d worker processes: %w", n, err)
		}
		s.all = append(s.all, w)
	}
	if awaitWorkers {
		for _, w := range s.all {
			<-w.Ready()
		}
	}
	return s, nil
}

func startWorker(test, name, key string) (*workerProcess, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	w := &workerProcess{name: name, cmd: exec.Command(self, workerArguments(test)...), exited: make(chan struct{})}
	w.cmd.Env = append(os.Environ(), workerVariable+"="+key)
	w.cmd.Stderr = &w.output
	w.cmd.WaitDelay = workerEndTimeout
	plans, err := w.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	answers, err := w.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := w.cmd.Start(); err != nil {
		return nil, err
	}
	w.Remote, w.in = sim.NewRemote(plans), plans
	go func() {
		defer close(w.exited)
		w.Receive(answers)
		_ = w.in.Close() // the process has exited, or is about to
		w.err = w.cmd.Wait()
	}()
	return w, nil
}

// worlds returns the worker processes for a search.
func (s *workerGroup) worlds() (worlds []sim.World) {
	for _, w := range s.all {
		worlds = append(worlds, w)
	}
	return worlds
}

// end ends the worker processes, and waits for them. It does nothing when it is called again.
func (s *workerGroup) end() {
	s.once.Do(func() {
		var ends sync.WaitGroup
		for _, w := range s.all {
			ends.Go(w.end)
		}
		ends.Wait()
		if s.locked {
			oneSearch.Unlock()
		}
	})
}

// problems describes the worker processes that failed, with what they printed. They must have ended.
func (s *workerGroup) problems() (texts []string) {
	for _, w := range s.all {
		switch {
		case w.early:
		case w.err != nil:
			texts = append(texts, fmt.Sprintf("%s: %v\n%s", w.name, w.err, w.output.String()))
		case !w.Reached():
			texts = append(texts, fmt.Sprintf("%s exited before it reached this search: a test must execute the same searches in each process\n%s", w.name, w.output.String()))
		}
	}
	return texts
}

// report reports the worker processes that failed: as part of err, the error of the search, if one of them caused it, and
// else as errors of the test.
func (s *workerGroup) report(t testing.TB, err error) error {
	t.Helper()
	problems := s.problems()
	if errors.Is(err, sim.ErrDisconnected) {
		return fmt.Errorf("%w\n%s", err, strings.Join(problems, "\n"))
	}
	for _, text := range problems {
		t.Error(text)
	}
	return err
}

// String says how many runs each process has played; empty if there is none.
func (s *workerGroup) String() string {
	texts := make([]string, len(s.all))
	for n, w := range s.all {
		texts[n] = fmt.Sprintf("%s played %s", w.name, count(w.Played(), "run"))
	}
	return strings.Join(texts, ", ")
}

// workerEndTimeout is how long a worker process may take to exit.
const workerEndTimeout = 10 * time.Second

// end ends the process.
func (w *workerProcess) end() {
	if w.Reached() {
		_ = w.End() // an error means that it has exited
	} else if w.early = !w.hasExited(); w.early {
		_ = w.cmd.Process.Kill()
	}
	select {
	case <-w.exited:
	case <-time.After(workerEndTimeout):
		_ = w.cmd.Process.Kill() // its exit status says so
		<-w.exited
	}
}

func (w *workerProcess) hasExited() bool {
	select {
	case <-w.exited:
		return true
	default:
		return false
	}
}

// Play implements sim.World.
func (w *workerProcess) Play(ctx context.Context, p sim.Plan) (*sim.Outcome, error) {
	out, err := w.Remote.Play(ctx, p)
	if err != nil {
		err = fmt.Errorf("%s: %w", w.name, err)
	}
	return out, err
}

// testFlags are the flags of the testing package that a worker process gets in place of those of its parent: it runs one test,
// prints nothing, and writes none of the parent's files. The parent's timeout ends it too.
var testFlags = []string{
	"test.v=false", "test.count=1", "test.list=", "test.bench=", "test.fuzz=", "test.skip=", "test.shuffle=off", "test.timeout=0",
	"test.testlogfile=", "test.coverprofile=", "test.cpuprofile=", "test.memprofile=", "test.blockprofile=", "test.mutexprofile=",
	"test.trace=", "test.artifacts=false",
}

// workerArguments returns the arguments of a worker process: those of this process, and flags that override some of them.
func workerArguments(test string) []string {
	flags, rest := slices.Clone(os.Args[1:len(os.Args)-flag.NArg()]), flag.Args()
	if n := len(flags); n > 0 && flags[n-1] == "--" {
		flags, rest = flags[:n-1], append([]string{"--"}, rest...)
	}
	for _, f := range testFlags {
		if name, _, _ := strings.Cut(f, "="); flag.Lookup(name) != nil {
			flags = append(flags, "-"+f)
		}
	}
	flag.VisitAll(func(f *flag.Flag) { // the test may have set them
		if strings.HasPrefix(f.Name, "simtest.") {
			flags = append(flags, fmt.Sprintf("-%s=%s", f.Name, f.Value))
		}
	})
	flags = append(flags, "-simtest.v=false", "-simtest.corpus=", "-test.run="+patternOf(test))
	return append(flags, rest...)
}

// patternOf returns the pattern for -test.run that selects one test.
func patternOf(test string) string {
	parts := strings.Split(test, "/")
	for n := range parts {
		parts[n] = "^" + regexp.QuoteMeta(parts[n]) + "$"
	}
	return strings.Join(parts, "/")
}

// excerpt keeps the beginning and the end of what is written to it.
type excerpt struct {
	mu         sync.Mutex
	head, tail []byte
	omitted    int
}

// maxExcerpt limits the beginning and the end, in bytes each.
const maxExcerpt = 32 << 10

// Write implements io.Writer.
func (e *excerpt) Write(p []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := min(len(p), maxExcerpt-len(e.head))
	e.head = append(e.head, p[:n]...)
	e.tail = append(e.tail, p[n:]...)
	if over := len(e.tail) - maxExcerpt; over > 0 {
		e.omitted += over
		e.tail = slices.Clone(e.tail[over:])
	}
	return len(p), nil
}

func (e *excerpt) String() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.omitted == 0 {
		return string(e.head) + string(e.tail)
	}
	return fmt.Sprintf("%s\n... %d bytes are omitted ...\n%s", e.head, e.omitted, e.tail)
}
