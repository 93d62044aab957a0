package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func holdCommand(binary *string) *cobra.Command {
	l := load{}
	var rest time.Duration
	c := &cobra.Command{
		Use:   "hold [-- UP-FLAGS]",
		Short: "Fill a cluster, then read its idle memory and CPU",
		RunE: func(cmd *cobra.Command, args []string) error {
			l.args = args
			return l.hold(cmd.Context(), binary, rest)
		},
	}
	l.addFlags(c, 1000, 100000, 32)
	c.Flags().DurationVar(&rest, "rest", time.Minute, "how long to measure the idle cluster")
	return c
}

// pause waits while the measured processes continue.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l load) hold(ctx context.Context, binary *string, rest time.Duration) error {
	s, client, err := l.connect(ctx, binary)
	if err != nil {
		return err
	}
	defer s.stop()
	watchCtx, endWatch := context.WithCancel(ctx)
	defer endWatch()
	seen, err := count(watchCtx, client, "status.phase=Running")
	if err != nil {
		return err
	}
	start := time.Now()
	err = l.each(ctx, l.pods, func(ctx context.Context, i int) error {
		_, err := client.CoreV1().Pods("default").Create(ctx, l.pod(i), metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return err
	}
	if err := reach(ctx, &seen.added, int64(l.pods)); err != nil {
		return err
	}
	took := time.Since(start)
	fmt.Printf("%d pods on %d nodes are Running after %.0f s (%.0f pods/s); server %s\n", l.pods, l.nodes, took.Seconds(), float64(l.pods)/took.Seconds(), mb(s.use().rssBytes))
	endWatch()
	for range 3 {
		before := s.use()
		if err := pause(ctx, rest/3); err != nil {
			return err
		}
		after := s.use()
		fmt.Printf("idle: %s, %.1f %% of a core\n", mb(after.rssBytes), 100*(after.cpu-before.cpu).Seconds()/(rest.Seconds()/3))
	}
	return nil
}
