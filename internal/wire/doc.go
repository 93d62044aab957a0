// Package wire takes the traffic of the Kubernetes API apart: requests into
// [Call]s, watch streams into frames ([Splitter]) and frames into [Event]s; and it
// makes the answers and frames by which faults of package fault are carried out.
//
// It reads JSON and protobuf as real clients and servers write them, and of every
// object only its metadata: a frame costs microseconds. What it cannot read (YAML,
// a resourceVersion that is not a number) leaves fields empty; it never panics.
//
// What it is not: it opens no connection, decides on no fault, and knows nothing of
// virtual time or processes. simtest uses it in process, the fault proxy in front
// of a server.
//
// The floor is F2: it imports history, fault and k8s.io/apimachinery.
package wire
