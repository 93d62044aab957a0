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

// lived is a life that ends in some way.
type lived func(ctx context.Context, synced func()) error

func (l lived) Run(ctx context.Context, synced func()) error { return l(ctx, synced) }

// TestLives: a life whose cache has departed is followed by another one; any other error is
// the controller's, and the end of ctx is none.
func TestLives(t *testing.T) {
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		ends     []error // of one life after the other; then lives go on until ctx ends
		restarts int
		want     error
	}{
		"no trouble":         {nil, 0, nil},
		"departed twice":     {[]error{ErrDeparted, fmt.Errorf("pods: %w", ErrDeparted)}, 2, nil},
		"broken":             {[]error{broken}, 0, broken},
		"departed, broken":   {[]error{ErrDeparted, broken}, 1, broken},
		"ended of its own":   {[]error{nil}, 0, nil},
		"departed, no third": {[]error{ErrDeparted, ErrDeparted, broken}, 2, broken},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, stop := context.WithTimeout(t.Context(), time.Hour)
				defer stop()
				restarts, begun := 0, 0
				lead := make(chan struct{})
				controller, err := NewController("Job", lead, func(error) { restarts++ }, func() (Life, error) {
					begun++
					n := begun
					return lived(func(ctx context.Context, synced func()) error {
						synced()
						if n <= len(c.ends) {
							return c.ends[n-1]
						}
						<-ctx.Done()
						return errors.New("whatever it says then")
					}), nil
				})
				if err != nil {
					t.Fatal(err)
				}
				ended := make(chan error)
				go func() { ended <- controller.Run(ctx) }()
				<-controller.Synced() // it stands by
				close(lead)
				err = <-ended
				if !errors.Is(err, c.want) || err != nil && !strings.HasPrefix(err.Error(), "Job controller: ") {
					t.Errorf("it ended with %v, want %v", err, c.want)
				}
				if restarts != c.restarts || begun != c.restarts+1 {
					t.Errorf("%d lives, %d restarts, want %d", begun, restarts, c.restarts)
				}
			})
		})
	}
}

type word string

func (w word) Ref() klog.ObjectRef { return klog.KRef("", string(w)) }

// TestWork: when a key is looked at again, after what became of it each time.
func TestWork(t *testing.T) {
	type answer struct {
		wake time.Duration
		err  error
	}
	broken, throttled := answer{err: errors.New("broken")}, answer{err: apierrors.NewTooManyRequests("later", 7)}
	stale := answer{err: fmt.Errorf("so to say: %w", ErrStale)}
	for name, c := range map[string]struct {
		answers []answer
		want    []time.Duration // since the beginning
	}{
		"nothing to come":   {[]answer{{}}, []time.Duration{0}},
		"wakes":             {[]answer{{wake: time.Minute}, {}}, []time.Duration{0, time.Minute}},
		"errors in a row":   {[]answer{broken, broken, broken, {}}, []time.Duration{0, RetryFirst, 3 * RetryFirst, 7 * RetryFirst}},
		"the API says when": {[]answer{throttled, {}}, []time.Duration{0, 7 * time.Second}},
		"stale is no error": {[]answer{broken, stale, broken, {}}, []time.Duration{0, RetryFirst, RetryFirst + Fallback, 2*RetryFirst + Fallback}},
		"wake after errors": {[]answer{broken, {wake: time.Second}, broken, {}}, []time.Duration{0, RetryFirst, RetryFirst + time.Second, 2*RetryFirst + time.Second}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, stop := context.WithTimeout(t.Context(), time.Hour)
				defer stop()
				queue := NewQueue[word]("", nil)
				defer context.AfterFunc(ctx, queue.ShutDown)()
				began := time.Now()
				var at []time.Duration
				queue.Add("a")
				Work(ctx, "Word", queue, 3, func(_ context.Context, k word) (time.Duration, error) {
					at = append(at, time.Since(began))
					a := c.answers[len(at)-1]
					return a.wake, a.err
				})
				if !slices.Equal(at, c.want) {
					t.Errorf("looked at after %v, want %v", at, c.want)
				}
			})
		})
	}
}
