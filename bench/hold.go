package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
)

func holdCommand(binary *string, out *figures) *cobra.Command {
	l := load{out: out}
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
	c.Flags().DurationVar(&rest, "rest", 12*time.Minute, "how long to measure the idle cluster, in three parts; the controllers audit their caches ten minutes after the start")
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
	start := time.Now()
	if err := l.fill(ctx, client); err != nil {
		return err
	}
	took := time.Since(start)
	l.out.add(fmt.Sprintf("%d pods on %d nodes Running", l.pods, l.nodes), "after %.0f s (%.0f pods/s); server %s", took.Seconds(), float64(l.pods)/took.Seconds(), mb(s.use().memory))
	for range 3 {
		before := s.use()
		most, err := s.mostMemory(ctx, rest/3)
		if err != nil {
			return err
		}
		after := s.use()
		l.out.add("idle", "%s, at most %s, %.1f %% of a core", mb(after.memory), mb(most), percentOfCore(before, after, rest/3))
	}
	return nil
}

// mostMemory waits, and returns the most memory, in bytes, that the server had at a second of that time.
func (s *server) mostMemory(ctx context.Context, d time.Duration) (most int64, err error) {
	for end := time.Now().Add(d); ; {
		most = max(most, s.use().memory)
		left := time.Until(end)
		if left <= 0 {
			return most, nil
		}
		if err := pause(ctx, min(left, time.Second)); err != nil {
			return 0, err
		}
	}
}
