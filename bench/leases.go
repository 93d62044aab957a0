package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

func leasesCommand(binary *string, out *figures) *cobra.Command {
	l := load{noEngine: true, out: out}
	var rest time.Duration
	var bare bool
	c := &cobra.Command{
		Use:   "leases [-- UP-FLAGS]",
		Short: "An idle stage engine in its own process, which renews the leases of nodes",
		RunE: func(cmd *cobra.Command, args []string) error {
			l.args = args
			s, client, err := l.connect(cmd.Context(), binary)
			if err != nil {
				return err
			}
			defer s.stop()
			engines := []engine{{name: "rehearse", command: ours("")}}
			if bare {
				engines = append(engines, engine{name: "bare", command: bareLeases})
			}
			for _, e := range engines {
				command, err := e.command(*binary, s.kubeconfig)
				if err != nil {
					return err
				}
				if err := command.Start(); err != nil {
					return err
				}
				err = nodesReady(cmd.Context(), client, l.nodes)
				if err == nil {
					err = l.measureIdle(cmd.Context(), e.name, command.Process.Pid, s, rest)
				}
				finish(command)
				if err != nil {
					return err
				}
			}
			return nil
		},
	}
	c.Flags().IntVar(&l.nodes, "nodes", 5000, "simulated nodes")
	c.Flags().DurationVar(&rest, "rest", 40*time.Second, "how long to measure the idle cluster")
	c.Flags().BoolVar(&bare, "bare", false, "also measure a client that only sends the same renewals")
	return c
}

// measureIdle waits until the work of the start is done, and then measures.
func (l load) measureIdle(ctx context.Context, name string, pid int, s *server, rest time.Duration) error {
	if err := pause(ctx, 30*time.Second); err != nil {
		return err
	}
	before, served := use(pid), s.use()
	if err := pause(ctx, rest); err != nil {
		return err
	}
	after := use(pid)
	l.out.add(fmt.Sprintf("leases of %d nodes, %s", l.nodes, name), "%.1f %% of a core, %s; the server %.0f %%", percentOfCore(before, after, rest), mb(after.memory),
		percentOfCore(served, s.use(), rest))
	return nil
}

// The bare renewals follow the engine's schedule: each lease every ten seconds, in two rounds a
// second.
const (
	renewInterval = 10 * time.Second
	renewRound    = 500 * time.Millisecond
	renewWorkers  = 64
	leasesPath    = "/apis/coordination.k8s.io/v1/namespaces/" + corev1.NamespaceNodeLease + "/leases"
)

// keepLeases renews a lease for each node until ctx ends.
func (b *bare) keepLeases(ctx context.Context) error {
	nodes, err := b.listNodes(ctx)
	if err != nil {
		return err
	}
	leases := make([]*coordinationv1.Lease, len(nodes))
	due := make(chan int)
	group, ctx := errgroup.WithContext(ctx)
	for range renewWorkers {
		group.Go(func() error {
			for i := range due {
				if err := b.renew(ctx, nodes[i].Name, &leases[i]); err != nil && ctx.Err() == nil {
					return err
				}
			}
			return nil
		})
	}
	group.Go(func() error {
		defer close(due)
		tick := time.NewTicker(renewRound)
		defer tick.Stop()
		rounds := int(renewInterval / renewRound)
		for round := 0; ; round = (round + 1) % rounds {
			for i := round; i < len(nodes); i += rounds {
				select {
				case due <- i:
				case <-ctx.Done():
					return nil
				}
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return nil
			}
		}
	})
	return group.Wait()
}

// renew reads a lease the first time, and then only writes it; the engine that was measured first
// has created it.
func (b *bare) renew(ctx context.Context, node string, lease **coordinationv1.Lease) error {
	method, body := http.MethodGet, []byte(nil)
	if *lease != nil {
		method = http.MethodPut
		(*lease).ManagedFields = nil
		(*lease).Spec.RenewTime = &metav1.MicroTime{Time: time.Now()}
		var err error
		if body, err = encode("coordination.k8s.io/v1", "Lease", *lease); err != nil {
			return err
		}
	}
	now := &coordinationv1.Lease{}
	if err := b.read(ctx, method, leasesPath+"/"+node, body, now); err != nil {
		return err
	}
	*lease = now
	return nil
}

// encode returns an object in protobuf.
func encode(apiVersion, kind string, o interface{ Marshal() ([]byte, error) }) ([]byte, error) {
	raw, err := o.Marshal()
	if err != nil {
		return nil, err
	}
	object, err := (&runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: apiVersion, Kind: kind}, Raw: raw}).Marshal()
	return append(bytes.Clone(protobufPrefix), object...), err
}

var protobufPrefix = []byte("k8s\x00")

// decode decodes an object in protobuf, of any kind.
func decode(body []byte, into interface{ Unmarshal([]byte) error }) error {
	var object runtime.Unknown
	if err := object.Unmarshal(bytes.TrimPrefix(body, protobufPrefix)); err != nil {
		return err
	}
	return into.Unmarshal(object.Raw)
}
