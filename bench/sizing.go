package main

import (
	"context"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
)

// sizePoint is what a cluster uses when it is quiescent.
type sizePoint struct {
	nodes, pods int
	bytes       int64   // resident memory
	cpu         float64 // share of a core
}

// sizeConstants are the constants of the formula in docs/reference/sizing.md:
// use = base + nodes * perNode + pods * perPod.
type sizeConstants struct{ base, perNode, perPod float64 }

// solveSize determines the constants from three values: of a cluster with few nodes, of one with many nodes, and of one with the
// same nodes and pods. ok is false if the points do not determine them.
func solveSize(points [3]sizePoint, value func(sizePoint) float64) (c sizeConstants, ok bool) {
	few, nodes, pods := points[0], points[1], points[2]
	if nodes.nodes <= few.nodes || pods.nodes != nodes.nodes || few.pods != 0 || nodes.pods != 0 || pods.pods <= 0 {
		return c, false
	}
	c.perNode = (value(nodes) - value(few)) / float64(nodes.nodes-few.nodes)
	c.perPod = (value(pods) - value(nodes)) / float64(pods.pods)
	c.base = value(few) - c.perNode*float64(few.nodes)
	return c, true
}

func sizingCommand(binary *string, out *figures) *cobra.Command {
	l := load{out: out}
	var rest time.Duration
	c := &cobra.Command{
		Use:   "sizing",
		Short: "Measure the constants of the formula in docs/reference/sizing.md",
		Long: `Three clusters in memory are measured when they are quiescent: one with 3 nodes, one with --nodes nodes, and one with
these nodes and --pods Running pods. Their differences are the constants of the formula in docs/reference/sizing.md. A fourth
cluster stores the same objects in etcd, for the size of its database.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return l.sizing(cmd.Context(), binary, rest) },
	}
	c.Flags().IntVar(&l.nodes, "nodes", 1000, "simulated nodes")
	c.Flags().IntVar(&l.pods, "pods", 10000, "pods")
	c.Flags().IntVar(&l.workers, "workers", 32, "concurrent requests of the client")
	c.Flags().DurationVar(&rest, "rest", 30*time.Second, "how long each quiescent cluster is measured, after it was given the same time to become so")
	return c
}

// fewNodes is the number of nodes of the smallest cluster, the default of `up`.
const fewNodes = 3

func (l load) sizing(ctx context.Context, binary *string, rest time.Duration) error {
	if l.nodes <= fewNodes || l.pods < 1 {
		return fmt.Errorf("flags --nodes and --pods: want more than %d nodes and at least one pod, got %d and %d", fewNodes, l.nodes, l.pods)
	}
	var points [3]sizePoint
	for n, size := range [3][2]int{{fewNodes, 0}, {l.nodes, 0}, {l.nodes, l.pods}} {
		point := l
		point.nodes, point.pods = size[0], size[1]
		var err error
		if points[n], err = point.quiescent(ctx, binary, rest); err != nil {
			return err
		}
		l.out.add(fmt.Sprintf("%d nodes, %d pods", point.nodes, point.pods), "%s, %.1f %% of a core; load %s", mb(points[n].bytes), 100*points[n].cpu, machineLoad())
	}
	if c, ok := solveSize(points, func(p sizePoint) float64 { return float64(p.bytes) / 1024 }); ok {
		l.out.add("memory", "%.0f MB + nodes × %.0f KB + pods × %.0f KB", c.base/1024, c.perNode, c.perPod)
	}
	if c, ok := solveSize(points, func(p sizePoint) float64 { return 100 * p.cpu }); ok {
		// On a busy machine, the little work that quiescent pods cause is below the noise, so its constant may be negative.
		l.out.add("CPU in steady state", "%.1f %% of a core + nodes/1,000 × %.1f %% + pods/10,000 × %.1f %%", c.base, 1000*c.perNode, 10000*c.perPod)
	}
	return l.database(ctx, binary)
}

// quiescent fills a cluster, waits, and then measures it.
func (l load) quiescent(ctx context.Context, binary *string, rest time.Duration) (p sizePoint, err error) {
	s, client, err := l.connect(ctx, binary)
	if err != nil {
		return p, err
	}
	defer s.stop()
	if err := l.fill(ctx, client); err != nil {
		return p, err
	}
	if err := pause(ctx, rest); err != nil { // the garbage of the start, and memory that is returned to the system
		return p, err
	}
	before := s.use()
	if err := pause(ctx, rest); err != nil {
		return p, err
	}
	after := s.use()
	return sizePoint{l.nodes, l.pods, after.memory, (after.cpu - before.cpu).Seconds() / rest.Seconds()}, nil
}

// database measures by how much the files of etcd grow with the nodes and with the pods. The database grows in steps, and the
// write-ahead log is a file of fixed size, so only the database is counted.
func (l load) database(ctx context.Context, binary *string) error {
	dir, err := os.MkdirTemp("", "rehearse-bench-sizing-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	l.args = []string{"--data-dir", filepath.Join(dir, "data")}
	s, client, err := l.connect(ctx, binary)
	if err != nil {
		return err
	}
	defer s.stop()
	before, err := databaseBytes(dir)
	if err != nil {
		return err
	}
	if err := l.fill(ctx, client); err != nil {
		return err
	}
	after, err := databaseBytes(dir)
	if err != nil {
		return err
	}
	l.out.add("etcd's database", "%s with %d nodes, %s with %d pods too: %.1f KB per pod with its two writes", mb(before), l.nodes, mb(after), l.pods, math.Max(0, float64(after-before))/1024/float64(l.pods))
	return nil
}

// databaseBytes returns the size of the databases below a directory.
func databaseBytes(dir string) (bytes int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || e.Name() != "db" {
			return err
		}
		info, err := e.Info()
		if err == nil {
			bytes += info.Size()
		}
		return err
	})
	return bytes, err
}
