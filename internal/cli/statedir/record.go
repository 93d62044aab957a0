package statedir

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// The states that a live cluster's record can be in.
const (
	Starting = "starting"
	Running  = "running"
)

// Record is the contents of state.json.
type Record struct {
	Name   string `json:"name"`
	Status string `json:"status"`
	// PID and ProcessStart together identify the process: IDs are used again.
	PID          int       `json:"pid"`
	ProcessStart string    `json:"processStart,omitempty"`
	Started      time.Time `json:"started"`
	URL          string    `json:"url,omitempty"`
	Context      string    `json:"context,omitempty"`
	// KubeconfigFiles are the files kubectl reads, KubeconfigPath the one among them that has our entries.
	KubeconfigFiles []string `json:"kubeconfigFiles,omitempty"`
	KubeconfigPath  string   `json:"kubeconfigPath,omitempty"`
	DataDir         string   `json:"dataDir,omitempty"`
	// Stages is the value of --stages, with absolute paths.
	Stages []string `json:"stages,omitempty"`
	// StageSums are the SHA-256 of those files.
	StageSums map[string]string `json:"stageSums,omitempty"`
	Version   string            `json:"version,omitempty"`
}

// Self returns the initial record of the calling process.
func Self(name string, now time.Time) Record {
	pid := os.Getpid()
	return Record{Name: name, Status: Starting, PID: pid, ProcessStart: processStart(pid), Started: now.UTC().Truncate(time.Second)}
}

// Alive reports whether the process that wrote the record still runs.
func (r Record) Alive() bool {
	return r.PID > 0 && processExists(r.PID) && processStart(r.PID) == r.ProcessStart
}

// readRecord returns nil for a directory that has none.
func readRecord(dir string) (*Record, error) {
	data, err := os.ReadFile(filepath.Join(dir, recordFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var r Record
	if err := json.Unmarshal(data, &r); err != nil {
		return nil, fmt.Errorf("%s is corrupt: %w", filepath.Join(dir, recordFile), err)
	}
	return &r, nil
}

// writeRecord replaces state.json atomically, because readers take no lock.
func writeRecord(dir string, r Record) error {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	tmp := filepath.Join(dir, recordFile+".new")
	if err := os.WriteFile(tmp, append(data, '\n'), 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, filepath.Join(dir, recordFile))
}

// Checksums are the SHA-256, in hexadecimal, of those files that can be read.
func Checksums(files []string) map[string]string {
	out := map[string]string{}
	for _, name := range files {
		if data, err := os.ReadFile(name); err == nil {
			out[name] = fmt.Sprintf("%x", sha256.Sum256(data))
		}
	}
	return out
}
