package main

import (
	"fmt"
	"slices"
	"time"
)

// figures are the results of a command. A command prints each when it is known; bench all also writes them to its table.
// A nil receiver only prints.
type figures struct {
	rows   []figure
	ratios []ratio
}

// figure is one result, with its units.
type figure struct{ name, text string }

// ratio compares rehearse with the reference: one value for each round; more is better for rehearse.
type ratio struct {
	group  string // what runs in both; equal for the ratios that follow each other in the table and the plot
	name   string
	rounds []float64
}

// add prints and keeps a figure.
func (f *figures) add(name, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	fmt.Printf("%s: %s\n", name, text)
	f.keep(name, text)
}

// keep keeps a figure that the command prints itself.
func (f *figures) keep(name, text string) {
	if f != nil {
		f.rows = append(f.rows, figure{name, text})
	}
}

// times adds the minimum, the median and the maximum of a measurement.
func (f *figures) times(name string, times []time.Duration) {
	sorted := slices.Sorted(slices.Values(times))
	f.add(name, "min %.2f s, median %.2f s, max %.2f s", sorted[0].Seconds(), sorted[len(sorted)/2].Seconds(), sorted[len(sorted)-1].Seconds())
}

// ratio prints and keeps a ratio.
func (f *figures) ratio(r ratio) {
	text := ""
	for _, value := range r.rounds {
		text += fmt.Sprintf("%6.2f", value)
	}
	fmt.Printf("%-27s%s   median %.2f\n", r.name, text, r.median())
	if f != nil {
		f.ratios = append(f.ratios, r)
	}
}

func (r ratio) median() float64 { return median(r.rounds) }

// median returns the middle value, or the mean of the two middle ones; 0 without values.
func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	if len(sorted) == 0 {
		return 0
	}
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}

// startsGroup reports whether ratio n is the first of its group.
func startsGroup(ratios []ratio, n int) bool { return n == 0 || ratios[n].group != ratios[n-1].group }

func countGroups(ratios []ratio) (count int) {
	for n := range ratios {
		if startsGroup(ratios, n) {
			count++
		}
	}
	return count
}
