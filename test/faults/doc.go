// Package faults is the conformance table of faults: for each kind of fault, what one client observes of it.
// The table is run in both worlds in which faults act: in process and in virtual time by the tests of simtest,
// and in front of a real API server by the tests of internal/proxy. So a fault with a different effect in one
// of them fails a test.
//
// It contains the client, which records what it observes, the rows, and the comparison. It starts no API
// server and injects no fault: the two tests do.
//
// Floor: outside; only tests import it.
package faults
