package cluster

import (
	"context"
	"fmt"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/rehearse-k8s/rehearse/internal/cli/console"
)

// healthTimeout is enough for a server on the same machine.
const healthTimeout = 5 * time.Second

// healthy checks a cluster as its clients reach it: over the socket, with the kubeconfig.
func healthy(ctx context.Context, kubeconfig string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	config.Timeout = healthTimeout
	config.UserAgent = console.UserAgent
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	body, err := client.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx)
	if err != nil {
		return err
	}
	if string(body) != "ok" {
		return fmt.Errorf("/readyz answered %q", body)
	}
	return nil
}
