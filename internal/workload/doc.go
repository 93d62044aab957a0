// Package workload defines what the planners of workloads share: the Decision that a planner
// returns (Actions with their preconditions, Events, Reasons, a Wake), and Freshness, which says
// whether a cache shows the effect of the controller's own last writes.
//
// A planner is a pure function: its input is what the caches show, its output the writes. It keeps
// no state, because it is called again after everything that it may have missed. The controllers in
// internal/controller carry decisions out.
//
// The package knows no kind of workload, has no client and sends no requests.
//
// Floor: F1. Imports apimachinery only.
package workload
