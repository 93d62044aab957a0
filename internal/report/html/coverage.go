package html

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/internal/coverage"
)

type (
	// coverageView is the table of what the search covered: a row for each kind of write.
	coverageView struct {
		Kinds []string
		Rows  []coverageRow
		More  string
	}
	coverageRow struct {
		Write  string
		Caches []cacheCoverage
		Cells  []coverageCell
	}
	// cacheCoverage is how far a cache was behind when such writes were decided.
	cacheCoverage struct {
		Resource, Behind, Relisted string
		// Late: it was behind in some run.
		Late, WasRelisted bool
	}
	// coverageCell is whether a fault acted on such writes. Reason says why not.
	coverageCell struct {
		Kind   string
		Tried  bool
		Reason string
	}
)

// coverageOf returns the table; nil if the coverage of the search is not known.
func coverageOf(all []coverage.Row, s size) *coverageView {
	if len(all) == 0 {
		return nil
	}
	v := &coverageView{}
	var kinds []fault.Kind
	for _, c := range all { // the faults are in the same order everywhere, but not each is in each list
		for _, k := range slices.Concat(c.Tried, c.NotTried, c.Impossible) {
			if !slices.Contains(kinds, k) {
				kinds = append(kinds, k)
			}
		}
	}
	slices.Sort(kinds)
	kinds = kinds[:min(len(kinds), maxKinds)]
	for _, k := range kinds {
		v.Kinds = append(v.Kinds, clean(string(k), 50))
	}
	for n, c := range all {
		if n == s.facts {
			v.More = fmt.Sprintf("and %d more kinds of write", len(all)-n)
			break
		}
		v.Rows = append(v.Rows, rowOf(c, kinds, s))
	}
	return v
}

// maxKinds limits the columns of the table. A search counts fewer; a file can contain anything.
const maxKinds = 12

func rowOf(c coverage.Row, kinds []fault.Kind, s size) coverageRow {
	row := coverageRow{Write: clean(c.Write.String(), 200)}
	for n, resource := range slices.Sorted(maps.Keys(c.Caches)) {
		if n == s.facts {
			break
		}
		behind := c.Caches[resource]
		cache := cacheCoverage{Resource: clean(resource, 100), WasRelisted: slices.Contains(c.Relisted, resource), Relisted: "never relisted before"}
		if cache.WasRelisted {
			cache.Relisted = "relisted before"
		}
		cache.Late = slices.ContainsFunc(behind, func(text string) bool { return text != "0" })
		switch {
		case cache.Late:
			cache.Behind = clean(strings.Join(behind, ", "), 100) + " versions behind"
		default:
			cache.Behind = "always current"
		}
		row.Caches = append(row.Caches, cache)
	}
	for _, k := range kinds {
		cell := coverageCell{Kind: clean(string(k), 50), Tried: slices.Contains(c.Tried, k)}
		if !cell.Tried {
			if cell.Reason = clean(c.Reasons[k], 200); cell.Reason == "" {
				cell.Reason = "not reached"
			}
		}
		row.Cells = append(row.Cells, cell)
	}
	return row
}
