package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.etcd.io/etcd/server/v3/embed"
	"k8s.io/component-base/cli"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	"sigs.k8s.io/kwok/pkg/config"
	kwok "sigs.k8s.io/kwok/pkg/kwok/cmd"
	"sigs.k8s.io/kwok/pkg/log"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if len(os.Args) > 1 {
		switch component, args := os.Args[1], os.Args[2:]; component {
		case "kube-apiserver":
			runUpstream(apiserver.NewAPIServerCommand(), args)
		case "kube-controller-manager":
			runUpstream(controllermanager.NewControllerManagerCommand(), args)
		case "kube-scheduler":
			runUpstream(scheduler.NewSchedulerCommand(), args)
		case "kwok":
			exit(runKWOK(ctx, args))
		case "etcd":
			exit(etcd(ctx, args))
		}
	}
	root := &cobra.Command{Use: "reference", Short: "Run what rehearse is measured against", SilenceUsage: true}
	root.AddCommand(upCommand())
	exit(root.ExecuteContext(ctx))
}

// runUpstream runs a command of Kubernetes, and ends the process with its exit code.
func runUpstream(c *cobra.Command, args []string) {
	c.SetArgs(args)
	os.Exit(cli.Run(c))
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "reference:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// runKWOK runs KWOK's controller until ctx ends.
func runKWOK(ctx context.Context, args []string) error {
	// kube-apiserver has registered a flag --version of its own among the flags of the process.
	pflag.CommandLine = pflag.NewFlagSet("kwok", pflag.ExitOnError)
	os.Args = append([]string{"kwok"}, args...) // KWOK reads its configuration before it parses the other flags
	global := pflag.NewFlagSet("global", pflag.ContinueOnError)
	global.ParseErrorsAllowlist.UnknownFlags = true
	ctx, _ = log.InitFlags(ctx, global)
	ctx, err := config.InitFlags(ctx, global)
	if err != nil {
		return err
	}
	c := kwok.NewCommand(ctx)
	c.PersistentFlags().AddFlagSet(global)
	c.SetArgs(args)
	return c.ExecuteContext(ctx)
}

// quotaBytes is the maximal size of the database: 100,000 pods with their history need more than etcd's 2 GiB.
const quotaBytes = 8 << 30

// etcd runs etcd without fsync until ctx ends. args are the directory and the client URL.
func etcd(ctx context.Context, args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("etcd requires a directory and a URL")
	}
	c := embed.NewConfig()
	c.Dir, c.UnsafeNoFsync, c.QuotaBackendBytes, c.LogLevel = args[0], true, quotaBytes, "error"
	client, err := urls(args[1])
	if err != nil {
		return err
	}
	peer, err := urls("http://127.0.0.1:0")
	if err != nil {
		return err
	}
	c.ListenClientUrls, c.AdvertiseClientUrls = client, client
	c.ListenPeerUrls, c.AdvertisePeerUrls = peer, peer
	c.InitialCluster = c.Name + "=" + peer[0].String()
	e, err := embed.StartEtcd(c)
	if err != nil {
		return err
	}
	defer e.Close()
	select {
	case <-e.Server.ReadyNotify():
	case <-time.After(time.Minute):
		return fmt.Errorf("etcd is not ready after a minute")
	}
	select {
	case <-ctx.Done():
		return nil
	case err := <-e.Err():
		return err
	}
}
