package scenario

import (
	"reflect"
	"slices"
	"strings"

	"github.com/rehearse-k8s/rehearse/invariant"
	"github.com/rehearse-k8s/rehearse/invariant/cloneset"
	"github.com/rehearse-k8s/rehearse/invariant/job"
)

// Oracle is a ready-made invariant that a scenario uses by its name.
type Oracle struct {
	Name string
	// Sentence describes what it requires.
	Sentence string
	Params   []Param
	// Places are the fields in which it may be used: always, eventually, sometimes, wait, and inside Never.
	Places []string
}

// Param is a parameter of an oracle.
type Param struct {
	Name string
	// Says describes its meaning and its default.
	Says     string
	Required bool
}

// entry is an oracle with its constructor.
type entry struct {
	name, sentence string
	where          place
	params         reflect.Type
	make           func(c *checker, with at) bound
}

// parameters are decoded and then checked; with is their place in the file.
type parameters[P any] interface {
	*P
	check(c *checker, with at)
}

// oracle returns an entry of the table. It decodes and checks parameters of type P, and builds the
// invariant from correct ones.
func oracle[P any, PP parameters[P]](name, sentence string, where place, build func(P) bound) entry {
	return entry{name, sentence, where, reflect.TypeFor[P](), func(c *checker, with at) bound {
		var params P
		before := len(c.all)
		if c.decode(with, &params) {
			c.required(with, reflect.TypeFor[P]())
		}
		if len(c.all) == before {
			PP(&params).check(c, with)
		}
		if len(c.all) > before {
			return bound{}
		}
		return build(params)
	}}
}

// simple returns an entry for an oracle that does not follow a run.
func simple[P any, PP parameters[P]](name, sentence string, where place, build func(P) invariant.Invariant) entry {
	return oracle[P, PP](name, sentence, where, func(p P) bound { return steady(build(p)) })
}

// table returns every oracle, in the order of the documentation. It is a function because
// Never reads it.
func table() []entry {
	return []entry{
		simple("AtMostPods", "an owner has at most count active pods: pods that have not finished and are not being deleted", anywhere,
			func(p podCount) invariant.Invariant { return invariant.AtMostPods(p.Owner.owner(), *p.Count) }),
		simple("ExactlyPods", "an owner has exactly count active pods", anywhere,
			func(p podCount) invariant.Invariant { return invariant.ExactlyPods(p.Owner.owner(), *p.Count) }),
		simple("Ready", "exactly count of an owner's active pods are Ready", anywhere,
			func(p podCount) invariant.Invariant { return invariant.Ready(p.Owner.owner(), *p.Count) }),
		simple("NoDuplicates", "no two active pods of an owner have the same value of a label", anywhere,
			func(p podLabel) invariant.Invariant { return invariant.NoDuplicates(p.Owner.owner(), p.Label) }),
		simple("Exists", "an object exists", anywhere,
			func(p object) invariant.Invariant { return invariant.Exists(p.Resource, p.Namespace, p.Name) }),
		simple("Gone", "an object does not exist", anywhere,
			func(p object) invariant.Invariant { return invariant.Gone(p.Resource, p.Namespace, p.Name) }),
		simple("Condition", "an object has a condition of this type with this status", anywhere,
			func(p condition) invariant.Invariant {
				return invariant.Condition(p.Resource, p.Namespace, p.Name, p.Type, p.status())
			}),
		simple("Field", "a field of an object has this value", anywhere,
			func(p field) invariant.Invariant {
				return invariant.Field(p.Resource, p.Namespace, p.Name, p.Path, p.value())
			}),
		simple("NoOrphans", "no object has for more than a minute a controller that no longer exists; the scenario needs a garbage collector", anywhere,
			func(none) invariant.Invariant { return invariant.NoOrphans() }),
		simple("UniqueOwnerUID", "no controller reference has for more than a minute the name of an existing object with another UID", anywhere,
			func(none) invariant.Invariant { return invariant.UniqueOwnerUID() }),
		simple("Deleted", "no object has a deletionTimestamp", inEventually|inWait,
			func(none) invariant.Invariant { return invariant.Deleted() }),
		simple("HotLoop", "no controller sends more than limit equal requests in a window while nothing changes", inEventually,
			func(p hotLoop) invariant.Invariant { return invariant.HotLoop(p.limit(), p.window()) }),
		simple("Happened", "the run has a step of this kind; actor and resource restrict it", anywhere&^inAlways,
			func(p happened) invariant.Invariant { return invariant.Happened(p.kind(), p.Actor, p.Resource) }),
		simple("Wrote", "a request of the actor changed an object", anywhere&^inAlways,
			func(p wrote) invariant.Invariant { return invariant.Wrote(p.Actor, p.Verb, p.Resource) }),
		simple("Stale", "a client decided on a write while one of its caches was behind the API", anywhere&^inAlways,
			func(p stale) invariant.Invariant { return invariant.Stale(p.Actor) }),
		oracle("Never", "the nested invariant does not hold", anywhere&^inNever, func(p never) bound { return p.bind() }),
		oracle("Stays", "the nested invariant holds, or has not held yet: once it holds, it must continue to hold", inAlways, func(p stays) bound { return p.bind() }),
		oracle("Job", "the controller of one batch/v1 Job fulfils the guarantees of the Job API, after every write and at the end", inAlways,
			func(p follower) bound {
				return p.bind(func(o invariant.Owner) (now []invariant.Invariant, ends invariant.Invariant) {
					j := job.Invariants(o)
					return j.Always, j.AtQuiescence
				}, "Job")
			}),
		oracle("CloneSet", "the controller of one CloneSet fulfils the guarantees of the CloneSet API, after every write and at the end", inAlways,
			func(p follower) bound {
				return p.bind(func(o invariant.Owner) (now []invariant.Invariant, ends invariant.Invariant) {
					s := cloneset.Invariants(o)
					return s.Always, s.AtQuiescence
				}, "CloneSet")
			}),
	}
}

// Oracles returns all oracles, in the order of the documentation.
func Oracles() []Oracle {
	var out []Oracle
	for _, e := range table() {
		out = append(out, Oracle{Name: e.name, Sentence: e.sentence, Params: paramsOf(e.params), Places: e.where.names()})
	}
	return out
}

func oracleNames() string {
	var names []string
	for _, e := range table() {
		names = append(names, e.name)
	}
	return strings.Join(names, ", ")
}

// oracle binds an oracle by its name.
func (c *checker) oracle(a at, name string, where place) bound {
	all := table()
	i := slices.IndexFunc(all, func(e entry) bool { return e.name == name })
	switch {
	case i < 0:
		c.report(a.field("oracle"), name, "unknown oracle; want one of %s", oracleNames())
		return bound{}
	case all[i].where&where == 0:
		places := all[i].where.names()
		c.report(a.field("oracle"), name, "cannot be used in this place; use it in %s", oneOf(places))
		return bound{}
	}
	return all[i].make(c, a.field("with"))
}

// paramsOf reads the descriptions of parameters from the tags of their fields.
func paramsOf(t reflect.Type) (params []Param) {
	for _, f := range fieldsOf(t) {
		params = append(params, Param{Name: nameOf(f), Says: f.Tag.Get("says"), Required: f.Tag.Get("must") != ""})
	}
	return params
}

// required reports the required fields that are missing.
func (c *checker) required(with at, t reflect.Type) {
	for _, f := range fieldsOf(t) {
		one := with.field(nameOf(f))
		// A value may be null on purpose.
		if f.Tag.Get("must") != "" && (one.node == nil || !one.given() && f.Type != freeForm) {
			c.report(one, "", "is missing: %s", f.Tag.Get("says"))
		}
	}
}
