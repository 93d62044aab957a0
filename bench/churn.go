package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

func churnCommand(binary *string) *cobra.Command {
	l := load{}
	var lasts time.Duration
	c := &cobra.Command{
		Use:   "churn [-- UP-FLAGS]",
		Short: "Create, update and delete pods for a while; memory must stay level",
		RunE: func(cmd *cobra.Command, args []string) error {
			l.args = args
			return l.churn(cmd.Context(), binary, lasts)
		},
	}
	l.addFlags(c, 100, 2000, 16)
	c.Flags().DurationVar(&lasts, "for", time.Hour, "how long")
	return c
}

// churn turns over a fixed set of pods: each worker walks its share, labels a
// pod, deletes it and makes it again, so that every object is created, updated
// and deleted over and over.
func (l load) churn(ctx context.Context, binary *string, lasts time.Duration) error {
	s, client, err := l.connect(ctx, binary)
	if err != nil {
		return err
	}
	defer s.stop()
	until, cancel := context.WithTimeout(ctx, lasts)
	defer cancel()
	var creates, updates, deletes atomic.Int64
	group, work := errgroup.WithContext(until)
	for w := range l.workers {
		group.Go(func() error { return l.turn(work, client, w, &creates, &updates, &deletes) })
	}
	group.Go(func() error {
		tick := time.NewTicker(max(lasts/20, 10*time.Second))
		defer tick.Stop()
		start := time.Now()
		for {
			select {
			case <-tick.C:
				fmt.Printf("%6.0f s: %s; %d creates, %d updates, %d deletes\n", time.Since(start).Seconds(), mb(s.use().rssBytes), creates.Load(), updates.Load(), deletes.Load())
			case <-work.Done():
				return nil
			}
		}
	})
	if err := group.Wait(); err != nil && until.Err() == nil {
		return err
	}
	return ctx.Err()
}

func (l load) turn(ctx context.Context, client kubernetes.Interface, worker int, creates, updates, deletes *atomic.Int64) error {
	pods := client.CoreV1().Pods("default")
	for round := 0; ctx.Err() == nil; round++ {
		for i := worker; i < l.pods && ctx.Err() == nil; i += l.workers {
			p := l.pod(i)
			if _, err := pods.Create(ctx, p, metav1.CreateOptions{}); err == nil {
				creates.Add(1)
			} else if !apierrors.IsAlreadyExists(err) { // it may still be terminating
				return err
			}
			label := fmt.Appendf(nil, `{"metadata":{"labels":{"round":"%d"}}}`, round)
			if _, err := pods.Patch(ctx, p.Name, types.StrategicMergePatchType, label, metav1.PatchOptions{}); err == nil {
				updates.Add(1)
			} else if !apierrors.IsNotFound(err) {
				return err
			}
			if round == 0 {
				continue // fill first
			}
			if err := pods.Delete(ctx, p.Name, metav1.DeleteOptions{}); err == nil {
				deletes.Add(1)
			} else if !apierrors.IsNotFound(err) {
				return err
			}
		}
	}
	return nil
}
