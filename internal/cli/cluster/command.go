package cluster

import (
	"context"

	"github.com/spf13/cobra"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/rehearse-k8s/rehearse/cluster"
	"github.com/rehearse-k8s/rehearse/internal/cli/console"
)

// Running is what the commands need of a started cluster; *cluster.Cluster implements it.
type Running interface {
	URL() string
	Kubeconfig() *clientcmdapi.Config
	Done() <-chan struct{}
	Err() error
	Stop()
}

// Start starts a cluster; the context ends the start, and with it an unfinished cluster.
type Start func(context.Context, cluster.Options) (Running, error)

// app is the console and the way a cluster is started.
type app struct {
	*console.Console
	start Start
}

// Commands returns the commands of this package: up, down, stop, start, list, get, logs and kubectl.
func Commands(c *console.Console, start Start) []*cobra.Command {
	a := &app{Console: c, start: start}
	return []*cobra.Command{
		a.upCommand(), a.downCommand(), a.stopCommand(), a.startCommand(), a.listCommand("list"), a.getCommand(), a.logsCommand(), a.kubectlCommand(),
	}
}
