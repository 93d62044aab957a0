package stage

import (
	"encoding/json"
	"regexp"
	"time"
)

// Branch is a stage that may be next, and the stages that may follow it.
type Branch struct {
	Option
	// Chance is the probability of this branch, from the object at the root.
	Chance float64
	Effects
	Before, After Object
	// Problem explains why the stage could not be played, or which value is invalid.
	Problem string
	// Again is true if the object returns to an earlier state of the path, apart from times. Cut is true if a limit
	// ended the tree here.
	Again, Cut bool
	Next       []Branch
}

// TreeOptions limit a tree.
type TreeOptions struct {
	Start    time.Time
	Seed     uint64
	Facts    Facts
	Scene    Scene
	MaxDepth int
	MaxNodes int
}

// Tree returns every path of stages that an object may take, with the minimum delay of each stage.
func (s *Set) Tree(o Object, opts TreeOptions) []Branch {
	t := &growing{set: s, TreeOptions: opts, onPath: map[string]bool{}}
	return t.grow(opts.Start, o, Past{}, 1, 0)
}

type growing struct {
	set *Set
	TreeOptions
	nodes  int
	onPath map[string]bool
}

func (t *growing) grow(now time.Time, o Object, past Past, chance float64, depth int) []Branch {
	state := EquivalenceKey(o)
	t.onPath[state] = true
	defer delete(t.onPath, state)
	var out []Branch
	for _, option := range t.set.Options(now, t.Seed, o, past, t.Scene) {
		if option.Share == 0 {
			continue
		}
		if t.nodes++; t.nodes > t.MaxNodes {
			return append(out, Branch{Option: option, Chance: chance * option.Share, Before: o, After: o, Cut: true})
		}
		d := option.Decision()
		if d.Reason.Code == NothingToDo {
			continue
		}
		b := Branch{Option: option, Chance: chance * option.Share, Before: o, After: o, Problem: option.Problem}
		if d.Chosen() {
			t.follow(&b, now, past, depth)
		}
		out = append(out, b)
	}
	return out
}

func (t *growing) follow(b *Branch, now time.Time, past Past, depth int) {
	d := b.Decision()
	if d.Due.After(now) {
		now = d.Due
	}
	outcome, err := t.set.Preview(now, b.Before, d, t.Facts)
	b.Effects = outcome.Effects
	if err != nil {
		b.Problem = err.Error()
		return
	}
	b.After = outcome.After
	next := past.After(&d, now, outcome.Writes())
	switch {
	case b.After == nil:
		return
	case outcome.Writes() && t.onPath[EquivalenceKey(b.After)]:
		b.Again = true
		return
	}
	if depth+1 >= t.MaxDepth {
		b.Cut = len(t.set.Options(now, t.Seed, b.After, next, t.Scene)) > 0
		return
	}
	b.Next = t.grow(now, b.After, next, b.Chance, depth+1)
}

// Stage returns the name of the stage, which both the option and the effects contain.
func (b *Branch) Stage() string { return b.Option.Stage }

var anyTime = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`)

// EquivalenceKey returns a text that is equal for two states of an object that differ only in times and versions.
func EquivalenceKey(o Object) string {
	values := ValuesOf(o)
	if metadata, ok := values["metadata"].(map[string]any); ok {
		delete(metadata, "resourceVersion")
		delete(metadata, "managedFields")
	}
	data, err := json.Marshal(values)
	if err != nil {
		return ""
	}
	return string(anyTime.ReplaceAll(data, []byte("T")))
}
