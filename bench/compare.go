package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/spf13/cobra"
)

// compared are rounds of the same load on rehearse and on the reference.
type compared struct {
	load
	rounds    int
	reference string
}

func compareCommand(binary *string, out *figures) *cobra.Command {
	c := compared{load: load{out: out}}
	cmd := &cobra.Command{
		Use:   "compare [-- UP-FLAGS]",
		Short: "Measure rehearse and the reference (kube-apiserver, etcd and KWOK, see bench/reference) in alternation, and print ratios",
		RunE: func(cmd *cobra.Command, args []string) error {
			c.args = args
			return c.run(cmd.Context(), binary)
		},
	}
	c.addFlags(cmd, 1000, 5000, 32)
	cmd.Flags().IntVar(&c.rounds, "rounds", 3, "rounds; each measures both")
	cmd.Flags().StringVar(&c.reference, "reference", "", "a binary of bench/reference; empty: build one from this tree")
	return cmd
}

func (c compared) run(ctx context.Context, binary *string) error {
	if c.rounds < 1 || c.kubeconfig != "" {
		return fmt.Errorf("--rounds: want a number from 1; --kubeconfig and --pid belong to bench pods")
	}
	if c.reference == "" {
		c.reference = filepath.Join(os.TempDir(), "rehearse-bench-reference")
		build := exec.CommandContext(ctx, "go", "build", "-C", filepath.Join("bench", "reference"), "-o", c.reference, ".")
		build.Stderr = os.Stderr
		if err := build.Run(); err != nil {
			return fmt.Errorf("build the reference: %w", err)
		}
	}
	if err := build(ctx, binary); err != nil {
		return err
	}
	plain := c.load
	plain.args = nil // flags of up that the reference does not have
	var ours, theirs [][]phaseCost
	for round := range c.rounds {
		name := fmt.Sprintf("round %d of %d", round+1, c.rounds)
		c.out.add(name, "rehearse")
		m, err := c.measure(ctx, binary)
		if err != nil {
			return c.report(ours, theirs, err)
		}
		c.out.add(name, "reference")
		t, err := plain.measure(ctx, &c.reference)
		if err != nil {
			return c.report(ours, theirs, err)
		}
		ours, theirs = append(ours, m), append(theirs, t)
	}
	return c.report(ours, theirs, nil)
}

// report adds the ratios of the complete rounds, also if a later round ended with an error, which it returns.
func (c compared) report(ours, theirs [][]phaseCost, err error) error {
	if len(ours) == 0 {
		return err
	}
	fmt.Println("ratios, one per round and their median (more is better for rehearse):")
	for _, row := range []struct {
		name  string
		ratio func(ours, theirs []phaseCost) float64
	}{
		{"pods Ready per second", func(o, t []phaseCost) float64 { return o[0].perSecond / t[0].perSecond }},
		{"pods deleted per second", func(o, t []phaseCost) float64 { return o[1].perSecond / t[1].perSecond }},
		{"CPU per pod until Ready", func(o, t []phaseCost) float64 { return t[0].cpu / o[0].cpu }},
		{"CPU per deleted pod", func(o, t []phaseCost) float64 { return t[1].cpu / o[1].cpu }},
		{"memory when all are Ready", func(o, t []phaseCost) float64 { return float64(t[0].rssBytes) / float64(o[0].rssBytes) }},
	} {
		var ratios []float64
		for n := range ours {
			ratios = append(ratios, row.ratio(ours[n], theirs[n]))
		}
		c.out.ratio(ratio{row.name, ratios})
	}
	return err
}

// measure starts a server, and creates and deletes pods.
func (l load) measure(ctx context.Context, binary *string) ([]phaseCost, error) {
	s, client, err := l.connect(ctx, binary)
	if err != nil {
		return nil, err
	}
	defer s.stop()
	ctx, cancel := context.WithCancel(ctx) // ends the watches before the server
	defer cancel()
	return l.lifecycle(ctx, client, s)
}
