package statedir

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Stopped is what is kept of a cluster that 'rehearse stop' has stopped.
type Stopped struct {
	Name string `json:"name"`
	// At is the time of the stop.
	At time.Time `json:"at"`
	// DataDir contains the objects.
	DataDir string `json:"dataDir"`
	// Failed is true if the cluster failed or was killed, so that 'rehearse up' with the same data directory starts it too.
	Failed bool `json:"failed,omitempty"`
	// Port is the port that the API server had, 0 if unknown. Copies of the kubeconfig contain it.
	Port int `json:"port,omitempty"`
	// Config is the effective configuration, as YAML of kind Cluster.
	Config string `json:"config"`
}

const stoppedSuffix = ".json"

func (r Root) stoppedPath(name string) string {
	return filepath.Join(string(r), "stopped", name+stoppedSuffix)
}

// SaveStopped keeps a stopped cluster, accessible only by its owner.
func (r Root) SaveStopped(s Stopped) error {
	path := r.stoppedPath(s.Name)
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	err = os.MkdirAll(filepath.Dir(path), 0o700)
	if err == nil {
		err = os.WriteFile(path+".new", append(data, '\n'), 0o600)
	}
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		return fmt.Errorf("state directory: %w", err)
	}
	return nil
}

// LoadStopped returns the stopped cluster of a name, or nil if there is none.
func (r Root) LoadStopped(name string) (*Stopped, error) {
	path := r.stoppedPath(name)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var s Stopped
	if err == nil {
		err = json.Unmarshal(data, &s)
	}
	if err != nil {
		return nil, fmt.Errorf("stopped cluster %q: %s: %w; remove it with 'rehearse down %s'", name, path, err, name)
	}
	s.Name = name
	return &s, nil
}

// RemoveStopped removes what is kept of a stopped cluster, and reports whether there was anything.
func (r Root) RemoveStopped(name string) (bool, error) {
	err := os.Remove(r.stoppedPath(name))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// StoppedNames are the names of the stopped clusters, sorted.
func (r Root) StoppedNames() ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(string(r), "stopped"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("state directory: %w", err)
	}
	var out []string
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), stoppedSuffix); ok {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out, nil
}
