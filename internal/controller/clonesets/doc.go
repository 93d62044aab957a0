// Package clonesets is the controller of CloneSets (apps.kruise.io): it watches, asks
// workload/cloneset for a plan, and carries it out.
//
// It counts no events. A set is looked at again only when the caches show what was last
// written for it (workload.Freshness), so that an event that never comes cannot stop
// it (kruise #1785), and whenever something changes that a plan could see, so that none
// that matters is filtered away (kruise #2057, #2473): the filter compares what the
// planner reads, all of it, and is not a list of cases.
//
// It is not the planner and decides nothing; it is not the conversion between the
// versions either, and works with the stored one, so that it needs no webhook.
//
// Floor: F3.
package clonesets
