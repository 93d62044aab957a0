// Command job133 runs the Job controller of Kubernetes 1.33.13, unchanged, against the cluster of a
// kubeconfig: the controller of that version's kube-controller-manager, without leader election, so that
// `rehearse test` can run it like any other process.
//
// It is a separate module, because a module cannot have a second version of Kubernetes.
package main

import (
	"flag"
	"fmt"
	"os"
	"time"

	"k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/controller/job"
)

func main() {
	kubeconfig := flag.String("kubeconfig", os.Getenv("KUBECONFIG"), "kubeconfig of the cluster")
	klog.InitFlags(nil)
	flag.Parse()
	if err := run(*kubeconfig); err != nil {
		fmt.Fprintln(os.Stderr, "job133:", err)
		os.Exit(1)
	}
}

func run(kubeconfig string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	// The values of kube-controller-manager.
	config.QPS, config.Burst, config.ContentType = 20, 30, "application/vnd.kubernetes.protobuf"
	ctx := server.SetupSignalContext()
	// The resync periods of kube-controller-manager; no run is long enough for a resync.
	shared, err := informersFor(config)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(rest.AddUserAgent(config, "job-controller"))
	if err != nil {
		return err
	}
	c, err := job.NewController(ctx, shared.Core().V1().Pods(), shared.Batch().V1().Jobs(), client)
	if err != nil {
		return err
	}
	shared.Start(ctx.Done())
	c.Run(ctx, 5)
	return nil
}

func informersFor(config *rest.Config) (informers.SharedInformerFactory, error) {
	client, err := kubernetes.NewForConfig(rest.AddUserAgent(config, "shared-informers"))
	if err != nil {
		return nil, err
	}
	return informers.NewSharedInformerFactory(client, 12*time.Hour), nil
}
