package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

func stageCommand(binary *string, out *figures) *cobra.Command {
	l := load{noEngine: true, out: out}
	var stages, kwok string
	var bare bool
	c := &cobra.Command{
		Use:   "stage [-- UP-FLAGS]",
		Short: "Pod lifecycles under the stage engine in its own process, and under KWOK",
		Long: `Each engine in turn plays the same stages over TLS, on a server with embedded etcd that runs nothing else. The figure is
the engine's own CPU a pod.

KWOK's stages are in its repository: --stages DIR/node/fast,DIR/pod/fast`,
		RunE: func(cmd *cobra.Command, args []string) error {
			l.args = args
			engines := []engine{{name: "rehearse", command: ours(stages)}}
			if kwok != "" {
				if stages == "" {
					return errors.New("KWOK does not know our stages: name with --stages files that both play")
				}
				engines = append([]engine{{name: "kwok", command: theirs(kwok, stages)}}, engines...)
			}
			if bare {
				engines = append(engines, engine{name: "bare", command: bareEngine})
			}
			for _, e := range engines {
				if err := l.under(cmd.Context(), binary, e); err != nil {
					return fmt.Errorf("%s: %w", e.name, err)
				}
			}
			return nil
		},
	}
	l.addFlags(c, 100, 10000, 32)
	c.Flags().StringVar(&stages, "stages", "", "comma-separated files of stages, or directories of them; empty: the built-in stages")
	c.Flags().BoolVar(&bare, "bare", false, "also measure a client that only reads the watch and sends the requests")
	c.Flags().StringVar(&kwok, "kwok", "", "a kwok binary, which is measured too")
	return c
}

// engine is a stage engine that can be started for a cluster.
type engine struct {
	name    string
	command func(binary, kubeconfig string) (*exec.Cmd, error)
}

func ours(stages string) func(binary, kubeconfig string) (*exec.Cmd, error) {
	return func(binary, kubeconfig string) (*exec.Cmd, error) {
		args := []string{"simulate", "--kubeconfig", kubeconfig, "--metrics-address", "127.0.0.1:0"}
		if stages != "" {
			files, err := stageFiles(stages)
			if err != nil {
				return nil, err
			}
			args = append(args, "--stages", strings.Join(files, ","))
		}
		return exec.Command(binary, args...), nil
	}
}

func theirs(kwok, stages string) func(binary, kubeconfig string) (*exec.Cmd, error) {
	return func(_, kubeconfig string) (*exec.Cmd, error) {
		files, err := stageFiles(stages)
		if err != nil {
			return nil, err
		}
		args := []string{
			"--kubeconfig", kubeconfig, "--manage-nodes-with-annotation-selector", "kwok.x-k8s.io/node=fake",
			"--node-lease-duration-seconds", "40", "--cidr", "10.0.0.0/8",
		}
		for _, f := range files {
			args = append(args, "--config", f)
		}
		return exec.Command(kwok, args...), nil
	}
}

// bareEngine and bareLeases are the lower bounds: the requests alone.
func bareEngine(_, kubeconfig string) (*exec.Cmd, error) {
	self, err := os.Executable()
	return exec.Command(self, "bare-engine", "--kubeconfig", kubeconfig), err
}

func bareLeases(_, kubeconfig string) (*exec.Cmd, error) {
	self, err := os.Executable()
	return exec.Command(self, "bare-engine", "--leases", "--kubeconfig", kubeconfig), err
}

// finish stops an engine gracefully.
func finish(command *exec.Cmd) {
	_ = command.Process.Signal(syscall.SIGTERM)
	_ = command.Wait()
}

// stageFiles are the files with stages.
func stageFiles(list string) (files []string, err error) {
	for _, name := range strings.Split(list, ",") {
		found := []string{name}
		if info, err := os.Stat(name); err == nil && info.IsDir() {
			if found, err = filepath.Glob(filepath.Join(name, "*.yaml")); err != nil {
				return nil, err
			}
		}
		for _, f := range found {
			text, err := os.ReadFile(f)
			if err != nil {
				return nil, err
			}
			if bytes.Contains(text, []byte("kind: Stage\n")) {
				files = append(files, f)
			}
		}
	}
	return files, nil
}

// under measures pod lifecycles under one engine, on its own server.
func (l load) under(ctx context.Context, binary *string, e engine) error {
	data, err := os.MkdirTemp("", "rehearse-bench-data-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(data) }()
	l.args = append(slices.Clone(l.args), "--data-dir", filepath.Join(data, "etcd"))
	s, client, err := l.connect(ctx, binary)
	if err != nil {
		return err
	}
	defer s.stop()
	ctx, end := context.WithCancel(ctx)
	defer end() // end the watch before its server
	command, err := e.command(*binary, s.kubeconfig)
	if err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(data, "engine.log"))
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	command.Stdout, command.Stderr = log, log
	if err := command.Start(); err != nil {
		return err
	}
	defer finish(command)
	start := time.Now()
	ready, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	if err := nodesReady(ready, client, l.nodes); err != nil {
		text, _ := os.ReadFile(log.Name())
		return fmt.Errorf("%w\n%s", err, text)
	}
	l.engine, l.noEngine = command.Process.Pid, false
	fmt.Printf("\n%s: %d nodes Ready after %.1f s; %d pods, %d requests at a time\n", e.name, l.nodes, time.Since(start).Seconds(), l.pods, l.workers)
	early, err := lateness(ctx, log.Name())
	if err != nil {
		return err
	}
	before := use(l.engine)
	if _, err := l.lifecycle(ctx, client, s); err != nil {
		return err
	}
	after := use(l.engine)
	late, err := lateness(ctx, log.Name())
	if err != nil {
		return err
	}
	l.out.add("the engine alone, "+e.name, "%.2f ms of CPU a pod, %s%s", ms((after.cpu-before.cpu)/time.Duration(l.pods)), mb(after.memory), late.since(early))
	return nil
}

var metricsAddress = regexp.MustCompile(`http://\S+`)

// histogram contains the cumulative counts of a metric's buckets.
type histogram struct {
	bounds []string
	counts []float64
}

// lateness returns how late due stages were played so far, from our engine's metrics, whose address
// is in its log. It is empty for other engines.
func lateness(ctx context.Context, log string) (h histogram, err error) {
	text, err := os.ReadFile(log)
	if err != nil {
		return h, err
	}
	address := string(metricsAddress.Find(text))
	if address == "" {
		return h, nil
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address+"/metrics", nil)
	if err != nil {
		return h, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return h, err
	}
	defer func() { _ = answer.Body.Close() }()
	lines := bufio.NewScanner(answer.Body)
	for lines.Scan() {
		if bucket, ok := strings.CutPrefix(lines.Text(), `rehearse_stage_lateness_seconds_bucket{le="`); ok {
			bound, count, _ := strings.Cut(bucket, `"} `)
			n, err := strconv.ParseFloat(count, 64)
			if err != nil {
				return h, err
			}
			h.bounds, h.counts = append(h.bounds, bound), append(h.counts, n)
		}
	}
	return h, lines.Err()
}

// since returns the lateness after an earlier histogram: it excludes the nodes, which all start at
// once and are not measured.
func (h histogram) since(before histogram) string {
	said := ""
	for _, part := range []float64{0.5, 0.99} {
		for i := range h.counts {
			last := len(h.counts) - 1
			if h.counts[i]-before.counts[i] >= part*(h.counts[last]-before.counts[last]) {
				said += fmt.Sprintf("; %.0f %% of due stages played within %s s", 100*part, h.bounds[i])
				break
			}
		}
	}
	return said
}
