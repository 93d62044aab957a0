package apiserver

import (
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"sync/atomic"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
)

// Quiet discards the logs of the Kubernetes code in this process, which logs much at the start and the end of a server. If that code
// terminates the process (klog.Fatal, for example because a hook of the server takes too long), Quiet prints its last message and its stack
// to stderr: with a logger that discards everything, the process would exit with code 255 and without a message.
func Quiet() { quiet(os.Stderr, os.Exit) }

func quiet(stderr io.Writer, exit func(int)) {
	last := &lastMessage{}
	klog.SetLogger(logr.New(last))
	klog.OsExit = func(code int) {
		message := "without a message"
		if m := last.text.Load(); m != nil {
			message = *m
		}
		fmt.Fprintf(stderr, "the Kubernetes code in this process terminated it with exit code %d: %s\n%s", code, message, debug.Stack())
		exit(code)
	}
}

// lastMessage is a sink that keeps only the last message without values. klog passes a fatal message like any other one, without its severity.
type lastMessage struct{ text atomic.Pointer[string] }

// Info implements logr.LogSink.
func (l *lastMessage) Info(_ int, message string, values ...any) {
	if len(values) == 0 {
		l.text.Store(&message)
	}
}

func (l *lastMessage) Init(logr.RuntimeInfo)          {}
func (l *lastMessage) Enabled(level int) bool         { return level <= 0 } // higher levels would cost time
func (l *lastMessage) Error(error, string, ...any)    {}
func (l *lastMessage) WithValues(...any) logr.LogSink { return l }
func (l *lastMessage) WithName(string) logr.LogSink   { return l }
