package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/client-go/kubernetes"
)

// builds are rounds of the same load on several builds of rehearse.
type builds struct {
	load
	starts, rounds int
	files          []string
}

func buildsCommand() *cobra.Command {
	var b builds
	cmd := &cobra.Command{
		Use:   "builds FILE FILE... [-- UP-FLAGS]",
		Short: "Compare builds of rehearse: their servers run at the same time and get the load in turn",
		Long: `Compare builds of rehearse. Their servers run at the same time, and get the load in turn, in short rounds: the speed of a machine can change by a
third within minutes. They are started several times, each time from new copies of the files: two processes of one build can differ by a
fifth. To see what remains of the noise, name one file twice.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if files := beforeDash(cmd, args); len(files) < 2 {
				return fmt.Errorf("builds: %d files, want at least 2: go build -o FILE ./cmd/rehearse builds one", len(files))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			b.files = beforeDash(cmd, args)
			b.args = args[len(b.files):]
			return b.run(cmd.Context())
		},
	}
	b.addFlags(cmd, 1000, 1000, 32)
	cmd.Flags().IntVar(&b.starts, "starts", 4, "how often to start the servers")
	cmd.Flags().IntVar(&b.rounds, "rounds", 10, "rounds per start; each measures all builds")
	return cmd
}

// beforeDash returns the arguments before "--".
func beforeDash(cmd *cobra.Command, args []string) []string {
	if n := cmd.ArgsLenAtDash(); n >= 0 {
		return args[:n]
	}
	return args
}

func (b builds) run(ctx context.Context) error {
	switch {
	case b.kubeconfig != "" || b.pid != 0:
		return fmt.Errorf("--kubeconfig and --pid belong to bench pods: builds starts its servers")
	case b.starts < 1:
		return fmt.Errorf("--starts %d: want a number from 1", b.starts)
	case b.rounds < 1:
		return fmt.Errorf("--rounds %d: want a number from 1", b.rounds)
	}
	measured := make([][][]phaseCost, len(b.files))
	defer func() { fmt.Print(buildsTable(b.files, measured)) }()
	for start := range b.starts {
		fmt.Printf("start %d of %d\n", start+1, b.starts)
		if err := b.once(ctx, start, measured); err != nil {
			return err
		}
	}
	return nil
}

// once starts a server of each build, measures them in turn, and adds the phases of each round to those of each build.
func (b builds) once(ctx context.Context, start int, measured [][][]phaseCost) error {
	dir, err := os.MkdirTemp("", "rehearse-bench-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	copies := make([]string, len(b.files))
	for n, file := range b.files {
		content, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		copies[n] = filepath.Join(dir, fmt.Sprint("rehearse", n))
		if err := os.WriteFile(copies[n], content, 0o755); err != nil {
			return err
		}
	}
	servers, clients := make([]*server, len(b.files)), make([]kubernetes.Interface, len(b.files))
	for n := range b.files {
		n = (n + start) % len(b.files)
		if servers[n], clients[n], err = b.connect(ctx, &copies[n]); err != nil {
			return fmt.Errorf("%s: %w", b.files[n], err)
		}
		defer servers[n].stop()
	}
	for round := range b.rounds {
		for n := range b.files {
			n = (n + round) % len(b.files)
			fmt.Println(b.files[n])
			phases, err := b.lifecycle(ctx, clients[n], servers[n])
			if err != nil {
				return fmt.Errorf("%s: %w", b.files[n], err)
			}
			measured[n] = append(measured[n], phases)
		}
	}
	return nil
}

// buildsTable compares each build with the first, in the rounds that all of them have. measured has the phases of each round of each build.
func buildsTable(files []string, measured [][][]phaseCost) string {
	rounds := len(measured[0])
	for _, phases := range measured {
		rounds = min(rounds, len(phases))
	}
	if rounds == 0 {
		return ""
	}
	var out strings.Builder
	for _, m := range measures {
		fmt.Fprintf(&out, "%s%s:\n", m.name, m.unit)
		var first []float64
		for n, file := range files {
			var values []float64
			for _, phases := range measured[n][:rounds] {
				values = append(values, m.of(phases))
			}
			fmt.Fprintf(&out, "  %s: median %.4g", file, median(values))
			if n == 0 {
				first = values
			} else {
				out.WriteString(difference(first, values))
			}
			out.WriteByte('\n')
		}
	}
	return out.String()
}

// difference compares the values of the same rounds. Among 40 rounds, a build without any effect is above the first one in 14 to 26 with a probability of 96 %.
func difference(first, values []float64) string {
	var ratios []float64
	more := 0
	for n := range first {
		ratios = append(ratios, values[n]/first[n])
		if values[n] > first[n] {
			more++
		}
	}
	return fmt.Sprintf(", difference %+.1f %%, more in %d of %d rounds", 100*(median(ratios)-1), more, len(first))
}
