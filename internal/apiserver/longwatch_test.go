package apiserver

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestLongWatches: a server of runs does not end the watches of its own clients within a week. Other requests stay as they are.
func TestLongWatches(t *testing.T) {
	received := ""
	handler := withLongWatches(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { received = r.URL.RequestURI() }))
	for sent, want := range map[string]string{
		"/api/v1/pods?timeoutSeconds=433&watch=true":  "/api/v1/pods?timeoutSeconds=604800&watch=true",
		"/api/v1/pods?allowWatchBookmarks=true":       "/api/v1/pods?allowWatchBookmarks=true",
		"/api/v1/pods?timeoutSeconds=60":              "/api/v1/pods?timeoutSeconds=60",
		"/api/v1/namespaces/default/pods/a/log?tail=": "/api/v1/namespaces/default/pods/a/log?tail=",
	} {
		r := httptest.NewRequest(http.MethodGet, sent, nil)
		handler.ServeHTTP(httptest.NewRecorder(), r)
		if received != want || r.URL.RequestURI() != sent {
			t.Errorf("%s was received as %s, want %s; the request of the caller is %s", sent, received, want, r.URL.RequestURI())
		}
	}
}
