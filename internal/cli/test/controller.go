package test

import (
	"io"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/rehearse-k8s/rehearse/cluster"
	"github.com/rehearse-k8s/rehearse/internal/cli/console"
	"github.com/rehearse-k8s/rehearse/stage"
)

// ControllerCommand returns the hidden command that `rehearse test` starts for clients that are built in.
func ControllerCommand(c *console.Console) *cobra.Command {
	var kubeconfig string
	var gates, stages []string
	var log console.LogOptions
	cmd := &cobra.Command{
		Use: "controller NAME", Hidden: true, Short: "Run one controller against a cluster, until it is killed", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := cluster.CheckControllers(args); err != nil {
				return err
			}
			log.SetUp(c.Err, io.Discard)
			slog.SetLogLoggerLevel(slog.LevelInfo)
			config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
			if err != nil {
				return console.Usagef("--kubeconfig: %v", err)
			}
			config.QPS, config.Burst = 20, 30 // the defaults of kube-controller-manager
			if err := cluster.SetFeatureGates(gates); err != nil {
				return console.Usagef("--feature-gates: %v", err)
			}
			var set *stage.Set
			if len(stages) > 0 {
				if set, err = cluster.LoadStages(stages); err != nil {
					return err
				}
			}
			ctx, stop := c.Interruptible(cmd.Context())
			defer stop()
			dir, err := os.MkdirTemp("", "rehearse-controller-")
			if err != nil {
				return err
			}
			defer os.RemoveAll(dir)
			run, err := cluster.NewControllers(ctx, func(string) *rest.Config { return config }, args, filepath.Join(dir, "pki"), set)
			if err != nil {
				return err
			}
			run(ctx)
			return console.ErrInterrupted
		},
	}
	f := cmd.Flags()
	f.StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig of the cluster")
	f.StringSliceVar(&gates, "feature-gates", nil, "feature gates of kube-controller-manager: Name=true|false")
	f.StringArrayVar(&stages, "stages", nil, "file of stages for the stage engine (default: the built-in stages)")
	log.AddFlags(cmd, "log level")
	return cmd
}
