package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"
)

// instanceFunc is an Instance whose Run is a function.
type instanceFunc func(ctx context.Context, synced func()) error

func (f instanceFunc) Run(ctx context.Context, synced func()) error { return f(ctx, synced) }

// TestRestarts checks that an Instance that returns ErrDiverged is replaced, and that Run returns any other
// error, and nil when ctx ends.
func TestRestarts(t *testing.T) {
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		ends     []error // results of the Instances in order; the next one runs until ctx ends
		restarts int
		want     error
	}{
		"no error":           {nil, 0, nil},
		"diverged twice":     {[]error{ErrDiverged, fmt.Errorf("pods: %w", ErrDiverged)}, 2, nil},
		"broken":             {[]error{broken}, 0, broken},
		"diverged, broken":   {[]error{ErrDiverged, broken}, 1, broken},
		"returned nil":       {[]error{nil}, 0, nil},
		"diverged, no third": {[]error{ErrDiverged, ErrDiverged, broken}, 2, broken},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, stop := context.WithTimeout(t.Context(), time.Hour)
				defer stop()
				restarts, started := 0, 0
				lead := make(chan struct{})
				controller, err := NewController("Job", lead, func(bool) { restarts++ }, func(*Corrections) (Instance, error) {
					started++
					n := started
					return instanceFunc(func(ctx context.Context, synced func()) error {
						synced()
						if n <= len(c.ends) {
							return c.ends[n-1]
						}
						<-ctx.Done()
						return errors.New("an error after ctx has ended")
					}), nil
				})
				if err != nil {
					t.Fatal(err)
				}
				ended := make(chan error)
				go func() { ended <- controller.Run(ctx) }()
				<-controller.Synced() // standby
				close(lead)
				err = <-ended
				if !errors.Is(err, c.want) || err != nil && !strings.HasPrefix(err.Error(), "run Job controller: ") {
					t.Errorf("error %v, want %v", err, c.want)
				}
				if restarts != c.restarts || started != c.restarts+1 {
					t.Errorf("%d instances, %d restarts, want %d", started, restarts, c.restarts)
				}
			})
		})
	}
}

type word string

func (w word) Ref() klog.ObjectRef { return klog.KRef("", string(w)) }

// TestLoop checks when a key is reconciled again, depending on the previous results.
func TestLoop(t *testing.T) {
	type result struct {
		wake time.Duration
		err  error
	}
	broken, throttled := result{err: errors.New("broken")}, result{err: apierrors.NewTooManyRequests("later", 7)}
	stale := result{err: fmt.Errorf("patch pod: %w", ErrStale)}
	for name, c := range map[string]struct {
		answers []result
		want    []time.Duration // since the start
	}{
		"no wake":               {[]result{{}}, []time.Duration{0}},
		"wakes":                 {[]result{{wake: time.Minute}, {}}, []time.Duration{0, time.Minute}},
		"errors in a row":       {[]result{broken, broken, broken, {}}, []time.Duration{0, RetryFirst, 3 * RetryFirst, 7 * RetryFirst}},
		"Retry-After":           {[]result{throttled, {}}, []time.Duration{0, 7 * time.Second}},
		"stale is not an error": {[]result{broken, stale, broken, {}}, []time.Duration{0, RetryFirst, RetryFirst + Fallback, 2*RetryFirst + Fallback}},
		"wake after errors":     {[]result{broken, {wake: time.Second}, broken, {}}, []time.Duration{0, RetryFirst, RetryFirst + time.Second, 2*RetryFirst + time.Second}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, stop := context.WithTimeout(t.Context(), time.Hour)
				defer stop()
				queue := NewQueue[word]("", nil)
				began := time.Now()
				var at []time.Duration
				queue.Add("a")
				waited := false
				loop := Loop[word]{Kind: "Word", Queue: queue, Workers: 3, Sync: func(_ context.Context, k word) (time.Duration, error) {
					at = append(at, time.Since(began))
					a := c.answers[len(at)-1]
					return a.wake, a.err
				}}
				err := loop.Run(ctx, func(context.Context) (func(), bool) { return func() { waited = true }, true })
				if err != nil || !waited {
					t.Errorf("error %v, waited for the informers: %t", err, waited)
				}
				if !slices.Equal(at, c.want) {
					t.Errorf("reconciled after %v, want %v", at, c.want)
				}
			})
		})
	}
}
