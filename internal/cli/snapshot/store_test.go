package snapshot

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/rehearse-k8s/rehearse/internal/snapshot"
)

// TestCopyStore: an API server that does not send its store, or stops in its middle, is an error that says what to do.
func TestCopyStore(t *testing.T) {
	var whole bytes.Buffer
	w, err := snapshot.NewStoreWriter(&whole, false, snapshot.Header{KubernetesVersion: "v1.36.3"})
	if err == nil {
		err = w.Write("/registry/a", []byte("1"))
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		code int
		body []byte
		want string
	}{
		"whole":           {http.StatusOK, whole.Bytes(), ""},
		"cut off":         {http.StatusOK, whole.Bytes()[:whole.Len()-3], "the snapshot is truncated: it ends after 1 keys"},
		"another server":  {http.StatusNotFound, []byte("404 page not found"), "this cluster does not serve its store"},
		"no permission":   {http.StatusForbidden, []byte("forbidden"), "the store can be saved only by an administrator"},
		"another content": {http.StatusOK, []byte("hello\n"), "not the snapshot of a store"},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != snapshot.StorePath {
				t.Errorf("%s: request for %s", name, r.URL.Path)
			}
			w.WriteHeader(c.code)
			_, _ = w.Write(c.body)
		}))
		pairs, err := copyStore(t.Context(), &rest.Config{Host: server.URL}, io.Discard, false, func(int) {})
		server.Close()
		switch {
		case c.want == "" && (err != nil || pairs != 1):
			t.Errorf("%s: %d pairs, %v", name, pairs, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
