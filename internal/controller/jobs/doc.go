// Package jobs is the controller of batch/v1 Jobs: the shell around workload/job.Plan.
// It takes the place of kube-controller-manager's `job` controller.
//
// It watches Jobs and pods, waits until its caches show its own last writes for a Job,
// asks Plan what is next, writes the status and then everything else, and looks
// again when something changes or the plan says so. All it remembers of a Job is kept
// under the Job's UID and may be lost at any time: a Job of the same name, or a new
// process, begins with nothing and comes to the same.
//
// What a write can do wrong is made harmless where it is made (writes.go): names of pods
// follow from what was decided, so that a create which is repeated, or whose answer was
// lost, finds its own pod; deletes and patches name the UID they were decided on.
//
// It decides nothing about Jobs itself, and has no rule of batch/v1 in it.
//
// Floor: F3. Imports workload and workload/job (F1), client-go and apimachinery.
package jobs
