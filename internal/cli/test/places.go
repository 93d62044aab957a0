package test

import (
	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/internal/sim"
)

// place is where faults of one kind can act, as programs read it.
type place struct {
	Kind     fault.Kind `json:"kind"`
	Actor    string     `json:"actor,omitempty"`
	Verb     string     `json:"verb,omitempty"`
	Resource string     `json:"resource,omitempty"`
	Object   string     `json:"object,omitempty"`
	Target   string     `json:"target,omitempty"`
	// Tried, Redundant and NotTried are the single faults of the place, in the text form of faults.
	Tried     []string `json:"tried"`
	Redundant []string `json:"redundant"`
	NotTried  []string `json:"notTried"`
}

// placesOf converts the places of a search.
func placesOf(places []sim.Place) []place {
	out := make([]place, len(places))
	for n, p := range places {
		out[n] = place{Kind: p.Kind, Actor: p.Actor, Verb: p.Verb, Resource: p.Resource, Object: p.Object, Target: p.Target, Tried: texts(p.Tried), Redundant: texts(p.Redundant), NotTried: texts(p.Untried)}
	}
	return out
}

// texts returns the text forms of faults, never nil: programs get an empty list.
func texts(faults []fault.Fault) []string { return append([]string{}, fault.Strings(faults)...) }
