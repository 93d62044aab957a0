// Package workload holds the words that the planners of workloads share: what a
// Decision is made of (Actions with their preconditions, Reasons, a Wake), and what
// a cache must show before it is believed again (Freshness).
//
// A planner is a pure function: it gets what the caches show and says what is to be
// written. It is called again for whatever it may have missed, so it keeps nothing.
// The shell in package controller carries decisions out.
//
// The package knows no kind of workload, holds no client and makes no requests.
//
// Floor: F1. Imports apimachinery only.
package workload
