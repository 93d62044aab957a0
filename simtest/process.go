package simtest

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"runtime/debug"

	"github.com/go-logr/logr"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/features"
	"k8s.io/klog/v2"
)

// takeOver sets what is the process's and not a run's. It comes before everything
// else: the API server's goroutines read some of it.
func takeOver() {
	quietLogs()
	collectLess()
	allowSeeding()
	takeOverErrors()
	listPlainly()
}

// quietLogs lets upstream's server keep its many lines to itself, unless the test
// asked for words.
func quietLogs() {
	if !*flagVerbose {
		klog.SetLogger(logr.Discard())
	}
}

// memoryLimit is from where on the collector runs as often as it has to, in bytes.
const memoryLimit = 768 << 20

// collectLess lets the garbage collector run less often than by default, unless
// somebody has said how often: the server's own objects are 100 MB that live for ever,
// and a run makes little that lives.
func collectLess() {
	if os.Getenv("GOGC") == "" && os.Getenv("GOMEMLIMIT") == "" {
		debug.SetGCPercent(400)
		debug.SetMemoryLimit(memoryLimit)
	}
}

// allowSeeding lets a run seed what the libraries of controllers draw from:
// math/rand's global source (jitter of client-go). GODEBUG has to allow it; that is
// read again whenever it is set.
func allowSeeding() {
	setting := "randseednop=0"
	if old := os.Getenv("GODEBUG"); old != "" {
		setting = old + "," + setting
	}
	_ = os.Setenv("GODEBUG", setting)
}

// takeOverErrors replaces apimachinery's handlers. The default one sleeps between
// errors by a clock that began outside the bubble, which is 26 years inside; and a
// panic in a controller is to be told, not to end the test binary.
func takeOverErrors() {
	utilruntime.ErrorHandlers = nil
	utilruntime.ReallyCrash = false
	utilruntime.PanicHandlers = []func(context.Context, any){func(_ context.Context, p any) {
		if w := current.Load(); w != nil && p != http.ErrAbortHandler {
			w.panicked("a goroutine of a controller", fmt.Sprintf("%v\n%s", p, debug.Stack()))
		}
	}}
}

// listPlainly makes informers begin with a list and a watch instead of a watch that
// tells first what there is. What comes that way goes through a map on its way into
// the informer (client-go tools/cache/reflector.go, watchList), so that handlers would
// hear of it in an order that no seed decides.
func listPlainly() {
	if gates, ok := features.FeatureGates().(interface {
		Set(features.Feature, bool) error
	}); ok {
		_ = gates.Set(features.WatchListClient, false) // an error: the feature is gone
	}
}
