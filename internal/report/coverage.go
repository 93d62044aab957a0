package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/rehearse-k8s/rehearse/internal/coverage"
)

// The coverage of the search that found a failure is stored next to it in HASH.coverage.json, and that of a search whose passing runs
// are stored, in the file of that name in their directory.
const (
	coverageSuffix = ".coverage.json"
	coverageOfAll  = "coverage.json"
)

// CoverageFile returns the file of the coverage of the search that found a failure.
func CoverageFile(failure string) string {
	return strings.TrimSuffix(failure, keptSuffix) + coverageSuffix
}

// CoverageFileIn returns the file of the coverage of the search whose passing runs are in a directory.
func CoverageFileIn(dir string) string { return filepath.Join(dir, coverageOfAll) }

// WriteCoverage writes the coverage of a search to a file with mode 0600, a kind of write on each line. It replaces the file as a whole.
func WriteCoverage(file string, all []coverage.Row) error {
	var b bytes.Buffer
	lines := json.NewEncoder(&b)
	lines.SetEscapeHTML(false)
	for n, c := range all {
		b.WriteString(map[bool]string{true: "[", false: ","}[n == 0])
		if err := lines.Encode(c); err != nil {
			return err
		}
	}
	if len(all) == 0 {
		b.WriteString("[")
	}
	b.WriteString("]\n")
	return replaceFile(file, func(f *os.File) error { _, err := f.Write(b.Bytes()); return err })
}

// ReadCoverage reads the coverage of the search that a recorded run comes from; nil if none is stored.
func ReadCoverage(run string) ([]coverage.Row, error) {
	for _, file := range []string{CoverageFile(run), CoverageFileIn(filepath.Dir(run))} {
		data, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		var all []coverage.Row
		if err == nil {
			err = json.Unmarshal(data, &all)
		}
		if err != nil {
			return nil, fmt.Errorf("read the coverage of the search %s: %w", file, err)
		}
		return all, nil
	}
	return nil, nil
}
