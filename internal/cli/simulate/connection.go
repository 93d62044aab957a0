package simulate

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"
)

// tolerated is how long the API server may not answer before the user is informed. Reconnecting after a
// broken connection takes less.
const tolerated = 2 * time.Second

// connection detects from the requests of the controllers when the API server stops answering and when it answers again,
// and reports each once.
type connection struct {
	say func(format string, args ...any)
	now func() time.Time

	mu    sync.Mutex
	since time.Time // time of the first of the unanswered requests in a row
	said  bool
}

// watch wraps a transport.
func (c *connection) watch(next http.RoundTripper) http.RoundTripper {
	return transport{next, func(r *http.Request) (*http.Response, error) {
		answer, err := next.RoundTrip(r)
		if !errors.Is(r.Context().Err(), context.Canceled) {
			c.note(err)
		}
		return answer, err
	}}
}

// note records the result of a request.
func (c *connection) note(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	switch {
	case err == nil:
		if c.said {
			c.say("The API server answers again, after %.0f s.", now.Sub(c.since).Seconds())
		}
		c.since, c.said = time.Time{}, false
	case c.since.IsZero():
		c.since = now
	case !c.said && now.Sub(c.since) >= tolerated:
		c.said = true
		c.say("The API server does not answer: %v; retrying.", err)
	}
}

// away reports whether the last request had no answer.
func (c *connection) away() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.since.IsZero()
}

// transport is a RoundTripper that wraps another one with a function.
type transport struct {
	next  http.RoundTripper
	round func(*http.Request) (*http.Response, error)
}

// RoundTrip implements http.RoundTripper.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) { return t.round(r) }

// WrappedRoundTripper lets client-go find the transport inside.
func (t transport) WrappedRoundTripper() http.RoundTripper { return t.next }
