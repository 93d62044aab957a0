package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"

	"github.com/rehearse-k8s/rehearse/internal/cli/console"
	"github.com/rehearse-k8s/rehearse/internal/snapshot"
)

// CheckFrom checks the beginning of the file of --from, so that no cluster is started for one that is no snapshot. isStore reports whether it is the
// snapshot of a whole store, with which only a new cluster can begin: by its content, and by its name if the content is damaged. It does not read from a
// file that can be read only once, such as a pipe.
func CheckFrom(file string) (isStore bool, err error) {
	info, err := os.Stat(file)
	if err != nil {
		return false, console.Usagef("--from: %v", err)
	}
	if format, _ := snapshot.FormatOf(file); format == snapshot.Store || !info.Mode().IsRegular() {
		return format == snapshot.Store, nil
	}
	f, err := os.Open(file)
	if err != nil {
		return false, console.Usagef("--from: %v", err)
	}
	defer f.Close()
	if snapshot.IsStore(f) {
		return true, nil
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return false, err
	}
	r, err := snapshot.NewReader(f)
	if err == nil { // a file of KWOK has no header: its first object shows what it is
		_, err = r.Next()
	}
	var bad *snapshot.FormatError
	switch {
	case errors.As(err, &bad):
		return false, &console.InconclusiveError{Message: fmt.Sprintf("--from %s: %v; no cluster was started", file, bad)}
	case err != nil && err != io.EOF:
		return false, console.Usagef("--from: %v", err)
	}
	return false, nil
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
func saveStore(ctx context.Context, c *console.Console, config *rest.Config, file string, compressed, overwrite bool) error {
	begin, p := c.Now(), &progress{line: c.NewProgress(), now: c.Now}
	var pairs int
	size, err := replaceFile(file, overwrite, c.Out, func(w io.Writer) (err error) {
		pairs, err = copyStore(ctx, config, w, compressed, func(pairs int) { p.update("Saving the store: %d objects", pairs) })
		return err
	})
	p.line.Clear()
	switch {
	case err == nil:
	case isExists(err):
		return err
	case ctx.Err() != nil:
		c.Say("Interrupted: %s was not written.", file)
		return console.ErrInterrupted
	default:
		return err
	}
	c.Say("Saved the store with %s to %s (%s, %.1f s); a new cluster begins with it: rehearse up --from %s", console.Count(pairs, "object"), file,
		humanize.Bytes(uint64(size)), c.Now().Sub(begin).Seconds(), file)
	return nil
}

// copyStore writes the content of a cluster's store, and returns the number of its keys.
func copyStore(ctx context.Context, config *rest.Config, w io.Writer, compressed bool, progress func(pairs int)) (int, error) {
	client, err := rest.HTTPClientFor(config) // other clients limit the time of a request
	if err != nil {
		return 0, err
	}
	server, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return 0, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, server.JoinPath(snapshot.StorePath).String(), nil)
	if err != nil {
		return 0, err
	}
	answer, err := client.Do(request)
	if err != nil {
		return 0, err
	}
	in := answer.Body
	defer in.Close()
	switch answer.StatusCode {
	case http.StatusOK:
	case http.StatusNotFound:
		return 0, errors.New("this cluster does not serve its store, because it is not one of 'rehearse up'; choose a file name that ends with .yaml or .jsonl")
	case http.StatusForbidden:
		return 0, errors.New("the store can be saved only by an administrator (group system:masters), or with permission to get the nonResourceURL " + snapshot.StorePath)
	default:
		return 0, fmt.Errorf("get %s: %s", snapshot.StorePath, answer.Status)
	}
	r, err := snapshot.NewStoreReader(in)
	if err != nil {
		return 0, err
	}
	out, err := snapshot.NewStoreWriter(w, compressed, r.Header())
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
