package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"time"

	"github.com/spf13/cobra"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// shards measures stage engines that divide the nodes among them.
type shards struct {
	load
	processes int
	rest      time.Duration
}

func shardsCommand(binary *string, out *figures) *cobra.Command {
	s := shards{load: load{noEngine: true, out: out}}
	c := &cobra.Command{
		Use:   "shards [-- UP-FLAGS]",
		Short: "Idle stage engines that divide the nodes, each in its own process: how late they renew leases",
		RunE: func(cmd *cobra.Command, args []string) error {
			if s.nodes < 1 || s.processes < 1 || s.rest < 2*renewInterval {
				return fmt.Errorf("flags --nodes and --processes: want numbers from 1; --rest: want at least %s", 2*renewInterval)
			}
			s.args = args
			return s.run(cmd.Context(), binary)
		},
	}
	c.Flags().IntVar(&s.nodes, "nodes", 20_000, "simulated nodes")
	c.Flags().IntVar(&s.processes, "processes", 4, "processes of rehearse simulate")
	c.Flags().DurationVar(&s.rest, "rest", time.Minute, "how long to measure the idle cluster")
	return c
}

func (s shards) run(ctx context.Context, binary *string) error {
	server, client, err := s.connect(ctx, binary)
	if err != nil {
		return err
	}
	defer server.stop()
	var engines []*exec.Cmd
	for i := range s.processes {
		engine, err := ours("")(*binary, server.kubeconfig)
		if err != nil {
			return err
		}
		engine.Args = append(engine.Args, "--shard", fmt.Sprintf("%d/%d", i, s.processes))
		engine.Stderr = os.Stderr
		if err := engine.Start(); err != nil {
			return err
		}
		defer finish(engine)
		engines = append(engines, engine)
	}
	started := time.Now()
	if err := nodesReady(ctx, client, s.nodes); err != nil {
		return err
	}
	name := fmt.Sprintf("%d nodes, %d processes", s.nodes, s.processes)
	s.out.add(name, "all Ready after %.0f s", time.Since(started).Seconds())
	if err := pause(ctx, 30*time.Second); err != nil { // until the work of the start is done
		return err
	}
	serverBefore, before := server.use(), make([]usage, len(engines))
	for i, e := range engines {
		before[i] = use(e.Process.Pid)
	}
	late, renewals, err := lateRenewals(ctx, client, s.rest)
	if err != nil {
		return err
	}
	slices.Sort(late)
	at := func(permille int) float64 { return late[min(len(late)-1, len(late)*permille/1000)].Seconds() }
	s.out.add(name, "%.0f renewals per second, later than the interval by: median %.2f s, 99 %% %.2f s, 99.9 %% %.2f s, maximum %.2f s",
		float64(renewals)/s.rest.Seconds(), at(500), at(990), at(999), at(1000))
	for i, e := range engines {
		after := use(e.Process.Pid)
		s.out.add(fmt.Sprintf("%s, shard %d", name, i), "%.1f %% of a core, %s", percentOfCore(before[i], after, s.rest), mb(after.memory))
	}
	serverAfter := server.use()
	s.out.add(name+", the server", "%.0f %% of a core, %s", percentOfCore(serverBefore, serverAfter, s.rest), mb(serverAfter.memory))
	return nil
}

// lateRenewals watches the leases of nodes for a while, and returns by how much each interval between two renewals of a lease, as the watch
// delivers them, exceeds the intended interval, and how long those are overdue that are due at the end. It is an error if a lease is not
// renewed.
func lateRenewals(ctx context.Context, client kubernetes.Interface, rest time.Duration) (late []time.Duration, renewals int, err error) {
	leases := client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	list, err := leases.List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return nil, 0, err
	}
	if len(list.Items) == 0 {
		return nil, 0, fmt.Errorf("there are no leases in namespace %s", corev1.NamespaceNodeLease)
	}
	last := make(map[string]time.Time, len(list.Items)) // zero: not seen yet
	for i := range list.Items {
		last[list.Items[i].Name] = time.Time{}
	}
	w, err := leases.Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	if err != nil {
		return nil, 0, err
	}
	defer w.Stop()
	end := time.NewTimer(rest)
	defer end.Stop()
	for {
		select {
		case e, ok := <-w.ResultChan():
			lease, isLease := e.Object.(*coordinationv1.Lease)
			if !ok || !isLease {
				return nil, 0, fmt.Errorf("the watch of leases ended: %v", e.Object)
			}
			renewals++
			now := time.Now()
			if before := last[lease.Name]; !before.IsZero() {
				late = append(late, now.Sub(before)-renewInterval)
			}
			last[lease.Name] = now
		case <-end.C:
			now := time.Now()
			for name, at := range last {
				if at.IsZero() {
					return nil, 0, fmt.Errorf("lease %s was not renewed within %s", name, rest)
				}
				if overdue := now.Sub(at) - renewInterval; overdue > 0 {
					late = append(late, overdue)
				}
			}
			return late, renewals, nil
		case <-ctx.Done():
			return nil, 0, ctx.Err()
		}
	}
}
