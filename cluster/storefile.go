package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"k8s.io/apimachinery/pkg/util/version"

	"github.com/rehearse-k8s/rehearse/internal/apiserver"
	"github.com/rehearse-k8s/rehearse/internal/snapshot"
)

// openStoreFile opens the file of a store. It reads the whole file first, so that nothing is written if the file is damaged.
func openStoreFile(ctx context.Context, name string) (content *snapshot.StoreReader, closes io.Closer, err error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, nil, usage("--from: %v", err)
	}
	err = checkStoreFile(ctx, name, f)
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err == nil {
		content, err = snapshot.NewStoreReader(f)
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return content, f, nil
}

func checkStoreFile(ctx context.Context, name string, f io.Reader) error {
	r, err := snapshot.NewStoreReader(f)
	for err == nil && ctx.Err() == nil {
		_, _, err = r.Next()
	}
	if err == nil {
		return ctx.Err()
	}
	if err != io.EOF {
		return fmt.Errorf("%s: %w; the cluster was not started", name, err)
	}
	saved, err := version.ParseGeneric(r.Header().KubernetesVersion)
	if err != nil {
		return fmt.Errorf("%s: %w; the cluster was not started", name, &snapshot.FormatError{Message: "its kubernetesVersion: " + err.Error()})
	}
	if own := version.MustParseGeneric(apiserver.KubernetesVersion); saved.Major() != own.Major() || saved.Minor() > own.Minor() {
		return fmt.Errorf("%s: %w", name, &snapshot.FormatError{Message: fmt.Sprintf(
			"it is the store of Kubernetes %s, and this program is %s, which may not read newer objects: use a newer rehearse; the cluster was not started",
			r.Header().KubernetesVersion, apiserver.KubernetesVersion)})
	}
	return nil
}

// storeError names the option of a store that cannot be used.
func storeError(err error, o Options) error {
	switch {
	case errors.Is(err, apiserver.ErrNotEmpty):
		return usage("--from: %v; it must be that of a new cluster", err)
	case errors.Is(err, apiserver.ErrPart) && o.DataDir != "":
		return fmt.Errorf("data directory %s: %w", o.DataDir, err)
	}
	return err
}
