// Package clonesets is the controller of CloneSets (apps.kruise.io): it watches them, makes a plan with
// workload/cloneset, and carries the plan out.
//
// It does not count expected events. A CloneSet is planned only if the caches show the controller's last
// writes for it (workload.Freshness), so an event that never arrives cannot stop it (kruise #1785). It is
// reconciled whenever something changes that a plan reads, so no relevant event is filtered out (kruise
// #2057, #2473): the filter compares all of the planner's inputs, and is not a list of cases.
//
// It is not the planner and decides nothing. It does not convert between API versions either: it works with
// the stored version, so it needs no webhook.
//
// Floor: F3. Imports workload and workload/cloneset (F1), controller/reconcile, controller/podcache,
// client-go and apimachinery.
package clonesets
