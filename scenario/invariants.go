package scenario

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/rehearse-k8s/rehearse/api/rehearse/v1alpha1"
	"github.com/rehearse-k8s/rehearse/internal/nearest"
	"github.com/rehearse-k8s/rehearse/invariant"
)

// Invariants are those of one run.
type Invariants struct {
	// Always is checked after every write by any client.
	Always []invariant.Invariant
	// Eventually is checked after the last step.
	Eventually []Eventually
	// Sometimes should hold at some moment of at least one run.
	Sometimes []invariant.Invariant
}

// Eventually is an invariant that must hold within a time after the last step.
type Eventually struct {
	invariant.Invariant
	Within time.Duration
}

// Invariants returns the scenario's invariants for one run. Some record the run from its beginning, so each
// run needs its own, which are created before its first step and checked by one goroutine.
func (s *Scenario) Invariants() Invariants {
	var out Invariants
	for _, p := range s.invariants.always {
		now, ends := p.make()
		out.Always = append(out.Always, now...)
		for _, i := range ends {
			out.Eventually = append(out.Eventually, Eventually{i, p.within})
		}
	}
	for _, p := range s.invariants.eventually {
		now, _ := p.make()
		for _, i := range now {
			out.Eventually = append(out.Eventually, Eventually{i, p.within})
		}
	}
	for _, p := range s.invariants.sometimes {
		now, _ := p.make()
		out.Sometimes = append(out.Sometimes, now...)
	}
	return out
}

// boundInvariants are the invariants of a scenario, by place.
type boundInvariants struct{ always, eventually, sometimes []bound }

// bound is an invariant with its parameters. make returns the invariants to check at each moment and, for
// oracles that follow a run, those of its end. The zero value stands for a rejected one.
type bound struct {
	make   func() (now, ends []invariant.Invariant)
	within time.Duration
}

// steady returns the bound form of an invariant that does not follow a run.
func steady(i invariant.Invariant) bound {
	return bound{make: func() (now, ends []invariant.Invariant) { return []invariant.Invariant{i}, nil }}
}

// place is where an invariant may be written.
type place int

const (
	inAlways place = 1 << iota
	inEventually
	inSometimes
	inWait
	inNever
	anywhere = inAlways | inEventually | inSometimes | inWait | inNever
)

var placeNames = []string{"always", "eventually", "sometimes", "wait", "Never"}

// names returns the names of the places.
func (p place) names() (names []string) {
	for i, name := range placeNames {
		if p&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return names
}

func (c *checker) invariants(a at) {
	written, out := &c.s.Spec.Invariants, &c.s.invariants
	for i := range written.Always {
		if p := c.bind(a.field("always").item(i), &written.Always[i], inAlways); p.make != nil {
			out.always = append(out.always, p)
		}
	}
	for i := range written.Eventually {
		one := a.field("eventually").item(i)
		within := c.duration(one.field("within"), written.Eventually[i].Within, DefaultWithin)
		if p := c.bind(one, &written.Eventually[i].Invariant, inEventually); p.make != nil {
			p.within = within
			out.eventually = append(out.eventually, p)
		}
	}
	for i := range written.Sometimes {
		if p := c.bind(a.field("sometimes").item(i), &written.Sometimes[i], inSometimes); p.make != nil {
			out.sometimes = append(out.sometimes, p)
		}
	}
	c.automatic(a)
}

// automatic reads which automatic checks the scenario turns off.
func (c *checker) automatic(a at) {
	s, written := c.s, &c.s.Spec.Invariants
	for i := range written.Ignore {
		one := a.field("ignore").item(i)
		c.resource(one.field("resource"), written.Ignore[i].Resource)
		if path := written.Ignore[i].Path; path != "" {
			if err := invariant.CheckPath(path); err != nil {
				c.report(one.field("path"), path, "%v", err)
			}
		} else if one.field("path").given() {
			c.report(one.field("path"), "", "is empty; leave it out to ignore the whole object")
		}
	}
	s.Ignore = written.Ignore
	for i, name := range written.Disable {
		one, known := a.field("disable").item(i), invariant.AutomaticNames()
		switch {
		case !slices.Contains(known, name):
			c.report(one, name, "unknown automatic invariant; want one of %s", strings.Join(nearest.Names(name, known, len(known)), ", "))
		case slices.Index(written.Disable, name) < i:
			c.report(one, name, "is listed twice; remove one")
		}
	}
	s.EndsVary = written.EndsVary || slices.Contains(written.Disable, invariant.AutomaticEndState)
	s.Disabled = slices.Clone(written.Disable)
	if written.EndsVary && !slices.Contains(s.Disabled, invariant.AutomaticEndState) {
		s.Disabled = append(s.Disabled, invariant.AutomaticEndState)
	}
}

// waitFor returns the condition of a wait.
func (c *checker) waitFor(a at, written *v1alpha1.Invariant) invariant.Invariant {
	p := c.bind(a, written, inWait)
	if p.make == nil {
		return invariant.Invariant{}
	}
	now, _ := p.make()
	return now[0]
}

func (c *checker) bind(a at, written *v1alpha1.Invariant, where place) bound {
	var p bound
	switch cel, oracle := a.field("cel"), a.field("oracle"); {
	case cel.given() == oracle.given():
		c.report(a, "", "must have either cel (an expression) or oracle (one of %s)", oracleNames())
		return p
	case cel.given():
		if a.field("with").given() {
			c.report(a.field("with"), "", "is for oracles; an expression takes no parameters")
		}
		p = c.cel(cel, written)
	default:
		p = c.oracle(a, written.Oracle, where)
	}
	if name := strings.TrimSpace(written.Name); name != "" && p.make != nil {
		return p.named(name)
	}
	return p
}

// named sets the author's name of an invariant. If an oracle has several invariants, it precedes their names.
func (p bound) named(name string) bound {
	rename := func(all []invariant.Invariant, alone bool) []invariant.Invariant {
		for i := range all {
			if alone {
				all[i].Name = name
			} else {
				all[i].Name = name + ": " + all[i].Name
			}
		}
		return all
	}
	original := p.make
	p.make = func() (now, ends []invariant.Invariant) {
		now, ends = original()
		alone := len(now)+len(ends) == 1
		return rename(now, alone), rename(ends, alone)
	}
	return p
}

var celLine = regexp.MustCompile(`^line (\d+), `)

func (c *checker) cel(a at, written *v1alpha1.Invariant) bound {
	expr := strings.TrimSpace(written.CEL)
	if expr == "" {
		c.report(a, "", "is empty; write an expression that is true while the invariant holds")
		return bound{}
	}
	// The expression is compiled as it is written, so that columns are those of the file.
	i, err := invariant.CEL(short(expr), written.CEL)
	if err != nil {
		text := strings.TrimPrefix(err.Error(), fmt.Sprintf("invariant %q: ", short(expr)))
		if a.node.Style&yaml.LiteralStyle != 0 { // its first line is the next one
			a.line++
			if m := celLine.FindStringSubmatch(text); m != nil {
				n, _ := strconv.Atoi(m[1])
				a.line += n - 1
				text = text[len(m[0]):]
			}
		}
		c.report(a, expr, "%s", text)
		return bound{}
	}
	return steady(i)
}
