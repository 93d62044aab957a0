package snapshot

import (
	"context"
	"errors"
	"io"
	"os"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/rehearse-k8s/rehearse/internal/cli/console"
	"github.com/rehearse-k8s/rehearse/internal/snapshot"
)

// IsStore reports whether a file is the snapshot of a whole store, with which only a new cluster can begin.
func IsStore(file string) (bool, error) {
	f, err := os.Open(file)
	if err != nil {
		return false, err
	}
	defer f.Close()
	return snapshot.IsStore(f), nil
}

// rejectSelection rejects flags that have no effect on the snapshot of a whole store.
func (o *saveFlags) rejectSelection(cmd *cobra.Command) error {
	if o.export {
		return console.Usagef("%s: a store contains the data of Secrets, and no changes; choose a file name that ends with .yaml or .jsonl, or use 'rehearse snapshot save'", cmd.Flags().Arg(0))
	}
	for _, name := range []string{"only", "namespace", "selector", "page-size"} {
		if cmd.Flags().Changed(name) {
			return console.Usagef("--%s: a file name that ends with .store saves the whole store; choose one that ends with .yaml or .jsonl to save a part", name)
		}
	}
	return nil
}

// saveStore saves the content of the store of one of our clusters.
func (o *saveFlags) saveStore(ctx context.Context, c *console.Console, config *rest.Config, file string, compressed bool) error {
	begin, p := c.Now(), &progress{line: c.NewProgress(), now: c.Now}
	var pairs int
	size, err := replaceFile(file, c.Out, func(w io.Writer) (err error) {
		pairs, err = copyStore(ctx, config, w, compressed, func(pairs int) { p.update("Saving the store: %d objects", pairs) })
		return err
	})
	p.line.Clear()
	switch {
	case ctx.Err() != nil:
		c.Say("Interrupted: %s was not written.", file)
		return console.ErrInterrupted
	case err != nil:
		return err
	}
	c.Say("Saved the store with %s to %s (%s, %.1f s); a new cluster begins with it: rehearse up --from %s", console.Count(pairs, "object"), file,
		humanize.Bytes(uint64(size)), c.Now().Sub(begin).Seconds(), file)
	return nil
}

// copyStore writes the content of a cluster's store, and returns the number of its keys.
func copyStore(ctx context.Context, config *rest.Config, w io.Writer, compressed bool, progress func(pairs int)) (int, error) {
	config = rest.CopyConfig(config)
	config.Timeout = 0
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return 0, err
	}
	in, err := client.RESTClient().Get().AbsPath(snapshot.StorePath).Stream(ctx)
	switch {
	case apierrors.IsNotFound(err):
		return 0, errors.New("this cluster does not serve its store, because it is not one of 'rehearse up'; choose a file name that ends with .yaml or .jsonl")
	case apierrors.IsForbidden(err):
		return 0, errors.New("the store can be saved only by an administrator (group system:masters), or with permission to get the nonResourceURL " + snapshot.StorePath + ": " + err.Error())
	case err != nil:
		return 0, err
	}
	defer in.Close()
	r, err := snapshot.NewStoreReader(in)
	if err != nil {
		return 0, err
	}
	h := r.Header()
	h.Created = time.Now().UTC().Format(time.RFC3339)
	out, err := snapshot.NewStoreWriter(w, compressed, h)
	if err != nil {
		return 0, err
	}
	for {
		key, value, err := r.Next()
		if err == io.EOF {
			return r.Pairs(), out.Close()
		}
		if err != nil {
			return 0, err
		}
		if err := out.Write(key, value); err != nil {
			return 0, err
		}
		progress(r.Pairs())
	}
}
