// Package kwok compares package stage with KWOK's own code (sigs.k8s.io/kwok v0.8.0, package lifecycle): the
// same stages, which are those that KWOK ships, on the same objects must give the same choice of stages, the
// same delays, and the same objects afterwards. Benchmarks run both. A cluster of rehearse serves KWOK's files for
// kubelet endpoints, resource usage and metrics unchanged.
//
// It is a separate module, so that KWOK's code is no dependency of users of rehearse; no other code imports
// both. Where the behaviour differs on purpose, the test contains the reason.
package kwok
