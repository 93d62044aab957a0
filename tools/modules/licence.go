package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/licensecheck"
)

// allowed are the licences of modules that may be linked: permissive ones, and one that requires
// only the sources of its own files.
var allowed = []string{"0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "CC0-1.0", "ISC", "MIT", "MPL-2.0", "Unlicense", "Zlib"}

// leastCovered is the minimum share of a licence file, in percent, that must match known licences.
// The other lines are names, years and headings.
const leastCovered = 75

// allowed returns an error if the module has a licence that is not allowed, or no known licence.
func (m module) allowed() error {
	if m.Unknown != "" {
		return fmt.Errorf("licence of %s@%s: %s", m.Path, m.Version, m.Unknown)
	}
	for _, l := range m.Licences {
		if !slices.Contains(allowed, l) {
			return fmt.Errorf("licence of %s@%s: %s is not allowed (allowed: %s)", m.Path, m.Version, l, strings.Join(allowed, ", "))
		}
	}
	return nil
}

// licencesIn returns the SPDX identifiers of all licences in the licence files at the
// top of a module.
func licencesIn(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var all []string
	for _, e := range entries {
		if e.IsDir() || !isLicence(e.Name()) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		cover := licensecheck.Scan(text)
		if cover.Percent < leastCovered {
			return nil, fmt.Errorf("%.0f %% of %s is the text of a known licence, want %d %%", cover.Percent, e.Name(), leastCovered)
		}
		for _, match := range cover.Match {
			all = append(all, match.ID)
		}
	}
	if len(all) == 0 {
		return nil, errors.New("no licence file")
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// isLicence reports whether a file contains the licence of a module's code. LICENSE.docs is the
// licence of the documentation, which is not in a binary.
func isLicence(name string) bool {
	name = strings.ToUpper(name)
	if strings.HasSuffix(name, ".DOCS") {
		return false
	}
	return slices.ContainsFunc([]string{"LICENSE", "LICENCE", "COPYING", "UNLICENSE"}, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}
