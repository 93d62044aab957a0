package apiserver

import (
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"sync"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
)

// Quiet discards the logs of the Kubernetes code in this process, which logs much at the start and the end of a server. If that code
// terminates the process (klog.Fatal, for example because a hook of the server takes too long), Quiet prints the last errors and the
// stack to stderr: with a logger that discards everything, the process would exit with code 255 and without a message.
func Quiet() {
	last := &lastErrors{}
	klog.SetLoggerWithOptions(logr.New(last), klog.WriteKlogBuffer(last.write))
	klog.OsExit = func(code int) {
		fmt.Fprintf(os.Stderr, "the Kubernetes code in this process terminated it with exit code %d. The last errors that it logged, the newest last:\n%s%s", code, last, debug.Stack())
		os.Exit(code)
	}
}

// keptErrors is how many errors are printed: other goroutines log between the fatal message and the exit.
const keptErrors = 10

// lastErrors is a sink that keeps the last errors and fatal messages, and discards all other messages.
type lastErrors struct {
	mu   sync.Mutex
	kept []string
}

func (l *lastErrors) keep(message string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kept = append(l.kept, message)
	l.kept = slices.Delete(l.kept, 0, max(0, len(l.kept)-keptErrors))
}

// String returns the errors, each on a line.
func (l *lastErrors) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(append(slices.Clone(l.kept), ""), "\n")
}

// write receives the messages that have a format instead of values, as klog would print them: the first letter is the severity.
func (l *lastErrors) write(line []byte) {
	if len(line) > 0 && (line[0] == 'E' || line[0] == 'F') {
		l.keep(strings.TrimSuffix(string(line), "\n"))
	}
}

// Error implements logr.LogSink.
func (l *lastErrors) Error(err error, message string, _ ...any) {
	l.keep(fmt.Sprintf("%s: %v", message, err))
}

func (l *lastErrors) Init(logr.RuntimeInfo)          {}
func (l *lastErrors) Info(int, string, ...any)       {}
func (l *lastErrors) Enabled(level int) bool         { return level <= 0 } // higher levels would cost time
func (l *lastErrors) WithValues(...any) logr.LogSink { return l }
func (l *lastErrors) WithName(string) logr.LogSink   { return l }
