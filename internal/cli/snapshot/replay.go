package snapshot

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"

	"github.com/rehearse-k8s/rehearse/internal/cli/console"
	"github.com/rehearse-k8s/rehearse/internal/snapshot"
	"github.com/rehearse-k8s/rehearse/internal/snapshot/transfer"
)

// maxShown is the number of failed changes that are listed.
const maxShown = 20

// replayFlags are the flags of replay.
type replayFlags struct {
	restoreFlags
	speed float64
	step  bool
}

func replayCommand(c *console.Console) *cobra.Command {
	o := &replayFlags{}
	cmd := &cobra.Command{
		Use:   "replay FILE",
		Short: "Create the objects of a recording in a cluster, and apply its changes at their times",
		Long: `Create the objects of FILE, which 'rehearse snapshot record' wrote, like 'rehearse snapshot restore', and then apply each change at its time.
FILE can also be a recording of KWOK (kwokctl snapshot export --record).

On a terminal, keys control the replay: space pauses and continues, n applies the next change now, + and - double and halve the speed, q stops.

Controllers of the cluster act on the objects too, and may make changes of the recording fail. To see exactly the recorded objects, replay into a
cluster without controllers, such as one of 'rehearse up --controllers=serviceaccount-controller --nodes=0'.`,
		Example: `  rehearse snapshot replay shop.yaml
  rehearse snapshot replay shop.yaml --speed 10 --context kind-kind
  rehearse snapshot replay shop.yaml --step`,
		Args: oneFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			if !(o.speed >= snapshot.MinSpeed && o.speed <= snapshot.MaxSpeed) {
				return console.Usagef("--speed %v: must be from %v to %v", o.speed, snapshot.MinSpeed, snapshot.MaxSpeed)
			}
			if o.step && args[0] == console.Stdin {
				return console.Usagef("--step reads Enter from standard input, which cannot be FILE as well")
			}
			config, r, err := o.prepare(cmd, c)
			if err != nil {
				return err
			}
			keys := &keys{}
			c := keys.console(c)
			ctx, stop := c.Interruptible(cmd.Context())
			defer stop()
			return o.replay(ctx, c, keys, config, args[0], r)
		},
	}
	o.addFlags(cmd, c)
	cmd.Flags().Float64Var(&o.speed, "speed", 1, "seconds of the recording per second")
	cmd.Flags().BoolVar(&o.step, "step", false, "begin paused; each Enter applies the next change")
	return cmd
}

func (o *replayFlags) replay(ctx context.Context, c *console.Console, keys *keys, config *rest.Config, file string, r transfer.RestoreOptions) error {
	in, err := c.Open(file)
	if err != nil {
		return err
	}
	defer in.Close()
	ctx, interrupt := context.WithCancel(ctx)
	defer interrupt()
	p := &progress{line: c.NewProgress(), now: c.Now}
	keys.interrupt = interrupt
	if file != console.Stdin {
		// The keys of a terminal are read from here on; c writes lines that fit its mode.
		if c, err = keys.listen(ctx, c, o.step); err != nil {
			return err
		}
	}
	defer keys.restore()
	p.line.Show("Reading %s ...", file)
	r.Progress = p.show
	r.Warn = func(format string, args ...any) { p.say(c, "Warning: "+format, args...) }
	failed := 0
	s := transfer.ReplayOptions{RestoreOptions: r, Speed: o.speed, Step: o.step, Controls: keys.controls()}
	s.Started = func(r transfer.RestoreResult) {
		for _, f := range r.Failures {
			p.say(c, "Failed: %s", f)
		}
		hint := ""
		switch {
		case keys.raw:
			hint = " (space: pause and continue, n: next change, + and -: speed, q: stop)"
		case o.step:
			hint = " (Enter: next change)"
		}
		p.say(c, "Restored %s; replaying %s%s.", console.Count(r.Done(), "object"), console.Count(r.Changes, "change"), hint)
	}
	s.Replaying = func(r transfer.ReplayProgress) {
		state := fmt.Sprintf("speed %.3g", r.Speed)
		if r.Paused {
			state = "paused"
		}
		p.update("Replaying: %d/%d changes, %s, %s", r.Sent, r.Changes, r.Position.Round(100*time.Millisecond), state)
	}
	s.Failed = func(change snapshot.Change, err error) {
		if failed++; failed <= maxShown {
			p.say(c, "Failed: document %d: %s %s: %v", change.Document, change.Method, change, err)
		}
	}
	begin := c.Now()
	result, err := transfer.Replay(ctx, config, in, s)
	p.line.Clear()
	var bad *snapshot.FormatError
	if errors.As(err, &bad) {
		return &console.InconclusiveError{Message: fmt.Sprintf("%s: %v; nothing was restored", file, bad)}
	}
	if result.Restored.NoEnd {
		noEnd(c, file, "changes")
	}
	if n := failed - maxShown; n > 0 {
		c.Say("Failed: %s more", console.Count(n, "change"))
	}
	end := "Replayed"
	if result.Stopped || err != nil {
		end = "Stopped: replayed"
	}
	if result.Restored.Changes > 0 || err == nil {
		c.Say("%s %d of %s of %s (%.1f s): %d applied, %d deletions of absent objects, %d left out, %d failed; the latest was %d ms late.", end, result.Done(), console.Count(result.Restored.Changes, "change"),
			file, c.Now().Sub(begin).Seconds(), result.Applied, result.Absent, result.LeftOut, result.Failed, result.Late.Milliseconds())
	}
	switch {
	case ctx.Err() != nil:
		return console.ErrInterrupted
	case err != nil:
		return fmt.Errorf("replay %s: %w", file, err)
	case result.Restored.Failed > 0:
		return fmt.Errorf("replay %s: %d objects were not restored and %d changes failed; first %s", file, result.Restored.Failed, result.Failed, result.Restored.Failures[0])
	case result.Failed > 0:
		return fmt.Errorf("replay %s: %s failed", file, console.Count(result.Failed, "change"))
	}
	return nil
}
