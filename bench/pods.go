package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
)

// load configures the outside client.
type load struct {
	nodes, pods, workers int
	scheduler, noEngine  bool
	bare                 bool // a bare kubelet in place of the engine and controllers
	args                 []string
	kubeconfig           string
	pid                  int
	engine               int      // the PID of the stage engine, if it has its own process
	out                  *figures // where the results go
}

func podsCommand(binary *string, out *figures) *cobra.Command {
	l := load{out: out}
	c := &cobra.Command{
		Use:   "pods [-- UP-FLAGS]",
		Short: "Create pods as an outside client until they are Ready, then delete them",
		RunE: func(cmd *cobra.Command, args []string) error {
			l.args = args
			return l.run(cmd.Context(), binary)
		},
	}
	l.addFlags(c, 1000, 10000, 32)
	c.Flags().BoolVar(&l.scheduler, "scheduler", false, "let the scheduler choose the nodes")
	c.Flags().BoolVar(&l.noEngine, "no-engine", false, "run no stage engine: measure only the creates and deletes, and with --scheduler the binding")
	c.Flags().BoolVar(&l.bare, "bare", false, "run a bare kubelet, which only writes the status and the last delete of each pod, in the process of the API server, and with --scheduler the scheduler")
	c.MarkFlagsMutuallyExclusive("bare", "no-engine")
	return c
}

// server returns the server to measure: the user's, or a new one.
func (l load) server(ctx context.Context, binary *string) (*server, error) {
	if l.kubeconfig != "" {
		return &server{kubeconfig: l.kubeconfig, pid: l.pid}, nil
	}
	program, command := binary, "up"
	if l.bare {
		self, err := os.Executable()
		if err != nil {
			return nil, err
		}
		program, command = &self, "bare-cluster"
	} else if err := build(ctx, binary); err != nil {
		return nil, err
	}
	args := append([]string{"--nodes", fmt.Sprint(l.nodes)}, l.args...)
	if l.unattended() {
		// Pods need the service account of their namespace.
		only := "--controllers=serviceaccount-controller"
		if l.scheduler {
			only += ",scheduler"
		}
		args = append(args, only)
	}
	return start(ctx, *program, command, args...)
}

// connect returns the server to measure, with its nodes Ready, and an outside client. The caller
// stops the server.
func (l load) connect(ctx context.Context, binary *string) (*server, kubernetes.Interface, error) {
	s, err := l.server(ctx, binary)
	if err != nil {
		return nil, nil, err
	}
	config, err := s.config()
	if err == nil {
		var client kubernetes.Interface
		if client, err = kubernetes.NewForConfig(config); err == nil && !l.unattended() {
			err = nodesReady(ctx, client, l.nodes)
		}
		if err == nil && l.unattended() && l.scheduler && l.kubeconfig == "" {
			err = l.makeRoom(ctx, client)
		}
		if err == nil {
			return s, client, nil
		}
	}
	err = s.explain(err)
	s.stop()
	return nil, nil, err
}

// unattended reports whether no engine manages the nodes.
func (l load) unattended() bool { return l.noEngine || l.bare }

// makeRoom sets the pod capacity of nodes that no engine manages.
func (l load) makeRoom(ctx context.Context, client kubernetes.Interface) error {
	room := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("32"), corev1.ResourceMemory: resource.MustParse("256Gi"), corev1.ResourcePods: resource.MustParse("110")}
	return l.each(ctx, l.nodes, func(ctx context.Context, i int) error {
		node, err := client.CoreV1().Nodes().Get(ctx, fmt.Sprintf("node-%d", i), metav1.GetOptions{})
		if err == nil {
			node.Spec.Taints = nil // remove not-ready
			node, err = client.CoreV1().Nodes().Update(ctx, node, metav1.UpdateOptions{})
		}
		if err == nil {
			node.Status.Capacity, node.Status.Allocatable = room, room
			_, err = client.CoreV1().Nodes().UpdateStatus(ctx, node, metav1.UpdateOptions{})
		}
		return err
	})
}

// addFlags adds the flags that set the amount of work.
func (l *load) addFlags(c *cobra.Command, nodes, pods, workers int) {
	c.Flags().IntVar(&l.nodes, "nodes", nodes, "simulated nodes")
	c.Flags().IntVar(&l.pods, "pods", pods, "pods")
	c.Flags().IntVar(&l.workers, "workers", workers, "concurrent requests of the client")
	c.Flags().StringVar(&l.kubeconfig, "kubeconfig", "", "measure the running server of this kubeconfig (with its nodes)")
	c.Flags().IntVar(&l.pid, "pid", 0, "the PID of that server, to measure its CPU and memory")
}

func (l load) run(ctx context.Context, binary *string) error {
	s, client, err := l.connect(ctx, binary)
	if err != nil {
		return err
	}
	defer s.stop()
	fmt.Printf("%d nodes, %d pods, %d requests at a time; server before: %s\n", l.nodes, l.pods, l.workers, mb(s.use().memory))
	_, err = l.lifecycle(ctx, client, s)
	return err
}

// phaseCost is what one phase took: pods per second, milliseconds of the server's CPU per pod, and the memory of the server
// afterwards in bytes.
type phaseCost struct {
	perSecond, cpu float64
	memory         int64
}

// measures are the values of the two phases of a lifecycle that builds and the reference are compared by.
var measures = []struct {
	name, unit string
	less       bool // whether less is better
	of         func(phases []phaseCost) float64
}{
	{"pods Ready per second", "", false, func(p []phaseCost) float64 { return p[0].perSecond }},
	{"pods deleted per second", "", false, func(p []phaseCost) float64 { return p[1].perSecond }},
	{"CPU per pod until Ready", ", ms", true, func(p []phaseCost) float64 { return p[0].cpu }},
	{"CPU per deleted pod", ", ms", true, func(p []phaseCost) float64 { return p[1].cpu }},
	{"memory when all are Ready", ", MB", true, func(p []phaseCost) float64 { return float64(p[0].memory) / (1 << 20) }},
}

// lifecycle creates and deletes pods, and prints and returns what each of the two phases took. Its watch ends with it.
func (l load) lifecycle(ctx context.Context, client kubernetes.Interface, s *server) (phases []phaseCost, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	selector := "status.phase=Running"
	switch {
	case l.noEngine && l.scheduler:
		selector = "spec.nodeName!=" // the pods are only bound to nodes
	case l.noEngine:
		selector = ""
	}
	seen, err := count(ctx, client, selector)
	if err != nil {
		return nil, err
	}
	phase := func(name string, counter *atomic.Int64, each func(context.Context, int) error) error {
		before, self, start := s.use(), use(os.Getpid()), time.Now()
		if err := l.each(ctx, l.pods, each); err != nil {
			return err
		}
		sent := time.Since(start)
		if err := seen.reach(ctx, counter, int64(l.pods)); err != nil {
			return err
		}
		took, after := time.Since(start), s.use()
		n := time.Duration(l.pods)
		phases = append(phases, phaseCost{float64(l.pods) / took.Seconds(), ms((after.cpu - before.cpu) / n), after.memory})
		l.out.add(name, "%.0f pods/s (%.2f s; requests sent in %.2f s; CPU a pod: server %.2f ms, client %.2f ms; server %s)",
			float64(l.pods)/took.Seconds(), took.Seconds(), sent.Seconds(),
			ms((after.cpu-before.cpu)/n), ms((use(os.Getpid()).cpu-self.cpu)/n), mb(after.memory))
		return nil
	}
	// The client shares the machine with the server, and its heap is small: by default, it would collect garbage many times per second.
	defer debug.SetGCPercent(debug.SetGCPercent(800))
	pods := client.CoreV1().Pods("default")
	err = phase("ready", &seen.added, func(ctx context.Context, i int) error {
		_, err := pods.Create(ctx, l.pod(i), metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return nil, err
	}
	var options metav1.DeleteOptions
	if l.noEngine {
		options.GracePeriodSeconds = new(int64) // without a kubelet no graceful deletion would end
	}
	err = phase("gone", &seen.deleted, func(ctx context.Context, i int) error {
		return pods.Delete(ctx, l.pod(i).Name, options)
	})
	return phases, err
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func (l load) pod(i int) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("pod-%06d", i), Labels: map[string]string{"app": "bench"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "nginx"}}},
	}
	if !l.scheduler {
		p.Spec.NodeName = fmt.Sprintf("node-%d", i%l.nodes)
	}
	return p
}

// fill creates the pods, and waits until all are Running.
func (l load) fill(ctx context.Context, client kubernetes.Interface) error {
	return l.untilRunning(ctx, client, l.pods, l.pods, func(ctx context.Context, i int) error {
		_, err := client.CoreV1().Pods("default").Create(ctx, l.pod(i), metav1.CreateOptions{})
		return err
	})
}

// untilRunning calls create for every number below n, and waits until this many pods are Running.
func (l load) untilRunning(ctx context.Context, client kubernetes.Interface, n, pods int, create func(context.Context, int) error) error {
	ctx, endWatch := context.WithCancel(ctx)
	defer endWatch()
	seen, err := count(ctx, client, "status.phase=Running")
	if err != nil {
		return err
	}
	defer seen.showProgress(pods)()
	if err := l.each(ctx, n, create); err != nil {
		return err
	}
	return seen.reach(ctx, &seen.added, int64(pods))
}

// showProgress prints every ten seconds how many pods the watch has observed, until the returned function is called.
func (c *counted) showProgress(pods int) (stop func()) {
	tick, done := time.NewTicker(10*time.Second), make(chan struct{})
	go func() {
		for {
			select {
			case <-tick.C:
				fmt.Fprintf(os.Stderr, "%d of %d pods Running\n", c.added.Load(), pods)
			case <-done:
				tick.Stop()
				return
			}
		}
	}()
	return func() { close(done) }
}

// each calls f for every number below n, several concurrently.
func (l load) each(ctx context.Context, n int, f func(context.Context, int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	var next atomic.Int64
	for range l.workers {
		group.Go(func() error {
			for {
				i := int(next.Add(1)) - 1
				if i >= n {
					return nil
				}
				if err := f(ctx, i); err != nil {
					return err
				}
			}
		})
	}
	return group.Wait()
}

// counted is what a watch has observed.
type counted struct {
	added, deleted atomic.Int64
	ended          chan error // receives the reason why the watch ended
}

// count watches matching pods and counts them; it decodes each event once, which is the least that
// an outside client must do. It resumes a watch that the server ends because this client was slow, as long as the
// server has the events that are missing.
func count(ctx context.Context, client kubernetes.Interface, selector string) (*counted, error) {
	pods := client.CoreV1().Pods("default")
	list, err := pods.List(ctx, metav1.ListOptions{Limit: 1, FieldSelector: selector})
	if err != nil {
		return nil, err
	}
	w, err := watchtools.NewRetryWatcherWithContext(ctx, list.ResourceVersion, &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = selector
			return pods.Watch(ctx, o)
		},
	})
	if err != nil {
		return nil, err
	}
	c := &counted{ended: make(chan error, 1)}
	go func() {
		err := errors.New("the server ended it")
		for e := range w.ResultChan() {
			switch e.Type {
			case watch.Added:
				c.added.Add(1)
			case watch.Deleted:
				c.deleted.Add(1)
			case watch.Error:
				err = apierrors.FromObject(e.Object)
			}
		}
		c.ended <- fmt.Errorf("the watch of this client ended after %d pods: %w", c.added.Load(), err)
	}()
	return c, nil
}

// reach waits until a counter of c has reached a number.
func (c *counted) reach(ctx context.Context, n *atomic.Int64, want int64) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case err := <-c.ended:
			cancel(err)
		case <-ctx.Done():
		}
	}()
	return reach(ctx, n, want)
}

func reach(ctx context.Context, n *atomic.Int64, want int64) error {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for n.Load() < want {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%d of %d: %w", n.Load(), want, context.Cause(ctx))
		}
	}
	return nil
}

func nodesReady(ctx context.Context, client kubernetes.Interface, want int) error {
	for {
		asked := time.Now()
		nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
		if err != nil {
			return err
		}
		ready := 0
		for _, n := range nodes.Items {
			for _, c := range n.Status.Conditions {
				if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
					ready++
				}
			}
		}
		if ready >= want {
			return nil
		}
		select {
		case <-time.After(max(100*time.Millisecond, 9*time.Since(asked))): // lists of many nodes must not slow the server
		case <-ctx.Done():
			return fmt.Errorf("%d of %d nodes are Ready: %w", ready, want, ctx.Err())
		}
	}
}
