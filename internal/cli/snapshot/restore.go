package snapshot

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"

	"github.com/rehearse-k8s/rehearse/internal/cli/console"
	"github.com/rehearse-k8s/rehearse/internal/cli/target"
	"github.com/rehearse-k8s/rehearse/internal/controller/stages"
	"github.com/rehearse-k8s/rehearse/internal/snapshot"
	"github.com/rehearse-k8s/rehearse/internal/snapshot/transfer"
)

// restoreFlags are the flags of restore.
type restoreFlags struct {
	cluster       target.Flags
	selection     transfer.Selection
	ifExists      string
	parallel      int
	simulateNodes bool
}

func restoreCommand(c *console.Console) *cobra.Command {
	o := &restoreFlags{}
	cmd := &cobra.Command{
		Use:   "restore FILE",
		Short: "Create the objects of a file in a cluster",
		Long: `Create the objects of FILE, which 'rehearse snapshot save' or 'export' wrote, with their status. FILE can also be a snapshot of KWOK
(kwokctl snapshot save --format=k8s, or export): YAML documents, one per object.

Without --name, --kubeconfig and --context, the cluster is the one that 'rehearse kubectl' uses. restore reads the whole file before it writes
anything. It creates CustomResourceDefinitions first and pods after workloads, and replaces the UIDs of owners by the new ones. A reference to
an owner that FILE does not contain, or that is not selected, is removed; --if-exists=update
keeps those of the existing object. After an interrupt, the same command creates what is missing.

Controllers of the cluster act on the objects while they are created: a Deployment may get new pods before its own are restored. 'rehearse up
--from FILE' starts a cluster whose controllers begin after the restore.`,
		Example: `  rehearse snapshot restore cluster.yaml
  rehearse snapshot restore cluster.yaml --context kind-kind --if-exists=fail
  rehearse snapshot restore cluster.yaml --only namespaces,deployments --namespace shop`,
		Args: oneFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := validateSelection(cmd, o.selection); err != nil {
				return err
			}
			config, r, err := o.prepare(cmd, c)
			if err != nil {
				return err
			}
			ctx, stop := c.Interruptible(cmd.Context())
			defer stop()
			return restore(ctx, c, config, args[0], r)
		},
	}
	o.addFlags(cmd, c)
	addSelectionFlags(cmd, &o.selection, "restore")
	return cmd
}

// policies are the values of --if-exists.
var policies = []string{string(transfer.Skip), string(transfer.Update), string(transfer.Fail)}

// prepare checks the flags, and returns the configuration of the cluster and the options of the restore.
func (o *restoreFlags) prepare(cmd *cobra.Command, c *console.Console) (*rest.Config, transfer.RestoreOptions, error) {
	r := transfer.RestoreOptions{Selection: o.selection, IfExists: transfer.Policy(o.ifExists), Parallel: o.parallel}
	if !slices.Contains(policies, o.ifExists) {
		return nil, r, console.Usagef("--if-exists %q: must be skip, update or fail", o.ifExists)
	}
	if o.parallel < 1 {
		return nil, r, console.Usagef("--parallel %d: must be at least 1", o.parallel)
	}
	if o.simulateNodes {
		r.NodeAnnotations = simulated
	}
	config, err := o.cluster.Config(cmd, c.Getenv)
	return config, r, err
}

func (o *restoreFlags) addFlags(cmd *cobra.Command, c *console.Console) {
	f := cmd.Flags()
	o.cluster.AddFlags(cmd, c.Getenv)
	f.StringVar(&o.ifExists, "if-exists", string(transfer.Skip), "objects that exist: 'skip' leaves them unchanged, 'update' replaces them, 'fail' writes nothing if there are any")
	f.IntVar(&o.parallel, "parallel", 16, "number of concurrent requests")
	f.BoolVar(&o.simulateNodes, "simulate-nodes", false, "add to each node the annotation of nodes that rehearse simulates")
	_ = cmd.RegisterFlagCompletionFunc("if-exists", cobra.FixedCompletions(policies, cobra.ShellCompDirectiveNoFileComp))
}

// simulated is the annotation of the nodes that the stage engine simulates by default.
var simulated = map[string]string{stages.SimulatedAnnotation: stages.SimulatedAnnotationValue}

// Restore creates the objects of a file in a new cluster of simulated nodes, whose controllers do not run yet. An object that
// fails is an error, after the others are restored.
func Restore(ctx context.Context, c *console.Console, config *rest.Config, file string) error {
	return restore(ctx, c, config, file, transfer.RestoreOptions{NodeAnnotations: simulated})
}

// restore creates the objects of a file, and reports what it did.
func restore(ctx context.Context, c *console.Console, config *rest.Config, file string, o transfer.RestoreOptions) error {
	in, err := c.Open(file)
	if err != nil {
		return err
	}
	defer in.Close()
	p := &progress{line: c.NewProgress(), now: c.Now}
	p.line.Show("Reading %s ...", file)
	o.Progress = p.show
	o.Warn = func(format string, args ...any) { p.say(c, "Warning: "+format, args...) }
	begin := c.Now()
	result, err := transfer.Restore(ctx, config, in, o)
	p.line.Clear()
	seconds := c.Now().Sub(begin).Seconds()
	var bad *snapshot.FormatError
	var option *transfer.OptionError
	switch {
	case errors.As(err, &option):
		return console.Usagef("--only: %v; nothing was restored", option)
	case errors.As(err, &bad):
		return &console.InconclusiveError{Message: fmt.Sprintf("%s: %v; nothing was restored", file, bad)}
	case ctx.Err() != nil:
		c.Say("Interrupted: %s", unfinished(result))
		return console.ErrInterrupted
	case err != nil:
		if result.Done() > 0 {
			c.Say("Stopped: %s", unfinished(result))
		}
		return fmt.Errorf("restore %s: %w", file, err)
	}
	if result.Header.SecretData == snapshot.DataOmitted {
		c.Say("Note: the file has no data of Secrets; each value is the word %q.", snapshot.SecretText)
	}
	if result.Changes > 0 {
		c.Say("Note: %s is a recording; this command ignores its %s, which 'rehearse snapshot replay' applies.", file, console.Count(result.Changes, "change"))
	}
	if result.NoEnd {
		noEnd(c, file, "objects")
	}
	if result.LeftOut > 0 {
		c.Say("Note: left out %s of %s that no restore can use, such as tokens, Events and what each cluster creates itself.", console.Count(result.LeftOut, "object"), file)
	}
	if result.Unselected > 0 {
		c.Say("Note: left out %s of %s that the flags do not select.", console.Count(result.Unselected, "object"), file)
	}
	for _, f := range result.Failures {
		c.Say("Failed: %s", f)
	}
	if n := result.Failed - len(result.Failures); n > 0 {
		c.Say("Failed: %d more", n)
	}
	c.Say("Restored %s of %s (%.1f s): %d created, %d updated, %d already existed, %d failed.", file, console.Count(result.Total, "object"), seconds,
		result.Created, result.Updated, result.Existed, result.Failed)
	if result.Failed > 0 {
		return fmt.Errorf("restore %s: %d of %d objects failed; first %s", file, result.Failed, result.Total, result.Failures[0])
	}
	return nil
}

// noEnd says that a file could be cut off.
func noEnd(c *console.Console, file, what string) {
	c.Say("Note: %s has no header, as the files of KWOK; such a file does not mark its end, so %s may be missing or incomplete there.", file, what)
}

// unfinished says what a restore that stopped has done.
func unfinished(r transfer.RestoreResult) string {
	return fmt.Sprintf("%d of %d objects are restored; the same command with --if-exists=skip (the default) restores the others.", r.Done(), r.Total)
}

// progress is the line that shows how much is restored, and when the rest is expected to be.
type progress struct {
	line *console.Progress
	now  func() time.Time

	mu          sync.Mutex
	begin, last time.Time
}

// show shows how many objects are restored.
func (p *progress) show(done, total int) {
	p.mu.Lock()
	now := p.now()
	if p.begin.IsZero() {
		p.begin = now
	}
	elapsed := now.Sub(p.begin)
	p.mu.Unlock()
	p.update("Restoring: %d/%d%s", done, total, console.Remaining(elapsed, done, total))
}

// update replaces the line at most ten times per second.
func (p *progress) update(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	if now.Sub(p.last) < 100*time.Millisecond {
		return
	}
	p.last = now
	p.line.Show(format, args...)
}

// say writes a line above the progress.
func (p *progress) say(c *console.Console, format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.line.Clear()
	c.Say(format, args...)
}
