// Package wire reads the traffic of the Kubernetes API: it describes requests as [Call]s, splits
// watch streams into frames ([Splitter]), describes frames as [Event]s, and encodes the answers and
// frames that faults of package fault need.
//
// It reads JSON and protobuf as real clients and servers write them, and of most objects only the
// metadata, so a frame takes microseconds. If it cannot read a value (YAML, a resourceVersion that
// is not a number), the field stays empty; it never panics.
//
// It opens no connection, does not decide what a fault does (package internal/inject), and does not
// depend on virtual time or processes. simtest uses it in process, internal/proxy in front of a
// server.
//
// Floor: F2. Imports history, fault, internal/inject and k8s.io/apimachinery.
package wire
