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
	root.AddCommand(measurements(&binary, nil)...)
	root.AddCommand(allCommand(&binary), buildsCommand(), bareClusterCommand(), bareEngineCommand())
	root.PersistentPreRunE = func(*cobra.Command, []string) error {
		fmt.Printf("machine: %d cores, %s/%s, %s\n", runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version())
		return nil
	}
	if err := root.ExecuteContext(ctx); err != nil {
		os.Exit(1)
	}
}

// measurements returns the commands that measure something. Their figures go to out too, if it is set.
func measurements(binary *string, out *figures) []*cobra.Command {
	return []*cobra.Command{
		startupCommand(binary, out), podsCommand(binary, out), compareCommand(binary, out), holdCommand(binary, out), churnCommand(binary, out),
		stageCommand(binary, out), leasesCommand(binary, out), shardsCommand(binary, out), jobCommand(binary, out), cloneSetCommand(binary, out), proxyCommand(binary, out),
		snapshotCommand(binary, out), replayCommand(binary, out), topCommand(binary, out), hpaCommand(binary, out), sizingCommand(binary, out), watchesCommand(binary, out), packagesCommand(out), simtestCommand(out), searchCommand(out),
	}
}
