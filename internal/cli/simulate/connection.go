package simulate

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"
)

// tolerated is how long the API server may be silent before a user is told: a
// connection that breaks is made again in less.
const tolerated = 2 * time.Second

// connection notices that the API server goes away and comes back, from the
// requests that are sent anyway, and says each once.
type connection struct {
	say func(format string, args ...any)
	now func() time.Time

	mu    sync.Mutex
	since time.Time // of the first request in a row without an answer
	told  bool
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

// note takes in how a request went.
func (c *connection) note(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	switch {
	case err == nil:
		if c.told {
			c.say("The API server answers again, after %.0f s.", now.Sub(c.since).Seconds())
		}
		c.since, c.told = time.Time{}, false
	case c.since.IsZero():
		c.since = now
	case !c.told && now.Sub(c.since) >= tolerated:
		c.told = true
		c.say("The API server does not answer: %v; trying again until it does.", err)
	}
}

// away tells whether the last request had no answer.
func (c *connection) away() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.since.IsZero()
}

// transport is a RoundTripper made of a function, around another one.
type transport struct {
	next  http.RoundTripper
	round func(*http.Request) (*http.Response, error)
}

// RoundTrip implements http.RoundTripper.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) { return t.round(r) }

// WrappedRoundTripper lets client-go find the transport inside.
func (t transport) WrappedRoundTripper() http.RoundTripper { return t.next }
