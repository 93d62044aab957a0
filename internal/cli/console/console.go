package console

import (
	"io"
	"os"
	"time"
)

// UserAgent is the user agent of the requests that commands send, and the field manager of what they write.
const UserAgent = "rehearse"

// APIVersion is the version of what commands print as JSON or YAML.
const APIVersion = "rehearse-k8s.github.io/v1alpha1"

// Stdin is the file name that stands for standard input, on the command line and in messages.
const Stdin = "-"

// Console is everything that one run of the program touches outside itself, except for clusters.
type Console struct {
	Streams
	Getenv     func(string) string
	Now        func() time.Time
	Signals    func() (<-chan os.Signal, func())
	Executable func() (string, error)
	Exit       func(int)
}

// New returns the console of this process, with these streams.
func New(streams Streams) *Console {
	return &Console{
		Streams: streams, Getenv: os.Getenv, Now: time.Now,
		Signals: notifySignals, Executable: os.Executable, Exit: os.Exit,
	}
}

// Open opens a file, or standard input for the name "-".
func (c *Console) Open(name string) (io.ReadCloser, error) {
	if name == Stdin {
		return io.NopCloser(c.In), nil
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, Usagef("%v", err)
	}
	return f, nil
}
