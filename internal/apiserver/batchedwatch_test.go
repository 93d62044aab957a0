package apiserver

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// connection records what a handler does with it.
type connection struct {
	http.ResponseWriter
	calls []string
	err   error
}

func (c *connection) Write(p []byte) (int, error) {
	c.calls = append(c.calls, string(p))
	return len(p), c.err
}

func (c *connection) Flush() { c.calls = append(c.calls, "flush") }

// TestBatchedWatches: what a watch writes between two flushes is one write of the connection, unless it is large.
func TestBatchedWatches(t *testing.T) {
	large := strings.Repeat("x", batchBytes+1)
	flush := func(w http.ResponseWriter) { w.(http.Flusher).Flush() }
	watch, proxied := "/api/v1/pods?watch=true", "/api/v1/namespaces/a/services/b/proxy/?watch=true"
	for name, c := range map[string]struct {
		path    string
		upgrade bool
		writes  string // one event per word; "flush" flushes
		want    []string
	}{
		"events":                    {watch, false, "a b c flush d e flush", []string{"abc", "flush", "de", "flush"}},
		"nothing to flush":          {watch, false, "flush a flush flush", []string{"flush", "a", "flush", "flush"}},
		"the end":                   {watch, false, "a flush b c", []string{"a", "flush", "bc"}},
		"large":                     {watch, false, "a " + large + " b flush", []string{"a", large, "b", "flush"}},
		"fills the batch":           {watch, false, "a " + large[2:] + " b flush", []string{"a" + large[2:], "b", "flush"}},
		"the form of old clients":   {"/api/v1/watch/pods", false, "a b flush", []string{"ab", "flush"}},
		"a list":                    {"/api/v1/pods?watch=false", false, "a b", []string{"a", "b"}},
		"the logs of a pod":         {"/api/v1/namespaces/a/pods/b/log?follow=true", false, "a b", []string{"a", "b"}},
		"a watch behind a service":  {proxied, false, "a b", []string{"a", "b"}},
		"a watch over a web socket": {watch, true, "a b", []string{"a", "b"}},
	} {
		t.Run(name, func(t *testing.T) {
			handler := withBatchedWatches(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				for _, word := range strings.Fields(c.writes) {
					if word == "flush" {
						flush(w)
					} else if n, err := w.Write([]byte(word)); n != len(word) || err != nil {
						t.Errorf("%d bytes of %d: %v", n, len(word), err)
					}
				}
			}))
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, c.path, nil)
			if c.upgrade {
				r.Header.Set("Connection", "Upgrade")
				r.Header.Set("Upgrade", "websocket")
			}
			got := &connection{ResponseWriter: httptest.NewRecorder()}
			handler.ServeHTTP(got, r)
			if d := cmp.Diff(c.want, got.calls); d != "" {
				t.Error(d)
			}
		})
	}
}

// TestBatchedWatchError: when the connection is broken, the handler learns it at its next write.
func TestBatchedWatchError(t *testing.T) {
	broken := errors.New("broken")
	c := &connection{ResponseWriter: httptest.NewRecorder(), err: broken}
	withBatchedWatches(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if _, err := w.Write([]byte("a")); err != nil {
			t.Error(err)
		}
		w.(http.Flusher).Flush()
		if n, err := w.Write([]byte("b")); n != 0 || !errors.Is(err, broken) {
			t.Errorf("%d bytes, error %v", n, err)
		}
	})).ServeHTTP(c, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/api/v1/pods?watch=1", nil))
	if d := cmp.Diff([]string{"a", "flush"}, c.calls); d != "" {
		t.Error(d)
	}
}

// TestBatchReleasesMemory: a watch without waiting events has no buffer, whatever the size of its last event.
func TestBatchReleasesMemory(t *testing.T) {
	w := &batchedResponse{ResponseWriter: httptest.NewRecorder(), flusher: httptest.NewRecorder()}
	for _, size := range []int{100, batchBytes, 4 * batchBytes} {
		if _, err := w.Write(make([]byte, size)); err != nil {
			t.Fatal(err)
		}
		w.Flush()
		if w.waiting != nil {
			t.Errorf("after an event of %d bytes, the watch has a buffer of %d", size, cap(*w.waiting))
		}
	}
}
