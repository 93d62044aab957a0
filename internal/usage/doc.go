// Package usage computes the simulated resource usage of pods and nodes from rules, objects and the time.
//
// A rule gives, per resource, a constant or a CEL expression. Resources without a rule have the usage of the annotations that KWOK
// reads, else a small constant. A Plan computes the usage of many containers at one moment, and Totals integrates usage over time.
//
// The package does not select rules (package kubeletapi/rules does), and it serves no API.
//
// Floor: F1. It is pure: the time is an argument, and Rand() depends on the container and the time only.
package usage
