package sim

import (
	"slices"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/history"
)

// maxTargets limits the user's objects that are targets of interference: a set of them is a number of 64 bits.
const maxTargets = 64

// maxPlaces is at how many writes of an actor, with the same verb and resource, a target is changed.
const maxPlaces = 2

// notRecreated are the resources of the user whose objects are not created again: their end has effects that no controller of
// the run undoes (a namespace loses its contents, a node its pods, a Service its address, a claim its volume).
var notRecreated = []string{
	"namespaces", "nodes", "services", "persistentvolumeclaims", "persistentvolumes", "customresourcedefinitions.apiextensions.k8s.io",
}

// targets are the objects that the user has created or changed, and the writes of controllers that depend on each.
type targets struct {
	objects []target
	// reach has, for each step, the set of the objects on which it depends.
	reach []uint64
	// tried counts the places of each fault, apart from its object.
	tried map[fault.Fault]int
}

// target is an object of the user. It exists from one step to another one.
type target struct {
	history.Object
	from, to int
	// status is the first step in which the user wrote its status; 0: none. A new object does not have it, and
	// no controller writes it again.
	status int
}

// targetsOf finds the objects of the user in a run, and what depends on them: a controller's request does if the
// controller has received a list or an event with the object before, or what another request wrote that does.
func targetsOf(run *history.Run, randomNames map[string]bool) targets {
	t := targets{reach: make([]uint64, len(run.Steps)), tried: map[fault.Fault]int{}}
	for n := range run.Steps {
		s := &run.Steps[n]
		if s.Kind == history.Request && s.Actor == history.User && s.Wrote() && s.Name != "" && !history.Bookkeeping(s.Resource) && !randomNames[s.Object.String()] {
			t.note(s)
		}
		var set uint64
		for _, cause := range s.Causes {
			if cause < n {
				set |= t.reach[cause]
			}
		}
		for i := range t.objects {
			o := &t.objects[i]
			if o.Resource == s.Resource && (o.Key() == s.Key() || s.Kind == history.Request && s.Verb == "list") {
				set |= 1 << i
			}
		}
		t.reach[n] = set
	}
	return t
}

// note records a write of the user.
func (t *targets) note(s *history.Step) {
	i := slices.IndexFunc(t.objects, func(o target) bool { return o.Resource == s.Resource && o.Key() == s.Key() })
	switch {
	case s.Verb == "delete" && i >= 0:
		t.objects[i].to = s.N
	case i < 0 && s.Verb != "delete" && len(t.objects) < maxTargets:
		t.objects = append(t.objects, target{Object: s.Object, from: s.N, to: int(^uint(0) >> 1)})
	}
	if i >= 0 && s.Subresource == "status" && t.objects[i].status == 0 {
		t.objects[i].status = s.N
	}
}

// atTargets adds the faults by which another user changes an object of the user, at a write that depends on it: first
// those that every search tries, then those of the patterns that name a target.
func (c *candidates) atTargets(s *history.Step) {
	if c.targets.reach == nil {
		c.targets = targetsOf(c.run, c.randomNames)
	}
	for i := range c.targets.objects {
		o := &c.targets.objects[i]
		if c.targets.reach[s.N]&(1<<i) == 0 || s.N < o.from || s.N > o.to {
			continue
		}
		if !slices.Contains(notRecreated, o.Resource) && (o.status == 0 || s.N < o.status) {
			c.atTarget(2, s, o, fault.KindRecreate)
		}
		c.atTarget(3, s, o, fault.KindEdit)
		for _, p := range c.patterns {
			if p.Target == fault.TargetOf(o.Object) && p.Kind != fault.KindRecreate && p.Kind != fault.KindEdit {
				c.atTarget(3, s, o, p.Kind)
			}
		}
	}
}

// atTarget adds faults of one kind that change an object at a write.
func (c *candidates) atTarget(rank int, s *history.Step, o *target, k fault.Kind) {
	f := c.site(s)
	f.Kind, f.Target = k, fault.TargetOf(o.Object)
	place := f
	place.Object = ""
	if c.targets.tried[place] >= maxPlaces {
		return
	}
	c.targets.tried[place]++
	c.vary(rank, f, c.pace.lengthsOf(k))
}
