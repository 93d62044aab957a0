//go:build unix

package simtest

import (
	"io"
	"os"
	"testing"
)

// TestProcessesEnd: when a process is killed, its worker process ends too, also during a run that never ends.
func TestProcessesEnd(t *testing.T) {
	reader, writer, err := os.Pipe()
	must(t, err)
	defer reader.Close()
	cmd := commandOfProcesses(t, "stuck", "-simtest.stuck=1h")
	cmd.ExtraFiles = []*os.File{writer} // the worker process inherits it
	must(t, cmd.Start())
	must(t, writer.Close())
	if _, err := reader.Read(make([]byte, 1)); err != nil {
		t.Fatalf("the worker process was not started: %v", err)
	}
	must(t, cmd.Process.Kill())
	if _, err := io.ReadAll(reader); err != nil { // until no process has the file open
		t.Error(err)
	}
	_ = cmd.Wait()
}
