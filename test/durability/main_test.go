//go:build unix

package durability_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/rehearse-k8s/rehearse/internal/cli"
)

// timeout limits the time until a cluster has started, and the time until its disk is full.
const timeout = 60 * time.Second

// TestMain lets this test binary run as rehearse.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"rehearse": func() { os.Exit(cli.Main(context.Background(), os.Args[1:], cli.StdStreams())) }})
}
