package fault_test

import (
	"fmt"

	"github.com/rehearse-k8s/rehearse/fault"
)

// The text form of a fault is what scenarios and recorded runs contain.
func ExampleParse() {
	f, err := fault.Parse("lag actor=web resource=pods nth=3 for=30s")
	fmt.Println(f.Kind, f.Actor, f.Resource, f.Nth, f.For, err)
	fmt.Println(f)
	// Output:
	// lag web pods 3 30s <nil>
	// lag actor=web resource=pods nth=3 for=30s
}

// The level of a kind says whether the API contract allows it.
func ExampleKind_Level() {
	for _, k := range []fault.Kind{fault.KindLag, fault.KindLoseEvent, fault.KindTimeTravel} {
		fmt.Printf("%s: %s\n", k, k.Level())
	}
	// Output:
	// lag: legal
	// lose-event: seen
	// time-travel: adversarial
}

// A fault with open fields is a pattern: it matches whatever they may be.
func ExampleFault_Matches() {
	pattern := fault.Crash("web")
	fmt.Println(pattern.Matches(fault.Item{Class: fault.Call, Write: true, Actor: "web", Verb: "create", Resource: "pods"}))
	fmt.Println(pattern.Matches(fault.Item{Class: fault.Call, Write: true, Actor: "job", Verb: "create", Resource: "pods"}))
	// Output:
	// true
	// false
}
