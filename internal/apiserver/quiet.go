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
// terminates the process (klog.Fatal, for example because a hook of the server takes too long), Quiet prints the last messages and the
// stack to stderr: with a logger that discards everything, the process would exit with code 255 and without a message.
func Quiet() {
	last := &lastMessages{}
	klog.SetLogger(logr.New(last))
	klog.OsExit = func(code int) {
		fmt.Fprintf(os.Stderr, "the Kubernetes code in this process terminated it with exit code %d. Its last log messages, the newest last:\n%s%s", code, last, debug.Stack())
		os.Exit(code)
	}
}

// keptMessages is how many messages are printed: other goroutines log between the fatal message and the exit.
const keptMessages = 10

// lastMessages is a sink that keeps the last errors, and the last messages without values. klog passes a fatal message like any other
// one, without its severity.
type lastMessages struct {
	mu   sync.Mutex
	kept []string
}

func (l *lastMessages) keep(message string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kept = append(l.kept, message)
	l.kept = slices.Delete(l.kept, 0, max(0, len(l.kept)-keptMessages))
}

// String returns the messages, each on a line.
func (l *lastMessages) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(append(slices.Clone(l.kept), ""), "\n")
}

// Info implements logr.LogSink.
func (l *lastMessages) Info(_ int, message string, values ...any) {
	if len(values) == 0 {
		l.keep(message)
	}
}

// Error implements logr.LogSink.
func (l *lastMessages) Error(err error, message string, _ ...any) {
	l.keep(fmt.Sprintf("%s: %v", message, err))
}

func (l *lastMessages) Init(logr.RuntimeInfo)          {}
func (l *lastMessages) Enabled(level int) bool         { return level <= 0 } // higher levels would cost time
func (l *lastMessages) WithValues(...any) logr.LogSink { return l }
func (l *lastMessages) WithName(string) logr.LogSink   { return l }
