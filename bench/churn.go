package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

func churnCommand(binary *string, out *figures) *cobra.Command {
	l := load{out: out}
	var lasts time.Duration
	var lives float64
	c := &cobra.Command{
		Use:   "churn [-- UP-FLAGS]",
		Short: "Create, update and delete pods for a while; memory must stay constant",
		RunE: func(cmd *cobra.Command, args []string) error {
			l.args = args
			return l.churn(cmd.Context(), binary, lasts, pace(lives))
		},
	}
	l.addFlags(c, 100, 2000, 16)
	c.Flags().DurationVar(&lasts, "for", time.Hour, "the duration")
	c.Flags().Float64Var(&lives, "rate", 0, "pod lifecycles a second; 0: as many as possible")
	return c
}

// pace starts that many pod lifecycles a second, evenly: it does not make up for slow moments with
// a burst.
func pace(lives float64) *rate.Limiter {
	if lives <= 0 {
		return rate.NewLimiter(rate.Inf, 1)
	}
	return rate.NewLimiter(rate.Limit(lives), 1)
}

// churn replaces a fixed set of pods continuously: each worker labels each pod of its share,
// deletes it and creates it again.
func (l load) churn(ctx context.Context, binary *string, lasts time.Duration, lives *rate.Limiter) error {
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
		group.Go(func() error { return l.turn(work, client, lives, w, &creates, &updates, &deletes) })
	}
	group.Go(func() error {
		tick := time.NewTicker(max(lasts/60, 10*time.Second))
		defer tick.Stop()
		start := time.Now()
		for {
			select {
			case <-tick.C:
				l.out.add(fmt.Sprintf("after %.0f s", time.Since(start).Seconds()), "%s; %d creates, %d updates, %d deletes", mb(s.use().memory), creates.Load(), updates.Load(), deletes.Load())
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

func (l load) turn(ctx context.Context, client kubernetes.Interface, lives *rate.Limiter, worker int, creates, updates, deletes *atomic.Int64) error {
	pods := client.CoreV1().Pods("default")
	for round := 0; ctx.Err() == nil; round++ {
		for i := worker; i < l.pods && ctx.Err() == nil; i += l.workers {
			if lives.Wait(ctx) != nil {
				return nil // the time is over, or will be before the next lifecycle may start
			}
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
				continue // create all pods first
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
