// Package jobs is the controller of batch/v1 Jobs: it connects the planner workload/job.Plan to the API, and
// replaces kube-controller-manager's `job` controller.
//
// It watches Jobs and pods, waits until its caches show its own last writes for a Job, calls Plan, writes the
// status and then everything else, and reconciles again when something changes or when the plan says so.
// What it remembers of a Job is stored under the Job's UID and may be lost at any time: a new process, or a
// Job of the same name, starts without it and reaches the same result.
//
// reconcile.Writer sends the writes. The names of pods follow from the decision, so a create that is sent
// twice, or whose answer was lost, finds its own pod.
//
// It decides nothing about Jobs and contains no rule of batch/v1.
//
// Floor: F3. Imports workload and workload/job (F1), controller/reconcile, controller/podcache, client-go and
// apimachinery.
package jobs
