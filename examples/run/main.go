// Command run runs one of the example controllers as a process, as the command of `rehearse test`:
//
//	go build -o bin/examples ./examples/run
//	rehearse test examples/expectations/scenario.yaml -- bin/examples expectations
//
// It uses the kubeconfig in KUBECONFIG, and runs until it is killed. The examples' delays of
// seconds are tenths of seconds here, because a real process has no virtual time.
package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/rehearse-k8s/rehearse/examples/careful"
	"github.com/rehearse-k8s/rehearse/examples/countandunfinalize"
	"github.com/rehearse-k8s/rehearse/examples/delayedaction"
	"github.com/rehearse-k8s/rehearse/examples/expectations"
	"github.com/rehearse-k8s/rehearse/examples/finalizerfilter"
	"github.com/rehearse-k8s/rehearse/examples/operator"
	"github.com/rehearse-k8s/rehearse/examples/stalestatus"
	"github.com/rehearse-k8s/rehearse/examples/webs"
)

var controllers = map[string]func(context.Context, *rest.Config) error{
	"careful":            careful.Run,
	"countandunfinalize": countandunfinalize.Run,
	"delayedaction":      delayedaction.Delays{Ready: 200 * time.Millisecond, Release: 500 * time.Millisecond, Retry: 300 * time.Millisecond}.Run,
	"expectations":       expectations.Run,
	"finalizerfilter":    finalizerfilter.Run,
	"hook":               finalizerfilter.Hook,
	"operator":           manages(operator.SetupWithManager),
	"stalestatus":        stalestatus.Delays{Creating: 100 * time.Millisecond, Running: 200 * time.Millisecond, Retry: 500 * time.Millisecond}.Run,
	"webs":               manages(webs.SetupWithManager),
}

// manages runs an operator in a manager without leader election, because a killed process does not
// release its lease, and without ports, because several runs execute concurrently.
func manages(setUp func(ctrl.Manager) error) func(context.Context, *rest.Config) error {
	return func(ctx context.Context, config *rest.Config) error {
		ctrl.SetLogger(logr.Discard())
		mgr, err := ctrl.NewManager(config, ctrl.Options{Metrics: server.Options{BindAddress: "0"}})
		if err != nil {
			return err
		}
		if err := setUp(mgr); err != nil {
			return err
		}
		return mgr.Start(ctx)
	}
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 1 || controllers[args[0]] == nil {
		return fmt.Errorf("usage: run %s", strings.Join(slices.Sorted(maps.Keys(controllers)), "|"))
	}
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv(clientcmd.RecommendedConfigPathEnvVar))
	if err != nil {
		return err
	}
	config.QPS = -1 // the API server limits the rate
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return controllers[args[0]](ctx, config)
}
