package simtest

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"runtime/debug"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/features"

	"github.com/rehearse-k8s/rehearse/internal/apiserver"
)

// configureProcess sets what is global to the process. It runs before everything else, because
// goroutines of the API server read some of it.
func configureProcess() {
	discardLogs()
	relaxGC()
	allowSeeding()
	replaceErrorHandlers()
	disableWatchList()
}

// discardLogs discards the logs of the API server and of client-go, unless -simtest.v is set.
func discardLogs() {
	if !*flagVerbose {
		apiserver.Quiet()
	}
}

// memoryLimit is the heap size in bytes from which the garbage collector runs as often as
// necessary.
const memoryLimit = 768 << 20

// relaxGC lets the garbage collector run less often than by default, unless GOGC or GOMEMLIMIT is
// set: the server's own objects take 100 MB for the life of the process, and little of what a run
// allocates stays reachable.
func relaxGC() {
	if os.Getenv("GOGC") == "" && os.Getenv("GOMEMLIMIT") == "" {
		debug.SetGCPercent(800)
		debug.SetMemoryLimit(memoryLimit)
	}
}

// allowSeeding permits seeding the global source of math/rand, which client-go draws jitter from.
// GODEBUG has to allow it; the Go runtime reads GODEBUG again whenever it is set.
func allowSeeding() {
	setting := "randseednop=0"
	if old := os.Getenv("GODEBUG"); old != "" {
		setting = old + "," + setting
	}
	_ = os.Setenv("GODEBUG", setting)
}

// replaceErrorHandlers replaces apimachinery's handlers. The default error handler sleeps between
// errors, and its clock started outside the bubble, so in the bubble it would sleep for 26 years. A
// panic in a controller must fail the run, not terminate the test binary.
func replaceErrorHandlers() {
	utilruntime.ErrorHandlers = nil
	utilruntime.ReallyCrash = false
	utilruntime.PanicHandlers = []func(context.Context, any){func(_ context.Context, p any) {
		if w := current.Load(); w != nil && p != http.ErrAbortHandler {
			w.panicked("a goroutine of a controller", fmt.Sprintf("%v\n%s", p, debug.Stack()))
		}
	}}
}

// disableWatchList makes informers start with a list and a watch instead of a watch-list. A
// watch-list passes the initial objects through a Go map (client-go tools/cache/reflector.go,
// watchList), so handlers would receive them in an order that no seed determines.
func disableWatchList() {
	if gates, ok := features.FeatureGates().(interface {
		Set(features.Feature, bool) error
	}); ok {
		_ = gates.Set(features.WatchListClient, false) // an error means that the feature gate no longer exists
	}
}
