// Package nearest finds, among known names, those that are most similar to an unknown one, for error messages
// such as "unknown controller "jobb"; nearest names: job, job-controller".
//
// The similarity is an edit distance, without regard to case. A name that extends the unknown one counts as nearer
// than its length suggests: the user of "deployment" probably means "deployment-controller".
//
// It is not a search index: it compares the unknown name with each known one.
//
// Floor: F0. Imports only the standard library.
package nearest

import (
	"cmp"
	"slices"
	"strings"
)

// maxLength bounds the names that are compared letter by letter.
const maxLength = 128

// Names returns at most n of the known names, the most similar one first, and in alphabetical order where they
// are equally similar. Duplicates count once.
func Names(name string, known []string, n int) []string {
	known = slices.Compact(slices.Sorted(slices.Values(known)))
	slices.SortStableFunc(known, func(a, b string) int { return cmp.Compare(dissimilarity(name, a), dissimilarity(name, b)) })
	return known[:min(n, len(known))]
}

// costs are those of changes to a name.
type costs struct{ insert, remove, replace int }

// dissimilarity is 0 for equal names. To extend the name costs least: the user of "job" may mean
// "job-controller".
func dissimilarity(name, known string) int {
	return costs{insert: 1, remove: 5, replace: 6}.distance(strings.ToLower(name), strings.ToLower(known))
}

// Distance returns the number of bytes to change, add or remove to get from a to b. Names of more than 128
// bytes are not compared: their distance is the length of the longer one.
func Distance(a, b string) int { return costs{1, 1, 1}.distance(a, b) }

// distance returns the least cost to get from a to b.
func (c costs) distance(a, b string) int {
	if len(a) > maxLength || len(b) > maxLength {
		return max(len(a), len(b)) * max(c.insert, c.remove)
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j * c.insert
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = (i + 1) * c.remove
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost = min(diagonal+c.replace, row[j+1]+c.remove, row[j]+c.insert)
			}
			diagonal, row[j+1] = row[j+1], cost
		}
	}
	return row[len(b)]
}
