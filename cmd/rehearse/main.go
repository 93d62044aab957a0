// Command rehearse runs a real Kubernetes API with simulated nodes and pods in one process.
//
// Everything is in internal/cli; this is the place where a process begins: arguments and streams go in,
// an exit code comes out. It holds no logic, so that all of it can be tested without a process.
//
// Floor: F4.
package main

import (
	"context"
	"os"

	"github.com/rehearse-k8s/rehearse/internal/cli"
)

func main() {
	os.Exit(cli.Main(context.Background(), os.Args[1:], cli.StdStreams()))
}
