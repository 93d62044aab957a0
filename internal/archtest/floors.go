package archtest

import "strings"

// Module is the path that all our packages begin with.
const Module = "github.com/rehearse-k8s/rehearse"

// floors maps each part of the module to its floor. A package belongs to the longest entry that is its path or
// a parent of it; packages of the same entry may import each other.
var floors = map[string]int{
	".":                                0, // the map of the packages, without code
	"api":                              0,
	"history":                          0,
	"internal/version":                 0,
	"internal/splitmix":                0,
	"internal/nearest":                 0,
	"internal/intern":                  0,
	"internal/convert":                 0,
	"internal/workload":                1,
	"internal/workload/job":            1,
	"internal/workload/cloneset":       1,
	"stage":                            1,
	"internal/inject":                  1,
	"stage/expr":                       1,
	"internal/stage/kubelet":           1,
	"internal/stage/render":            1,
	"internal/stage/lint":              1,
	"internal/stage":                   1,
	"internal/snapshot":                1,
	"fault":                            1,
	"invariant":                        1,
	"invariant/job":                    1,
	"invariant/cloneset":               1,
	"internal/coverage":                1,
	"internal/viewtest":                1,
	"scenario":                         1,
	"internal/kubeletapi/rules":        1,
	"internal/stagefiles":              2,
	"internal/usage":                   1,
	"internal/store":                   2,
	"internal/sim":                     2,
	"internal/verdict":                 2,
	"internal/wire":                    2,
	"internal/apiserver":               3,
	"internal/controller/reconcile":    3,
	"internal/controller/podcache":     3,
	"internal/controller/stages":       3,
	"internal/controller/jobs":         3,
	"internal/controller/clonesets":    3,
	"internal/controller/webhook":      3,
	"internal/controller/nodetaints":   3,
	"internal/controller/nodepressure": 3,
	"internal/kubeletapi":              3,
	"internal/resourcemetrics":         3,
	"internal/proxy":                   3,
	"internal/report":                  3,
	"internal/snapshot/useractions":    2,
	"internal/snapshot/transfer":       3,
	"internal/probes":                  3,
	"cluster":                          4,
	"internal/rehearsal":               4,
	"simtest":                          4,
	"internal/cli":                     4,
	"internal/gcpace":                  4, // it sets the pace of a whole process, so no library may import it
	"cmd/rehearse":                     4,
	"bench":                            outside,
	"internal/archtest":                outside,
	"docs":                             outside,
	"examples":                         outside,
	"test":                             outside,
}

// outside is the floor of tests, examples and benchmarks: they may import everything, and no package may import them.
const outside = 99

// level lists the imports that are allowed between packages of one floor, because one is built from the other.
var level = map[[2]string]bool{
	{"internal/cli", "cluster"}:                                           true,
	{"internal/cli", "internal/rehearsal"}:                                true,
	{"internal/cli", "internal/gcpace"}:                                   true,
	{"cmd/rehearse", "internal/cli"}:                                      true,
	{"internal/sim", "internal/verdict"}:                                  true,
	{"scenario", "fault"}:                                                 true,
	{"invariant", "fault"}:                                                true,
	{"scenario", "invariant"}:                                             true,
	{"internal/coverage", "fault"}:                                        true,
	{"internal/inject", "fault"}:                                          true,
	{"stage", "stage/expr"}:                                               true,
	{"stage", "internal/stage/kubelet"}:                                   true,
	{"stage", "internal/stage/render"}:                                    true,
	{"stage", "internal/stage"}:                                           true,
	{"internal/stage/lint", "stage"}:                                      true,
	{"internal/usage", "stage/expr"}:                                      true,
	{"internal/kubeletapi/rules", "internal/usage"}:                       true,
	{"internal/stage/lint", "stage/expr"}:                                 true,
	{"internal/stage/lint", "internal/stage/kubelet"}:                     true,
	{"internal/stage/lint", "internal/stage"}:                             true,
	{"internal/stage/render", "stage/expr"}:                               true,
	{"internal/stage/render", "internal/stage/kubelet"}:                   true,
	{"internal/stage/render", "internal/stage"}:                           true,
	{"stage/expr", "internal/stage"}:                                      true,
	{"internal/stage/kubelet", "internal/stage"}:                          true,
	{"internal/stage", "internal/stage/kubelet"}:                          true, // of stagetest, which runs pods for tests
	{"scenario", "invariant/job"}:                                         true,
	{"scenario", "invariant/cloneset"}:                                    true,
	{"internal/viewtest", "invariant"}:                                    true, // imported by tests alone
	{"invariant/job", "invariant"}:                                        true,
	{"invariant/cloneset", "invariant"}:                                   true,
	{"internal/workload/job", "internal/workload"}:                        true,
	{"internal/workload/cloneset", "internal/workload"}:                   true,
	{"internal/controller/jobs", "internal/controller/reconcile"}:         true,
	{"internal/controller/clonesets", "internal/controller/reconcile"}:    true,
	{"internal/controller/stages", "internal/controller/reconcile"}:       true,
	{"internal/controller/podcache", "internal/controller/reconcile"}:     true,
	{"internal/controller/jobs", "internal/controller/podcache"}:          true,
	{"internal/controller/clonesets", "internal/controller/podcache"}:     true,
	{"internal/controller/stages", "internal/controller/podcache"}:        true,
	{"internal/controller/nodepressure", "internal/controller/reconcile"}: true,
	{"internal/controller/nodepressure", "internal/resourcemetrics"}:      true,
	{"internal/kubeletapi", "internal/controller/reconcile"}:              true, // for the list of permissions
	{"internal/kubeletapi", "internal/controller/stages"}:                 true, // for which nodes are simulated
}

// never lists imports that the floors would allow and that are wrong all the same, with the reason.
var never = map[[2]string]string{
	{"simtest", "cluster"}:                 "a user's test must not link a scheduler; the upstream controllers have a package of their own, simtest/kubecontrollers",
	{"internal/cli", "internal/apiserver"}: "the command line uses a cluster through package cluster and a kubeconfig",
}

// banned are words that are not names of packages: they do not name what the code does.
var banned = []string{"util", "utils", "common", "helper", "helpers", "pkg", "misc", "shared", "base"}

// place returns the entry of floors that a package path belongs to, and its floor.
func place(path string) (entry string, floor int, ok bool) {
	if path == Module {
		path = "."
	}
	for e := strings.TrimPrefix(path, Module+"/"); ; {
		if f, ok := floors[e]; ok {
			return e, f, true
		}
		i := strings.LastIndexByte(e, '/')
		if i < 0 {
			return "", 0, false
		}
		e = e[:i]
	}
}
