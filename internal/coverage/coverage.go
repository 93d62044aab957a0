// Package coverage describes what a search covered of each kind of write of the controllers under test: how far behind their caches
// were when such a write was decided, which faults acted on such a write, and why the others did not.
//
// It contains the rows of the table and their text form. It measures nothing: package sim does, from the records of runs. Package
// report stores the rows next to a run, and draws them.
//
// Floor: F1. Imports fault.
package coverage

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rehearse-k8s/rehearse/fault"
)

// Write is a kind of write of a controller.
type Write struct {
	Actor string `json:"actor"`
	Verb  string `json:"verb"`
	// Resource includes the subresource: "pods/status".
	Resource string `json:"resource"`
}

// String returns, for example, "web create pods".
func (w Write) String() string { return w.Actor + " " + w.Verb + " " + w.Resource }

// Row is what a search covered of one kind of write.
type Row struct {
	Write
	// Caches has, for each resource that the controller watches, how many versions its cache was behind when such a write was
	// decided, in some run: "0", "1", "2-3", "4+".
	Caches map[string][]string `json:"caches"`
	// Tried are the faults that acted on such a write. NotTried are faults that could act, but that the search did not
	// reach; Impossible are those that have no place at such a write: a conflict on a patch without a resourceVersion.
	Tried      []fault.Kind `json:"tried,omitempty"`
	NotTried   []fault.Kind `json:"notTried,omitempty"`
	Impossible []fault.Kind `json:"impossible,omitempty"`
	// Reasons says why each fault of NotTried and Impossible is there.
	Reasons map[fault.Kind]string `json:"reasons,omitempty"`
	// Relisted are the resources whose caches were listed again before such a write was decided, and NotRelisted the other
	// ones.
	Relisted    []string `json:"relisted,omitempty"`
	NotRelisted []string `json:"notRelisted,omitempty"`
}

// List lists rows as text: for each kind of write, how far behind each cache was, and which faults acted.
func List(all []Row) string {
	if len(all) == 0 {
		return "no controller under test decided a write\n"
	}
	var b strings.Builder
	for _, c := range all {
		fmt.Fprintf(&b, "%s\n", c.Write)
		for _, resource := range slices.Sorted(maps.Keys(c.Caches)) {
			relisted := "not listed again before"
			if slices.Contains(c.Relisted, resource) {
				relisted = "listed again before"
			}
			fmt.Fprintf(&b, "  cache of %s: %s versions behind; %s\n", resource, strings.Join(c.Caches[resource], ", "), relisted)
		}
		line := func(what string, kinds []fault.Kind) {
			if len(kinds) > 0 {
				texts := make([]string, len(kinds))
				for n, k := range kinds {
					if texts[n] = string(k); c.Reasons[k] != "" {
						texts[n] += " (" + c.Reasons[k] + ")"
					}
				}
				fmt.Fprintf(&b, "  %s: %s\n", what, strings.Join(texts, ", "))
			}
		}
		line("tried with", c.Tried)
		line("not reached", c.NotTried)
		line("no place at this write", c.Impossible)
	}
	return b.String()
}
