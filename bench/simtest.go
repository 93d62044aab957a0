package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

func simtestCommand(out *figures) *cobra.Command {
	s := searches{out: out}
	c := &cobra.Command{
		Use:   "simtest",
		Short: "Test the examples with many runs: the naive ones fail, the correct ones pass",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return s.run(cmd.Context()) },
	}
	c.Flags().IntVar(&s.seeds, "seeds", 10_000, "runs of each correct example")
	c.Flags().IntVar(&s.repeats, "repeats", 2_000, "repeats of each plan of TestSameSeed, to compare their hashes")
	c.Flags().StringVar(&s.benchtime, "benchtime", "600x", "-benchtime of the benchmarks, as for go test")
	return c
}

// searches are the long runs of simtest. They execute `go test` as a user does and read the tests'
// logs.
type searches struct {
	seeds, repeats int
	benchtime      string
	out            *figures
}

// The examples in this repository.
var (
	naive   = []string{"delayedaction", "stalestatus", "finalizerfilter", "expectations", "countandunfinalize", "naivestages"}
	correct = []string{"careful", "operator", "kubelet"}
)

func (s searches) run(ctx context.Context) error {
	fmt.Println("\nnaive controllers, default search:")
	for _, name := range naive {
		if err := s.out.goTest(ctx, found, "./examples/"+name); err != nil {
			return err
		}
	}
	fmt.Printf("\ncorrect controllers, %d runs:\n", s.seeds)
	for _, name := range correct {
		if err := s.out.goTest(ctx, passed, "./examples/"+name, "-simtest.seeds="+strconv.Itoa(s.seeds)); err != nil {
			return err
		}
	}
	fmt.Println("\nthe same seed, the same hash:")
	if err := s.out.goTest(ctx, differing, "./simtest", "-run", "TestSameSeed", "-repeats="+strconv.Itoa(s.repeats)); err != nil {
		return err
	}
	fmt.Println("\nruns a second, on one processor:")
	return s.out.goTest(ctx, speed, "./simtest", "-run", "^$", "-bench", ".", "-benchtime", s.benchtime)
}

// The parts of the tests' logs that goTest prints.
var (
	testName  = regexp.MustCompile(`^=== (?:RUN|NAME) +(\S+)`)
	found     = regexp.MustCompile(`found in run .*`)
	passed    = regexp.MustCompile(`passed: [\d,]+ of .*`)
	differing = regexp.MustCompile(`\d+ of \d+ runs differ`)
	speed     = regexp.MustCompile(`^Benchmark.* ns/op.*`)
)

// goTest runs the tests of packages and adds the parts of lines that match result. It prints the whole
// output of a test that fails.
func (f *figures) goTest(ctx context.Context, result *regexp.Regexp, args ...string) error {
	began := time.Now()
	cmd := exec.CommandContext(ctx, "go", append([]string{"test", "-count=1", "-v", "-timeout", "2h"}, args...)...)
	// An interrupt also ends the process of the test: it would hold the pipe open.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	var whole strings.Builder
	lines := bufio.NewScanner(io.TeeReader(out, &whole))
	lines.Buffer(nil, 16<<20)
	test := ""
	for lines.Scan() {
		if m := testName.FindStringSubmatch(lines.Text()); m != nil {
			test = m[1]
		}
		if text := result.FindString(lines.Text()); text != "" {
			f.add(strings.TrimSpace(args[0]+" "+test), "%s", strings.Join(strings.Fields(text), " "))
		}
	}
	if err := cmd.Wait(); err != nil {
		fmt.Print(whole.String())
		return fmt.Errorf("go test %s: %w", strings.Join(args, " "), err)
	}
	f.add(args[0], "%s in all", time.Since(began).Round(100*time.Millisecond))
	return lines.Err()
}
