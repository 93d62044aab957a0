// Package reconcile is what the controllers of workloads share around their planners: their
// lives, one after another when a cache turns out to be wrong, and their work queues; what
// they remember of their own writes until the caches show them, how many writes are
// made at the same time, Events with a budget of their own, clients that begin with
// a consistent list, and the audit that finds a cache which has departed from the API.
//
// It decides nothing and knows no kind of workload; controller/jobs and
// controller/clonesets put it together with their planners.
//
// Floor: F3.
package reconcile
