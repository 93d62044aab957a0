// Package nodepressure evicts pods from simulated nodes that run out of memory, as the eviction manager of a kubelet
// does: it sets the condition MemoryPressure and evicts one pod at a time, those that use more than they request first.
//
// It watches the nodes with the annotation AnnotationHard, whose value has the syntax of the kubelet's flag
// --eviction-hard. The usage of the pods is that of the metrics API (package resourcemetrics).
//
// It is not a whole eviction manager: the only signal is memory.available, there are no soft thresholds and no minimum
// reclaim, and it does not reject new pods, which the taint of the condition keeps away.
//
// Decide is pure; New returns the shell around it.
//
// Floor: F3. Imports client-go.
package nodepressure
