package cluster_test

import (
	"context"
	"flag"
	"os"
	"syscall"
	"testing"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/rehearse-k8s/rehearse/cluster"
	"github.com/rehearse-k8s/rehearse/internal/apiserver"
)

// detector is a variable that client-go reads when a program starts: each informer compares its objects with copies, and the process ends if a reader
// has modified one. The objects of all informers of a cluster share parts.
const detector = "KUBE_CACHE_MUTATION_DETECTOR"

func TestMain(m *testing.M) {
	if os.Getenv(detector) == "" {
		_ = os.Setenv(detector, "true")
		if program, err := os.Executable(); err == nil {
			_ = syscall.Exec(program, os.Args, os.Environ()) // returns only if this system cannot replace a program
		}
	}
	flag.Parse()
	apiserver.Quiet()
	ctrl.SetLogger(logr.Discard())
	os.Exit(m.Run())
}

// startCluster starts a cluster that stops at the end of the test.
func startCluster(t *testing.T, o cluster.Options) *cluster.Cluster {
	t.Helper()
	o.StateDir = t.TempDir()
	c, err := cluster.Start(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Stop()
		if err := c.Err(); err != nil {
			t.Errorf("the cluster ended with %v", err)
		}
	})
	return c
}

func tokenRequest() *authenticationv1.TokenRequest { return &authenticationv1.TokenRequest{} }
