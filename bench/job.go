package main

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/utils/ptr"
)

// jobLoad creates Jobs as an outside client, first for our controller and then for upstream's.
type jobLoad struct {
	load
	jobs, parallelism int
	indexed           bool
	rate              float32
	only              string
}

func jobCommand(binary *string, out *figures) *cobra.Command {
	l := jobLoad{load: load{out: out}}
	c := &cobra.Command{
		Use:   "job [-- UP-FLAGS]",
		Short: "One big Job, then many of one pod, with our Job controller and with upstream's",
		Long: `One Job of --pods pods, then --jobs Jobs of one pod each, until all are Complete: with our
Job controller, then with upstream's in a cluster of its own, both without client limits. Pods name
their node, so that the scheduler is not measured. Writes are counted by the API server.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, name := range []string{"job", "upstream-job"} {
				if l.only != "" && l.only != name {
					continue
				}
				l.args = append([]string{"--controllers=*," + name}, args...)
				if err := l.run(cmd.Context(), name, binary); err != nil {
					return err
				}
			}
			return nil
		},
	}
	l.addFlags(c, 100, 10000, 16)
	c.Flags().IntVar(&l.jobs, "jobs", 5000, "Jobs of one pod")
	c.Flags().IntVar(&l.parallelism, "parallelism", 1000, "parallelism of the big Job")
	c.Flags().BoolVar(&l.indexed, "indexed", false, "create the big Job with completionMode Indexed")
	c.Flags().Float32Var(&l.rate, "rate", 0, "Jobs of one pod created a second; 0: as many as possible")
	c.Flags().StringVar(&l.only, "only", "", "measure only one: job (ours) or upstream-job")
	return c
}

// run measures the big Job and the small ones, each in its own cluster: leftovers of one would slow
// the other down (upstream deletes finished pods beyond 12,500).
func (l jobLoad) run(ctx context.Context, name string, binary *string) error {
	big := oneJob("big", int32(l.pods), int32(min(l.parallelism, l.pods)))
	if l.indexed {
		big.Spec.CompletionMode = ptr.To(batchv1.IndexedCompletion)
	}
	small := make([]*batchv1.Job, l.jobs)
	for i := range small {
		small[i] = oneJob(fmt.Sprintf("job-%05d", i), 1, 1)
	}
	if l.pods > 0 {
		if err := l.alone(ctx, binary, fmt.Sprintf("%s: a Job of %d pods, parallelism %d", name, l.pods, l.parallelism), l.pods, []*batchv1.Job{big}); err != nil {
			return err
		}
	}
	if l.jobs == 0 {
		return nil
	}
	return l.alone(ctx, binary, fmt.Sprintf("%s: %d Jobs of one pod", name, l.jobs), l.jobs, small)
}

func (l jobLoad) alone(ctx context.Context, binary *string, what string, pods int, jobs []*batchv1.Job) error {
	s, client, err := l.connect(ctx, binary)
	if err != nil {
		return err
	}
	defer s.stop()
	return l.measure(ctx, client, s, what, pods, jobs)
}

func oneJob(name string, completions, parallelism int32) *batchv1.Job {
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: batchv1.JobSpec{
			Completions: &completions, Parallelism: &parallelism,
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				NodeName: "node-0", RestartPolicy: corev1.RestartPolicyNever,
				Containers: []corev1.Container{{Name: "main", Image: "pi"}},
			}},
		},
	}
}

// measure creates Jobs and waits until all are Complete.
func (l jobLoad) measure(ctx context.Context, client kubernetes.Interface, s *server, what string, pods int, jobs []*batchv1.Job) error {
	seen, err := follow(ctx, client)
	if err != nil {
		return err
	}
	defer seen.stop()
	written, err := requests(ctx, client)
	if err != nil {
		return err
	}
	before, start := s.use(), time.Now()
	makers, makersCtx := errgroup.WithContext(ctx)
	makers.SetLimit(l.workers)
	pace := flowcontrol.NewFakeAlwaysRateLimiter()
	if l.rate > 0 {
		pace = flowcontrol.NewTokenBucketRateLimiter(l.rate, 1)
	}
	for _, j := range jobs {
		pace.Accept()
		makers.Go(func() error {
			_, err := client.BatchV1().Jobs("default").Create(makersCtx, j, metav1.CreateOptions{})
			return err
		})
	}
	if err := makers.Wait(); err != nil {
		return err
	}
	sent := time.Since(start)
	if err := seen.complete(ctx, len(jobs)); err != nil {
		return err
	}
	took, after := time.Since(start), s.use()
	now, err := requests(ctx, client)
	if err != nil {
		return err
	}
	l.out.add(what, "Complete after %.1f s (Jobs created in %.1f s): %.0f pods/s; CPU a pod %.2f ms, server %s",
		took.Seconds(), sent.Seconds(), float64(pods)/took.Seconds(), ms((after.cpu-before.cpu)/time.Duration(pods)), mb(after.memory))
	per := func(key string) float64 { return float64(now[key]-written[key]) / float64(pods) }
	total := per("POST pods") + per("PATCH pods") + per("DELETE pods") + per("PUT jobs/status")
	l.out.add("writes a pod", "%.3f (pods created %.3f, patched %.3f, deleted %.3f; Job status %.3f); Events %.3f",
		total, per("POST pods"), per("PATCH pods"), per("DELETE pods"), per("PUT jobs/status"), per("POST events")+per("PATCH events"))
	l.out.add("from the last pod finished to Complete", "%s", seen.lags())
	return nil
}

// followed is what a watching client has observed of Jobs and their pods.
type followed struct {
	stop func()
	done chan struct{} // receives once for each Job that becomes Complete

	mu       sync.Mutex
	finished map[string]time.Time // maps a Job to when its last pod finished
	ended    map[string]time.Time
}

func follow(ctx context.Context, client kubernetes.Interface) (*followed, error) {
	ctx, stop := context.WithCancel(ctx)
	f := &followed{stop: stop, done: make(chan struct{}, 1<<20), finished: map[string]time.Time{}, ended: map[string]time.Time{}}
	watchAll := func(list func(context.Context, metav1.ListOptions) (string, error), open func(context.Context, metav1.ListOptions) (watch.Interface, error), see func(runtime.Object)) error {
		revision, err := list(ctx, metav1.ListOptions{Limit: 1})
		if err != nil {
			return err
		}
		w, err := watchtools.NewRetryWatcherWithContext(ctx, revision, &cache.ListWatch{WatchFuncWithContext: open})
		if err != nil {
			return err
		}
		go func() {
			for e := range w.ResultChan() {
				if e.Type == watch.Modified {
					see(e.Object)
				}
			}
		}()
		return nil
	}
	pods, jobs := client.CoreV1().Pods("default"), client.BatchV1().Jobs("default")
	err := watchAll(func(ctx context.Context, o metav1.ListOptions) (string, error) {
		l, err := pods.List(ctx, o)
		return l.ResourceVersion, err
	}, pods.Watch, f.pod)
	if err != nil {
		return nil, err
	}
	return f, watchAll(func(ctx context.Context, o metav1.ListOptions) (string, error) {
		l, err := jobs.List(ctx, o)
		return l.ResourceVersion, err
	}, jobs.Watch, f.job)
}

func (f *followed) pod(obj runtime.Object) {
	p, ok := obj.(*corev1.Pod)
	if !ok || p.Status.Phase != corev1.PodSucceeded {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if name := p.Labels[batchv1.JobNameLabel]; f.ended[name].IsZero() && hasFinalizer(p) {
		f.finished[name] = time.Now()
	}
}

func hasFinalizer(p *corev1.Pod) bool {
	return slices.Contains(p.Finalizers, batchv1.JobTrackingFinalizer)
}

func (f *followed) job(obj runtime.Object) {
	j, ok := obj.(*batchv1.Job)
	if !ok || !slices.ContainsFunc(j.Status.Conditions, func(c batchv1.JobCondition) bool {
		return c.Type == batchv1.JobComplete && c.Status == corev1.ConditionTrue
	}) {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended[j.Name].IsZero() {
		f.ended[j.Name] = time.Now()
		f.done <- struct{}{}
	}
}

func (f *followed) complete(ctx context.Context, n int) error {
	for i := range n {
		select {
		case <-f.done:
		case <-ctx.Done():
			return fmt.Errorf("%d of %d Jobs are Complete: %w", i, n, ctx.Err())
		}
	}
	return nil
}

// lags describes how long after their last pod had finished Jobs became Complete, as the watching
// client observed both.
func (f *followed) lags() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var lags []time.Duration
	for name, end := range f.ended {
		if last, ok := f.finished[name]; ok {
			lags = append(lags, max(0, end.Sub(last)))
		}
	}
	if len(lags) == 0 {
		return "not seen"
	}
	slices.Sort(lags)
	at := func(part float64) time.Duration { return lags[int(part*float64(len(lags)-1))].Round(time.Millisecond) }
	return fmt.Sprintf("half within %s, 99 %% within %s, all within %s", at(0.5), at(0.99), at(1))
}

var requestLine = regexp.MustCompile(`(?m)^apiserver_request_total\{.*resource="([^"]*)".*subresource="([^"]*)".*verb="([A-Z]+)".*\} (\S+)$`)

// requests counts the requests that the API server has answered, by "VERB resource/subresource".
func requests(ctx context.Context, client kubernetes.Interface) (map[string]int, error) {
	text, err := client.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return nil, err
	}
	all := map[string]int{}
	for _, m := range requestLine.FindAllStringSubmatch(string(text), -1) {
		key := m[3] + " " + m[1]
		if m[2] != "" {
			key += "/" + m[2]
		}
		n, err := strconv.ParseFloat(m[4], 64)
		if err != nil {
			return nil, err
		}
		all[key] += int(n)
	}
	return all, nil
}
