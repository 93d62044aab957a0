package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

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
		Long: `Measure rehearse and the reference (kube-apiserver, etcd and KWOK, see bench/reference) in alternation, and print ratios.
A round has four measurements: both with the controllers and the scheduler of Kubernetes, and both without them. UP-FLAGS are
flags of 'rehearse up', which the reference does not get.`,
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

// side is a cluster of a round: an index of sides.
type side int

const (
	oursAll side = iota
	theirsAll
	oursPlain
	theirsPlain
)

// sides are the clusters of a round. The plain ones have the API server, the store, and simulated nodes and pods.
var sides = [...]struct {
	name string
	ours bool     // rehearse, otherwise the reference
	args []string // flags of up
}{
	oursAll:   {"rehearse, all controllers", true, nil},
	theirsAll: {"reference, all controllers", false, []string{"--controllers"}},
	// serviceaccount-controller creates the service account of the pods, which the reference creates itself.
	oursPlain:   {"rehearse, no controllers", true, []string{"--controllers=stage,serviceaccount-controller"}},
	theirsPlain: {"reference, no controllers", false, nil},
}

// round has the two phases of each side.
type round [len(sides)][]phaseCost

// groups are the pairs of sides whose ratios the command prints.
var groups = []struct {
	name         string
	ours, theirs side
}{
	{"Controllers in both", oursAll, theirsAll},
	{"No controllers in both", oursPlain, theirsPlain},
	{"Controllers only in rehearse", oursAll, theirsPlain},
}

func (c compared) run(ctx context.Context, binary *string) error {
	if c.rounds < 1 || c.kubeconfig != "" {
		return fmt.Errorf("--rounds: want a number from 1; --kubeconfig and --pid belong to bench pods")
	}
	for _, arg := range c.args {
		if strings.HasPrefix(arg, "--controllers") {
			return fmt.Errorf("flag of up %s: compare measures with all controllers and without them, and sets --controllers itself", arg)
		}
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
	var rounds []round
	defer func() { c.report(rounds) }()
	for n := range c.rounds {
		r, err := c.round(ctx, fmt.Sprintf("round %d of %d", n+1, c.rounds), binary)
		if err != nil {
			return err
		}
		rounds = append(rounds, r)
	}
	return nil
}

// round measures each side once.
func (c compared) round(ctx context.Context, name string, binary *string) (r round, err error) {
	for n, s := range sides {
		c.out.add(name, "%s", s.name)
		l, program := c.load, &c.reference
		l.args = s.args
		if s.ours {
			l.args, program = slices.Concat(c.args, s.args), binary
		}
		if r[n], err = l.measure(ctx, program); err != nil {
			return r, fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return r, nil
}

// report adds the ratios of the complete rounds.
func (c compared) report(rounds []round) {
	if len(rounds) == 0 {
		return
	}
	fmt.Println("ratios, one per round and their median (more is better for rehearse)")
	for _, g := range groups {
		fmt.Printf("%s:\n", g.name)
		for _, m := range measures {
			var ratios []float64
			for _, r := range rounds {
				value := m.of(r[g.ours]) / m.of(r[g.theirs])
				if m.less {
					value = 1 / value
				}
				ratios = append(ratios, value)
			}
			c.out.ratio(ratio{g.name, m.name, ratios})
		}
	}
}

// measure starts a server, and creates and deletes pods.
func (l load) measure(ctx context.Context, binary *string) ([]phaseCost, error) {
	s, client, err := l.connect(ctx, binary)
	if err != nil {
		return nil, err
	}
	defer s.stop()
	return l.lifecycle(ctx, client, s)
}
