// Package kwok holds our stage engine against KWOK's own code (sigs.k8s.io/kwok
// v0.8.0, package lifecycle): the same stages, which are those that KWOK ships, on the
// same objects must give the same choice of stages, the same delays, and the same
// objects afterwards. Benchmarks run both.
//
// It is a module of its own, so that none of this reaches anybody who uses rehearse,
// and the only place where the two meet. Where ours differs on purpose, the test says
// so and why.
package kwok
