package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"

	"github.com/rehearse-k8s/rehearse/internal/cli/console"
	"github.com/rehearse-k8s/rehearse/internal/snapshot"
	"github.com/rehearse-k8s/rehearse/internal/snapshot/transfer"
	"github.com/rehearse-k8s/rehearse/internal/version"
)

func recordCommand(c *console.Console) *cobra.Command {
	o := &saveFlags{}
	var lasts time.Duration
	cmd := &cobra.Command{
		Use:   "record FILE",
		Short: "Save the objects of a cluster to a file, and then their changes until Ctrl-C",
		Long: `Save the objects of a cluster to FILE like 'rehearse snapshot export', and then append each change of them with its time, until Ctrl-C or
for the time of --for. 'rehearse snapshot replay' applies the changes to another cluster.

No change between the list of a kind and its watch is missed. FILE is written when the recording ends. The values of Secrets are replaced by a
placeholder. The objects of a kind that is defined during the recording are not recorded.`,
		Example: `  rehearse snapshot record shop.yaml --namespace shop
  rehearse snapshot record prod.jsonl.gz --context prod --for 10m
  rehearse snapshot replay shop.yaml --name other --speed 2`,
		Args: oneFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			if lasts < 0 || lasts == 0 && cmd.Flags().Changed("for") {
				return console.Usagef("--for %s: must be positive", lasts)
			}
			config, err := o.prepare(cmd, c, args[0])
			if err != nil {
				return err
			}
			ctx, stop := c.Interruptible(cmd.Context())
			defer stop()
			return o.record(ctx, c, config, args[0], lasts)
		},
	}
	o.addFlags(cmd, c)
	o.addExportFlags(cmd)
	cmd.Flags().DurationVar(&lasts, "for", 0, "end the recording after this time (default: Ctrl-C ends it)")
	return cmd
}

func (o *saveFlags) record(ctx context.Context, c *console.Console, config *rest.Config, file string, lasts time.Duration) error {
	p := &progress{line: c.NewProgress(), now: c.Now}
	s := transfer.RecordOptions{SaveOptions: o.selection, For: lasts}
	s.Header = snapshot.Header{Created: c.Now().UTC().Format(time.RFC3339), RehearseVersion: version.Get().Version}
	s.Progress = func(resource string, done, total int) { p.line.Show("Saving %s: %d/%d", resource, done, total) }
	s.Warn = func(format string, args ...any) { p.say(c, "Warning: "+format, args...) }
	begin := c.Now()
	s.Started = func(objects int) {
		begin = c.Now()
		until := "Ctrl-C ends the recording"
		if lasts > 0 {
			until = fmt.Sprintf("for %s, or until Ctrl-C", lasts)
		}
		p.say(c, "Recording the changes of %s; %s.", console.Count(objects, "object"), until)
	}
	s.Recorded = func(changes int, _ snapshot.Change) {
		p.update("Recording: %s in %s", console.Count(changes, "change"), c.Now().Sub(begin).Round(time.Second))
	}
	format, compressed := snapshot.FormatOf(file)
	var result transfer.RecordResult
	size, err := replaceFile(file, o.overwrite, c.Out, func(w io.Writer) (err error) {
		result, err = transfer.Record(ctx, config, w, format, compressed, s)
		return err
	})
	p.line.Clear()
	var bad *transfer.OptionError
	switch {
	case err == nil:
	case ctx.Err() != nil && !result.Started:
		c.Say("Interrupted: %s was not written.", file)
		return console.ErrInterrupted
	case errors.As(err, &bad):
		return console.Usagef("--only: %v", bad)
	default:
		return err
	}
	c.Say("Recorded %s of %s to %s (%s, %.1f s).", console.Count(result.Changes, "change"), console.Count(result.Objects, "object"), file,
		humanize.Bytes(uint64(size)), c.Now().Sub(begin).Seconds())
	return nil
}
