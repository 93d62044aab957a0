// Package resourcemetrics serves the resource metrics API (metrics.k8s.io) of simulated nodes and pods: what `kubectl top` and the horizontal
// pod autoscaler read.
//
// It also serves the paths of a kubelet that report usage, and the paths of Metric objects.
//
// It computes all metrics at each request, from the pods of the process's pod cache and the rules of package usage. The package
// does not install the API group: package apiserver does.
//
// Floor: F3. Before the first request it starts nothing and keeps no objects.
package resourcemetrics
