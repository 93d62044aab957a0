// Package v1alpha1 contains the Go types of the group kwok.x-k8s.io/v1alpha1:
// Stage, and the kinds that configure the kubelet endpoints of simulated nodes
// (Logs, Attach, Exec, PortForward and their Cluster kinds) and the resource
// usage and the metrics of simulated pods and nodes (ResourceUsage,
// ClusterResourceUsage, Metric). They are written from KWOK's documented API so
// that files written for KWOK decode without a change.
//
// The types have no behaviour. They have every documented field, including
// those that rehearse does not support: a file must decode strictly before its
// reader can reject it with a clear error.
//
// Floor: F0 (api). It imports only apimachinery.
//
// +kubebuilder:object:generate=true
// +groupName=kwok.x-k8s.io
package v1alpha1

//go:generate go tool -modfile=../../../tools/go.mod controller-gen object paths=./...
