package simtest

import (
	"errors"
	"flag"
	"fmt"
	"slices"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/rehearse-k8s/rehearse/fault"
)

// Options say how a test searches. The zero value is ready for use; each method
// returns a copy with one thing changed, so that they can be strung together:
//
//	simtest.Seeds(200).Budget(10 * time.Second)
type Options struct {
	runs   int
	budget time.Duration
	seed   uint64
	level  fault.Level
	scheme *runtime.Scheme
	crds   []*apiextensionsv1.CustomResourceDefinition
}

// Seeds is how many runs there are at most, those without faults included. The
// default is 200. The flag -simtest.seeds overrides it.
func Seeds(n int) Options { return Options{}.Seeds(n) }

// Seeds sets how many runs there are at most.
func (o Options) Seeds(n int) Options { o.runs = n; return o }

// Budget sets how long the search may take, by the machine's clock. The flag
// -simtest.budget overrides it.
func (o Options) Budget(d time.Duration) Options { o.budget = d; return o }

// Seed sets the seed of the first run; the default is 1.
func (o Options) Seed(n uint64) Options { o.seed = n; return o }

// Level sets what may go wrong; the default is fault.Legal.
func (o Options) Level(l fault.Level) Options { o.level = l; return o }

// Scheme tells the kinds of the story's own Go types.
func (o Options) Scheme(s *runtime.Scheme) Options { o.scheme = s; return o }

// CRDs are installed, once in the process, before the first run.
func (o Options) CRDs(crds ...*apiextensionsv1.CustomResourceDefinition) Options {
	o.crds = append(o.crds[:len(o.crds):len(o.crds)], crds...)
	return o
}

// check refuses what makes no sense, in the options and in the flags.
func (o Options) check() error {
	switch {
	case o.runs < 0:
		return fmt.Errorf("simtest: Seeds(%d): want a number from 1", o.runs)
	case o.budget < 0:
		return fmt.Errorf("simtest: Budget(%s): want a time above zero", o.budget)
	case *flagSeeds < 0:
		return fmt.Errorf("-simtest.seeds=%d: want a number from 1", *flagSeeds)
	case *flagBudget < 0:
		return fmt.Errorf("-simtest.budget=%s: want a time above zero", *flagBudget)
	case *flagStuck <= 0:
		return fmt.Errorf("-simtest.stuck=%s: want a time above zero", *flagStuck)
	case slices.Contains(o.crds, nil):
		return errors.New("simtest: CRDs: one of them is nil")
	}
	return nil
}

// settings are the options with their defaults.
type settings struct {
	Options
	scheme   *runtime.Scheme
	matching map[uint64]bool // hashes of states that are as the baseline expects
}

func (o Options) settings() *settings {
	if o.seed == 0 {
		o.seed = 1
	}
	s := &settings{Options: o, scheme: o.scheme, matching: map[uint64]bool{}}
	if s.scheme == nil {
		s.scheme = scheme.Scheme
	}
	return s
}

var (
	flagSeeds   = flag.Int("simtest.seeds", 0, "how many runs a simtest makes at most; 0: what the test says")
	flagBudget  = flag.Duration("simtest.budget", 0, "how long a simtest searches at most, as in 5m; 0: what the test says")
	flagReplay  = flag.String("simtest.replay", "", "play the run of this file again, and nothing else")
	flagVerbose = flag.Bool("simtest.v", false, "show every run, and the logs of the API server and of controllers")
	flagAsk     = flag.Bool("simtest.ask", false, "ask the API server each time, also what it has answered before in the same state")
	flagStuck   = flag.Duration("simtest.stuck", 10*time.Second, "how long a run may stand still, by the machine's clock, before it counts as stuck")
)
