package apiserver

import (
	"bufio"
	"crypto/tls"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// TestUnusedConnection: a connection to the kubelets that the API server has opened early still takes its first request a minute later.
// HTTP clients do not repeat a request that fails on a connection that was never used, so that a log or an exec would fail under load.
func TestUnusedConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ca, err := pki{dir: t.TempDir()}.newAuthority("ca", "test")
		if err != nil {
			t.Fatal(err)
		}
		k := newKubelets(ca)
		defer k.close()
		pipe, err := k.dialInProcess(t.Context(), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }))
		if err != nil {
			t.Fatal(err)
		}
		conn := tls.Client(pipe, &tls.Config{InsecureSkipVerify: true})
		defer func() { _ = conn.Close() }()
		if err := conn.Handshake(); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Minute)
		request, _ := http.NewRequest(http.MethodGet, "https://node/containerLogs/default/web/main", nil)
		if err := request.Write(conn); err != nil {
			t.Fatal(err)
		}
		answer, err := http.ReadResponse(bufio.NewReader(conn), request)
		if err != nil || answer.StatusCode != http.StatusTeapot {
			t.Errorf("answer %+v, %v", answer, err)
		}
	})
}
