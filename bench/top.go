package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

func topCommand(binary *string, out *figures) *cobra.Command {
	l := load{out: out}
	var runs int
	c := &cobra.Command{
		Use:   "top [-- UP-FLAGS]",
		Short: "Fill a cluster, then time `kubectl top node` and `kubectl top pod`",
		RunE: func(cmd *cobra.Command, args []string) error {
			l.args = args
			return l.top(cmd.Context(), binary, runs)
		},
	}
	l.addFlags(c, 1000, 10000, 32)
	c.Flags().IntVar(&runs, "runs", 5, "the number of measurements of each command")
	return c
}

// top times what a user waits for, from the start of a kubectl process to its end. The command version shows how much of it any
// kubectl command takes.
func (l load) top(ctx context.Context, binary *string, runs int) error {
	s, client, err := l.connect(ctx, binary)
	if err != nil {
		return err
	}
	defer s.stop()
	if err := l.fill(ctx, client); err != nil {
		return err
	}
	for _, args := range [][]string{{"version"}, {"top", "node"}, {"top", "pod"}, {"top", "pod", "--use-protocol-buffers"}, {"top", "pod", "--containers", "--sum"}} {
		if err := l.timeKubectl(ctx, s, *binary, runs, args); err != nil {
			return err
		}
	}
	for _, resource := range []string{"nodes", "pods"} {
		path := "/apis/metrics.k8s.io/v1beta1/" + resource
		var times []time.Duration
		for range runs {
			start := time.Now()
			body, err := client.Discovery().RESTClient().Get().AbsPath(path).SetHeader("Accept", "application/json").Stream(ctx)
			if err != nil {
				return err
			}
			if _, err := io.Copy(io.Discard, body); err != nil {
				return err
			}
			times = append(times, time.Since(start))
		}
		l.out.times("GET "+path, times)
	}
	return nil
}

// timeKubectl runs a kubectl command several times, and checks that it prints something.
func (l load) timeKubectl(ctx context.Context, s *server, binary string, runs int, args []string) error {
	before := s.use()
	var times []time.Duration
	for range runs {
		start := time.Now()
		out, err := exec.CommandContext(ctx, binary, append([]string{"kubectl", "--kubeconfig", s.kubeconfig}, args...)...).CombinedOutput()
		if err != nil {
			return fmt.Errorf("kubectl %v: %w\n%s", args, err, out)
		}
		times = append(times, time.Since(start))
		if len(times) == runs {
			fmt.Printf("%d lines, ", bytes.Count(out, []byte("\n")))
		}
	}
	after := s.use()
	l.out.times(fmt.Sprintf("kubectl %s (CPU of the server: %.0f ms each)", strings.Join(args, " "), ms((after.cpu-before.cpu)/time.Duration(runs))), times)
	return nil
}
