package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"github.com/rehearse-k8s/rehearse/internal/snapshot"
)

// replayLoad is a recording of changes at a constant rate.
type replayLoad struct {
	objects, rate int
	lasts         time.Duration
	out           *figures
}

func replayCommand(binary *string, out *figures) *cobra.Command {
	l := replayLoad{out: out}
	c := &cobra.Command{
		Use:   "replay",
		Short: "Replay changes at a constant rate, and measure how late a watch observes each of them",
		RunE:  func(cmd *cobra.Command, _ []string) error { return l.run(cmd.Context(), binary) },
	}
	c.Flags().IntVar(&l.objects, "objects", 200, "number of objects that the changes patch in turn")
	c.Flags().IntVar(&l.rate, "rate", 500, "changes per second")
	c.Flags().DurationVar(&l.lasts, "for", 20*time.Second, "duration of the recording")
	return c
}

func (l replayLoad) run(ctx context.Context, binary *string) error {
	if err := build(ctx, binary); err != nil {
		return err
	}
	s, err := up(ctx, *binary, "--nodes", "0", "--controllers=serviceaccount-controller")
	if err != nil {
		return err
	}
	defer s.stop()
	dir, err := os.MkdirTemp("", "rehearse-bench-replay-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "recording.jsonl")
	times, err := l.write(file)
	if err != nil {
		return err
	}
	config, err := s.config()
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	w, err := client.CoreV1().ConfigMaps("default").Watch(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	arrivals := make(chan []time.Time, 1)
	go func() { arrivals <- l.observe(w, len(times)) }()
	fmt.Printf("%d changes, %d per second, of %d objects; load before: %s\n", len(times), l.rate, l.objects, machineLoad())
	before := s.use()
	m, err := measure(ctx, *binary, "snapshot", "replay", file, "--kubeconfig", s.kubeconfig)
	if err != nil {
		return err
	}
	after := s.use()
	// The start of the replay is unknown here: the change that was observed earliest, compared with its time, counts as punctual.
	var late []time.Duration
	var at []time.Time
	select {
	case at = <-arrivals:
	case <-time.After(time.Minute):
		return errors.New("a change of the replay was not observed within a minute")
	case <-ctx.Done():
		return ctx.Err()
	}
	if at == nil {
		return errors.New("the watch of the changes ended before the last of them")
	}
	for i := range times {
		late = append(late, at[i].Sub(at[0])-times[i])
	}
	earliest := slices.Min(late)
	for i := range late {
		late[i] -= earliest
	}
	slices.Sort(late)
	quantile := func(q float64) float64 { return ms(late[int(q*float64(len(late)-1))]) }
	within := 0
	for _, d := range late {
		if d <= 50*time.Millisecond {
			within++
		}
	}
	l.out.add("observed late", "median %.1f ms, 99 %% %.1f ms, 99.9 %% %.1f ms, maximum %.1f ms; %.2f %% within 50 ms",
		quantile(0.5), quantile(0.99), quantile(0.999), quantile(1), 100*float64(within)/float64(len(late)))
	l.out.add("the command", "%s; server %.2f s CPU", m, (after.cpu - before.cpu).Seconds())
	return nil
}

// write writes the recording, and returns the time of each change.
func (l replayLoad) write(file string) (times []time.Duration, err error) {
	f, err := os.Create(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	w, err := snapshot.NewWriter(f, snapshot.JSONLines, false, snapshot.Header{Recording: true})
	if err != nil {
		return nil, err
	}
	name := func(i int) string { return fmt.Sprintf("replayed-%d", i%l.objects) }
	for i := range l.objects {
		err := w.Write(&unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name(i), "namespace": "default"}}})
		if err != nil {
			return nil, err
		}
	}
	for i := range int(l.lasts.Seconds() * float64(l.rate)) {
		after := time.Second + time.Duration(i)*time.Second/time.Duration(l.rate)
		times = append(times, after-time.Second)
		err := w.WriteChange(snapshot.Change{
			After: after, Resource: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, Namespace: "default", Name: name(i), Method: snapshot.Patch,
			Template: map[string]any{"data": map[string]any{"change": strconv.Itoa(i)}},
		})
		if err != nil {
			return nil, err
		}
	}
	return times, w.Close()
}

// observe returns when a watch delivered each change; nil if the watch ended before the last of them.
func (l replayLoad) observe(w watch.Interface, changes int) []time.Time {
	at := make([]time.Time, changes)
	for n := 0; n < changes; {
		e, ok := <-w.ResultChan()
		if !ok {
			return nil
		}
		c, isConfigMap := e.Object.(*corev1.ConfigMap)
		if !isConfigMap {
			continue
		}
		if i, err := strconv.Atoi(c.Data["change"]); err == nil && at[i].IsZero() {
			at[i] = time.Now()
			n++
		}
	}
	return at
}
