package snapshot

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"

	"github.com/rehearse-k8s/rehearse/internal/cli/console"
	"github.com/rehearse-k8s/rehearse/internal/cli/target"
	"github.com/rehearse-k8s/rehearse/internal/snapshot"
	"github.com/rehearse-k8s/rehearse/internal/snapshot/transfer"
	"github.com/rehearse-k8s/rehearse/internal/version"
)

// saveFlags are the flags of save.
type saveFlags struct {
	cluster   target.Flags
	selection transfer.SaveOptions
	overwrite bool
	// The flags of export and record.
	export         bool
	user           rest.ImpersonationConfig
	withSecretData bool
}

func saveCommand(c *console.Console) *cobra.Command {
	o := &saveFlags{}
	cmd := &cobra.Command{
		Use:   "save FILE",
		Short: "Save the objects of a cluster to a file",
		Long: `Save the objects of a cluster to FILE: all kinds that the API server lists and that can be created, with their status.

Without --name, --kubeconfig and --context, the cluster is the one that 'rehearse kubectl' uses. save leaves out what no restore can use:
Events, Leases, tokens of service accounts, and objects that the API server or a controller of every cluster creates. The objects of one
kind are those of one moment; for a snapshot of one moment, nothing may change while save runs.

FILE contains the data of Secrets, and only its owner can read it.

A FILE named NAME.store or NAME.store.gz is the whole store of a cluster of rehearse, at one moment. Only 'rehearse up --from FILE' reads it; it is
much faster with many objects, which keep their UIDs.`,
		Example: `  rehearse snapshot save cluster.yaml
  rehearse snapshot save cluster.store.gz
  rehearse snapshot save pods.jsonl.gz --only nodes,pods
  rehearse snapshot save shop.yaml --namespace shop --selector app=web`,
		Args: oneFile,
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd, c, args[0]) },
	}
	o.addFlags(cmd, c)
	return cmd
}

func exportCommand(c *console.Console) *cobra.Command {
	o := &saveFlags{}
	cmd := &cobra.Command{
		Use:   "export FILE",
		Short: "Save the objects of a cluster to a file, without the data of Secrets",
		Long: `Save the objects of a cluster to FILE like 'rehearse snapshot save', but with a placeholder in place of each value of a Secret, and
on request with the permissions of another user (--as). A kind that this user may not list is left out with a warning, unless --only names it.

Values that are secret in other kinds, such as ConfigMaps or environment variables of pods, are part of FILE.`,
		Example: `  rehearse snapshot export --context prod prod.yaml.gz
  rehearse snapshot export --context prod prod.yaml --as system:serviceaccount:audit:reader --namespace shop
  rehearse up --from prod.yaml.gz`,
		Args: oneFile,
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd, c, args[0]) },
	}
	o.addFlags(cmd, c)
	o.addExportFlags(cmd)
	return cmd
}

// addExportFlags adds the flags of commands that omit the data of Secrets by default.
func (o *saveFlags) addExportFlags(cmd *cobra.Command) {
	o.export = true
	f := cmd.Flags()
	f.StringVar(&o.user.UserName, "as", "", "user to impersonate")
	f.StringArrayVar(&o.user.Groups, "as-group", nil, "group to impersonate; can be repeated")
	f.BoolVar(&o.withSecretData, "with-secret-data", false, "save the data of Secrets")
}

func (o *saveFlags) addFlags(cmd *cobra.Command, c *console.Console) {
	o.cluster.AddFlags(cmd, c.Getenv)
	f, s := cmd.Flags(), &o.selection
	addSelectionFlags(cmd, &s.Selection, "save")
	f.Int64Var(&s.PageSize, "page-size", transfer.PageSize, "objects per list request")
	f.BoolVar(&o.overwrite, "overwrite", false, "replace FILE if it exists")
}

func (o *saveFlags) validate(cmd *cobra.Command) error {
	s := &o.selection
	if err := validateSelection(cmd, s.Selection); err != nil {
		return err
	}
	if s.PageSize < 1 {
		return console.Usagef("--page-size %d: must be at least 1", s.PageSize)
	}
	if !o.export {
		return nil
	}
	if o.user.UserName == "" && len(o.user.Groups) > 0 {
		return console.Usagef("--as-group requires --as")
	}
	s.OmitSecretData = !o.withSecretData
	return console.RejectEmpty(cmd, "as", "as-group")
}

// prepare checks the flags and the name of the file, and returns the configuration of the cluster.
func (o *saveFlags) prepare(cmd *cobra.Command, c *console.Console, file string) (*rest.Config, error) {
	if err := o.validate(cmd); err != nil {
		return nil, err
	}
	if format, _ := snapshot.FormatOf(file); format == snapshot.Store {
		if err := o.rejectSelection(cmd); err != nil {
			return nil, err
		}
	}
	if err := checkFree(file, o.overwrite); err != nil {
		return nil, err
	}
	config, err := o.cluster.Config(cmd, c.Getenv)
	if err == nil && o.user.UserName != "" {
		config.Impersonate = o.user
	}
	return config, err
}

func (o *saveFlags) run(cmd *cobra.Command, c *console.Console, file string) error {
	config, err := o.prepare(cmd, c, file)
	if err != nil {
		return err
	}
	ctx, stop := c.Interruptible(cmd.Context())
	defer stop()
	if format, compressed := snapshot.FormatOf(file); format == snapshot.Store {
		return saveStore(ctx, c, config, file, compressed, o.overwrite)
	}
	return o.save(ctx, c, config, file)
}

func (o *saveFlags) save(ctx context.Context, c *console.Console, config *rest.Config, file string) error {
	begin, p, s := c.Now(), c.NewProgress(), o.selection
	s.Header = snapshot.Header{Created: begin.UTC().Format(time.RFC3339), RehearseVersion: version.Get().Version}
	s.Progress = func(resource string, done, total int) { p.Show("Saving %s: %d/%d", resource, done, total) }
	s.Warn = func(format string, args ...any) {
		p.Clear()
		c.Say("Warning: "+format, args...)
	}
	format, compressed := snapshot.FormatOf(file)
	var result transfer.SaveResult
	size, err := replaceFile(file, o.overwrite, c.Out, func(w io.Writer) (err error) {
		result, err = transfer.Save(ctx, config, w, format, compressed, s)
		return err
	})
	p.Clear()
	var bad *transfer.OptionError
	switch {
	case err == nil:
	case isExists(err):
		return err
	case ctx.Err() != nil:
		c.Say("Interrupted: %s was not written.", file)
		return console.ErrInterrupted
	case errors.As(err, &bad):
		return console.Usagef("--only: %v", bad)
	default:
		return err
	}
	c.Say("Saved %s of %s to %s (%s, %.1f s); left out %s that a restore cannot use.", console.Count(result.Objects, "object"),
		console.Count(result.Kinds, "kind"), file, humanize.Bytes(uint64(size)), c.Now().Sub(begin).Seconds(), console.Count(result.LeftOut, "object"))
	return nil
}
