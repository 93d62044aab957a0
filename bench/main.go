package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	root := &cobra.Command{Use: "bench", Short: "Measure whole systems", SilenceUsage: true}
	var binary string
	root.PersistentFlags().StringVar(&binary, "binary", "", "a rehearse binary to measure; empty: build one from this tree")
	root.AddCommand(startupCommand(&binary), podsCommand(&binary), holdCommand(&binary), churnCommand(&binary), stageCommand(&binary), leasesCommand(&binary), jobCommand(&binary), cloneSetCommand(&binary), proxyCommand(&binary), simtestCommand(),
		bareClusterCommand(), bareEngineCommand())
	root.PersistentPreRunE = func(*cobra.Command, []string) error {
		fmt.Printf("machine: %d cores, %s/%s, %s\n", runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version())
		return nil
	}
	if err := root.ExecuteContext(ctx); err != nil {
		os.Exit(1)
	}
}
