// Package reconcile is what the controllers of Jobs, CloneSets and stages have in common:
//
//   - Controller starts an Instance (caches, queue, memory) and replaces it if a cache turns out to be wrong.
//   - Loop runs the workers of an Instance on its queue, and the audit.
//   - Memory records a controller's own writes for one owner until the caches show them, and says whether
//     a decision may be made from the caches now (freshness).
//   - Writer sends writes with preconditions, without retries, and settles lost answers.
//   - Audit compares caches with the API; Corrections repairs what a wrong API server's watch cache returns.
//   - Metrics, Result and Events are the common vocabulary of metrics and Events.
//
// It makes no decisions and knows no kind of workload: the planners in internal/workload decide, and
// controller/jobs, controller/clonesets and controller/stages connect them to this package.
//
// Floor: F3. Imports workload (F1), client-go, apimachinery and prometheus/client_golang.
package reconcile
