package main

import (
	"context"
	"fmt"
	"os/exec"
	"time"

	"github.com/spf13/cobra"
)

func startupCommand(binary *string, out *figures) *cobra.Command {
	var runs int
	c := &cobra.Command{
		Use:   "startup [-- UP-FLAGS]",
		Short: "Time `up` to the first answered `get ns`, and idle memory",
		RunE: func(cmd *cobra.Command, args []string) error {
			return startup(cmd.Context(), binary, runs, args, out)
		},
	}
	c.Flags().IntVar(&runs, "runs", 5, "the number of measurements")
	return c
}

// startup measures how long a user waits: from the start of the process until a kubectl in another
// process has printed the namespaces.
func startup(ctx context.Context, binary *string, runs int, args []string, out *figures) error {
	if err := build(ctx, binary); err != nil {
		return err
	}
	var times []time.Duration
	for i := range runs {
		start := time.Now()
		s, err := up(ctx, *binary, args...)
		if err != nil {
			return err
		}
		ready := time.Since(start)
		answer, err := exec.CommandContext(ctx, *binary, "kubectl", "--kubeconfig", s.kubeconfig, "get", "ns").CombinedOutput()
		took := time.Since(start)
		if err != nil {
			s.stop()
			return fmt.Errorf("kubectl get ns: %w\n%s", err, answer)
		}
		times = append(times, took)
		rest := time.NewTimer(15 * time.Second) // enough time to collect the garbage of the start
		before := s.use()
		if i == runs-1 {
			select {
			case <-rest.C:
			case <-ctx.Done():
			}
			after := s.use()
			out.add("idle after 15 s", "%s, %.1f %% of a core", mb(after.memory), percentOfCore(before, after, 15*time.Second))
		}
		fmt.Printf("run %d: context written after %.2f s, `get ns` answered after %.2f s\n", i+1, ready.Seconds(), took.Seconds())
		s.stop()
	}
	out.times("first answered `get ns`", times)
	return nil
}
