package target

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/rehearse-k8s/rehearse/internal/cli/statedir"
)

// StartRecord returns the record of the running cluster on this machine with this name and URL, nil if it does not exist.
func StartRecord(name, url string, getenv func(string) string) *statedir.Record {
	root, err := statedir.DefaultRoot(getenv)
	if err != nil {
		return nil
	}
	e, ok, err := root.Look(name)
	if err != nil || !ok || !e.Live || e.Record == nil || e.Record.URL != url {
		return nil
	}
	return e.Record
}

// IsStartedHere reports whether a configuration leads to a cluster that 'rehearse up' started on this machine: it has the
// same address and the same certificate authority.
func IsStartedHere(config *rest.Config, getenv func(string) string) bool {
	root, err := statedir.DefaultRoot(getenv)
	if err != nil {
		return false
	}
	files, _ := filepath.Glob(root.KubeconfigPath("*"))
	for _, file := range files {
		started, err := clientcmd.BuildConfigFromFlags("", file)
		if err == nil && started.Host == config.Host && hasSameAuthority(started, config) {
			return true
		}
	}
	return false
}

func hasSameAuthority(a, b *rest.Config) bool {
	one, err := authority(a)
	if err != nil || len(one) == 0 {
		return false
	}
	other, err := authority(b)
	return err == nil && bytes.Equal(one, other)
}

func authority(c *rest.Config) ([]byte, error) {
	if len(c.CAData) > 0 || c.CAFile == "" {
		return c.CAData, nil
	}
	data, err := os.ReadFile(c.CAFile)
	if err != nil {
		return nil, fmt.Errorf("certificate authority: %w", err)
	}
	return data, nil
}
