package seeded

import ctrl "sigs.k8s.io/controller-runtime"

// Bugs are the seeded bugs by name, each as a function that adds its controller, or the correct sibling, to a manager.
var Bugs = map[string]func(mgr ctrl.Manager, fixed bool) error{
	"lost-create":          lostCreate,
	"cleared-expectations": clearedExpectations,
	"generated-repair":     generatedRepair,
	"stale-start":          staleStart,
	"missed-expectation":   missedExpectation,
	"memory-ordinal":       memoryOrdinal,
	"unrecorded-create":    unrecordedCreate,
	"alternative-name":     alternativeName,
	"early-finalizer":      earlyFinalizer,
	"late-finalizer":       lateFinalizer,
	"delete-by-name":       deleteByName,
	"cached-cleanup":       cachedCleanup,
	"unobserved-owner":     unobservedOwner,
	"observed-generation":  observedGeneration,
	"double-count":         doubleCount,
	"next-victim":          nextVictim,
	"switch-over":          switchOver,
	"stale-leader":         staleLeader,
	"late-delete":          lateDelete,
	"migration":            migration,
	"rotated-secret":       rotatedSecret,
	"given-up":             givenUp,
	"lost-timer":           lostTimer,
	"repair-error":         repairError,
	"recreated-secret":     recreatedSecret,
	"replaced-twice":       replacedTwice,
	"wide":                 wide,
}

// Setup returns the function that adds the controller of a bug, or its correct sibling, to a manager.
func Setup(name string, fixed bool) func(ctrl.Manager) error {
	return func(mgr ctrl.Manager) error { return Bugs[name](mgr, fixed) }
}
