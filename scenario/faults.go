package scenario

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rehearse-k8s/rehearse/fault"
)

func (c *checker) faults(a at) {
	s, faults := c.s, &c.s.Spec.Faults
	if faults.Level != "" {
		level, err := fault.ParseLevel(faults.Level)
		if err != nil {
			c.report(a.field("level"), faults.Level, "must be legal, seen or adversarial")
		}
		s.Level = level
	}
	for i, name := range faults.Trusted {
		one := a.field("trusted").item(i)
		if name == "" {
			c.report(one, "", "must name a client")
		}
		c.actor(one, name)
	}
	s.Trusted = faults.Trusted
	s.Except = c.patterns(a.field("except"), faults.Except, nil)
	if len(faults.Only) == 0 {
		if a.field("only").given() {
			c.report(a.field("only"), "", "is empty; leave it out, or name what may go wrong")
		}
		s.Patterns = s.anyFault(s.Level)
		return
	}
	s.Patterns = c.patterns(a.field("only"), faults.Only, func(f fault.Fault) error { return within(s.Level, f) })
}

// patterns reads a list of fault patterns. check, if set, rejects some.
func (c *checker) patterns(a at, texts []string, check func(fault.Fault) error) (patterns []fault.Fault) {
	for i, text := range texts {
		one := a.item(i)
		f, err := fault.Parse(text)
		if err != nil {
			c.report(one, text, "%s", strings.TrimPrefix(strings.TrimPrefix(err.Error(), fmt.Sprintf("fault %q: ", text)), "fault: "))
			continue
		}
		if check != nil {
			if err := check(f); err != nil {
				c.report(one, text, "%v", err)
			}
		}
		if resource, _, _ := strings.Cut(f.Resource, "/"); resource != "" {
			c.resource(one, resource)
		}
		c.actor(one, f.Actor)
		patterns = append(patterns, f)
	}
	return patterns
}

// anyFault returns the patterns of all faults up to a level: overlap only for clients without leader election.
func (s *Scenario) anyFault(level fault.Level) []fault.Fault {
	patterns := fault.Any(level)
	for i := range s.Spec.Clients {
		if c := &s.Spec.Clients[i]; c.LeaderElection == withoutLeaderElection {
			patterns = append(patterns, fault.Fault{Kind: fault.KindOverlap, Actor: c.Name})
		}
	}
	return patterns
}

// The values of leaderElection.
const (
	withoutLeaderElection = "none"
	withLease             = "lease"
)

// within rejects a fault above a level.
func within(level fault.Level, f fault.Fault) error {
	if have := f.Kind.Level(); have > level {
		return fmt.Errorf("%s is of level %s and the scenario's level is %s; set spec.faults.level to %s", f.Kind, have, level, have)
	}
	return nil
}

// actor checks that a fault or an oracle names a client. One replica or instance of a client is "name/0" or
// "name+".
func (c *checker) actor(a at, actor string) {
	name, _, _ := strings.Cut(actor, "/")
	name = strings.TrimRight(name, "+")
	var names []string
	for i := range c.s.Spec.Clients {
		names = append(names, c.s.Spec.Clients[i].Name)
	}
	if actor != "" && !slices.Contains(names, name) {
		c.report(a, a.text(), "no client is named %s; there is %s", name, oneOf(names))
	}
}

// SetLevel replaces the level of faults of the scenario. It returns an error if a fault of the scenario is above it.
func (s *Scenario) SetLevel(level fault.Level) error {
	patterns := s.Patterns
	if len(s.Spec.Faults.Only) == 0 {
		patterns = s.anyFault(level)
	}
	for i, f := range patterns {
		if err := within(level, f); err != nil {
			return s.Problem(fmt.Sprintf("spec.faults.only[%d]", i), err.Error())
		}
	}
	s.Level, s.Patterns, s.Spec.Faults.Level = level, patterns, level.String()
	return nil
}
