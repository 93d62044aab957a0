// Package inject decides what the faults of a run do to one request, one answer or one
// watch event. Two programs carry out its decisions: simtest, in virtual time and in
// process, and internal/proxy, in front of a real API server. Neither of them looks at the
// kind of a fault, so a fault means the same in both.
//
// For a request the decisions come in the order in which the request is processed:
// [Delay] when it arrives, [BeforeServing] when its turn comes, [AfterServing] once there is
// an answer. A watch event has one decision, [OnEvent]. A [Hold] says when a delay ends, and
// [Expiries] which watches are answered 410.
//
// The package is pure: it has no clock, no goroutine, no context and no random numbers, and
// it sends nothing. It does not choose faults (internal/sim), does not match them with
// requests and events (package fault), and does not know how an answer is encoded
// (internal/wire).
//
// Floor: F1. Imports fault.
package inject
