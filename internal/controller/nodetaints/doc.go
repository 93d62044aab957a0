// Package nodetaints keeps the taints of nodes in agreement with their Ready condition: a node that is not ready has
// node.kubernetes.io/not-ready, one whose condition is unknown has node.kubernetes.io/unreachable, and one that is
// ready has neither. The API server adds the first to every new node, so without this no pod is scheduled to a node
// that a scenario creates.
//
// It is not upstream's node lifecycle controller: it neither sets conditions of nodes whose heartbeats stop, nor
// limits the rate of taints, nor evicts pods. A scenario that needs these lists node-lifecycle-controller among its
// controllers, and this package is not used.
//
// Plan is pure; Run is the shell around it.
//
// Floor: F3. Imports client-go.
package nodetaints
