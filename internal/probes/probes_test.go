package probes

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestServer(t *testing.T) {
	var missing error = errors.New("informers have not synced")
	s, err := Listen("127.0.0.1:0", Registry(), func() error { return nil }, func() error { return missing })
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	expect(t, s, "/healthz", 200, "ok")
	expect(t, s, "/readyz", 503, "informers have not synced")
	missing = nil
	expect(t, s, "/readyz", 200, "ok")
	expect(t, s, "/metrics", 200, "process_cpu_seconds_total")
	expect(t, s, "/metrics", 200, "go_goroutines")
	expect(t, s, "/else", 404, "")
	if _, err := Listen(s.Address(), Registry()); err == nil {
		t.Error("one address for two servers")
	}
}

func expect(t *testing.T, s *Server, path string, code int, text string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Get("http://" + s.Address() + path)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != code || !strings.Contains(string(body), text) {
		t.Errorf("%s: %d %s %v", path, answer.StatusCode, body, err)
	}
}

func TestNoServer(t *testing.T) {
	for _, none := range []string{"", Off} {
		s, err := Listen(none, Registry())
		if s != nil || err != nil || s.Address() != "" {
			t.Errorf("%q: %v %v", none, s, err)
		}
		s.Close()
	}
}

func TestCheckAddress(t *testing.T) {
	for _, good := range []string{"", "0", ":8080", "127.0.0.1:0", "[::1]:9", "0.0.0.0:80", "localhost:1"} {
		if err := CheckAddress(good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	for _, bad := range []string{"8080", "127.0.0.1", ":70000", "host.example:80", ":x", "1.2.3:80"} {
		if err := CheckAddress(bad); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}
