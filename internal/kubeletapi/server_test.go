package kubeletapi

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestNodePaths: the header of the API server's proxy names the node of a request.
func TestNodePaths(t *testing.T) {
	s := New(Options{NodePaths: map[string]func(http.ResponseWriter, *http.Request, string){
		"/stats/summary": func(w http.ResponseWriter, _ *http.Request, node string) { _, _ = fmt.Fprint(w, node) },
	}})
	for forwarded, want := range map[string]string{
		"/api/v1/nodes/node-0/proxy/stats/summary":             "200 node-0",
		"/api/v1/nodes/https:node-1:10250/proxy/stats/summary": "200 node-1",
		"/api/v1/nodes/node-2:10250/proxy/stats/summary":       "200 node-2",
		"/api/v1/pods/node-0/proxy":                            `400 /stats/summary: the path "/api/v1/pods/node-0/proxy" does not name a node`,
		"":                                                     `400 /stats/summary: the path "" does not name a node`,
	} {
		r, w := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/stats/summary", nil), httptest.NewRecorder()
		r.Header.Set("X-Forwarded-Uri", forwarded)
		s.ServeHTTP(w, r)
		if got := fmt.Sprint(w.Code, " ", w.Body); got != want {
			t.Errorf("%s: got %q, want %q", forwarded, got, want)
		}
	}
}
