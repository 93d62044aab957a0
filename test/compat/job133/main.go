// Command job133 runs the Job controller of Kubernetes 1.33.13, unchanged, against the
// cluster of a kubeconfig. It is what kube-controller-manager of that version has, without
// leader election, so that `rehearse test` can play it as it plays any other process.
//
// The module is its own: no other can have a second version of Kubernetes.
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
	// As kube-controller-manager has them.
	config.QPS, config.Burst, config.ContentType = 20, 30, "application/vnd.kubernetes.protobuf"
	ctx := server.SetupSignalContext()
	// Resyncs as there, of which no run is long enough to see one.
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
