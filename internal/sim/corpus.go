package sim

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/history"
)

// storedPlan is a plan of a corpus: a line of JSON.
type storedPlan struct {
	Seed     uint64           `json:"seed"`
	Faults   []string         `json:"faults,omitempty"`
	Schedule history.Schedule `json:"schedule,omitzero"`
}

// WriteCorpus writes the plans of a corpus, a line each.
func WriteCorpus(w io.Writer, plans []Plan) error {
	lines := json.NewEncoder(w)
	for _, p := range plans {
		if err := lines.Encode(storedPlan{Seed: p.Seed, Faults: fault.Strings(p.Faults), Schedule: p.Schedule}); err != nil {
			return err
		}
	}
	return nil
}

// maxCorpusLine limits a line of a corpus, in bytes.
const maxCorpusLine = 1 << 20

// ReadCorpus reads the plans that WriteCorpus has written. The error names the line.
func ReadCorpus(r io.Reader) (plans []Plan, err error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxCorpusLine)
	for n := 1; lines.Scan(); n++ {
		var s storedPlan
		decoder := json.NewDecoder(bytes.NewReader(lines.Bytes()))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&s); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		p := Plan{Seed: s.Seed, Schedule: s.Schedule}
		for _, text := range s.Faults {
			f, err := fault.Parse(text)
			if err != nil {
				return nil, fmt.Errorf("line %d: %w", n, err)
			}
			p.Faults = append(p.Faults, f)
		}
		plans = append(plans, p)
	}
	return plans, lines.Err()
}

// corpusPlans returns the plans with faults or a schedule whose runs had new behaviour, the bases with the most energy
// first.
func (s *search) corpusPlans() (plans []Plan) {
	if s.guide == nil {
		return nil
	}
	bases := slices.Clone(s.guide.bases)
	slices.SortStableFunc(bases, func(a, b *base) int { return cmp.Compare(b.energy(), a.energy()) })
	for _, b := range bases {
		if p := b.out.Plan; len(p.Faults) > 0 || !p.Schedule.IsZero() {
			plans = append(plans, Plan{Seed: p.Seed, Faults: p.Faults, Schedule: p.Schedule})
		}
	}
	return plans
}

// corpusShare limits the plans of an earlier search to one in so many runs, so that a search also tries something new.
const corpusShare = 4

// ofCorpus yields the plans of earlier searches.
func (s *search) ofCorpus(yield func(Plan) bool) bool {
	for n, p := range s.options.Corpus {
		if n >= s.options.Runs/corpusShare {
			break
		}
		if slices.ContainsFunc(p.Faults, s.isExcluded) || s.tried[identity(p)] {
			continue
		}
		if !yield(p) {
			return false
		}
	}
	return true
}

// LoadCorpus reads a corpus from a file; none if the file does not exist.
func LoadCorpus(file string) ([]Plan, error) {
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	plans, err := ReadCorpus(bytes.NewReader(data))
	if err != nil {
		err = fmt.Errorf("read corpus %s: %w; remove the file to start without it", file, err)
	}
	return plans, err
}

// SaveCorpus writes the plans of a search to a file, and after them those of an earlier one that it did not play. It
// replaces the file as a whole: a crash or a second search at the same time leaves one of the two.
func SaveCorpus(file string, plans, earlier []Plan) error {
	known := map[string]bool{}
	var all []Plan
	for _, p := range append(slices.Clone(plans), earlier...) {
		if id := identity(p); !known[id] && len(all) < maxBases {
			known[id] = true
			all = append(all, p)
		}
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	next, err := os.CreateTemp(filepath.Dir(file), ".corpus-*")
	if err != nil {
		return err
	}
	defer os.Remove(next.Name())
	if err := errors.Join(WriteCorpus(next, all), next.Close()); err != nil {
		return err
	}
	return os.Rename(next.Name(), file)
}
