package cli

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rehearse-k8s/rehearse/internal/cli/console"
)

// TestSnapshotInterrupted: Ctrl-C ends a save and a restore while the API server does not answer; save leaves no file.
func TestSnapshotInterrupted(t *testing.T) {
	for _, hangs := range []string{"/version", "/api", "/api/v1/pods"} {
		asked := make(chan struct{}, 16)
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == hangs {
				asked <- struct{}{}
				<-r.Context().Done()
				return
			}
			w.Header().Set("Content-Type", "application/json")
			answer := map[string]string{
				"/version": `{"gitVersion": "v1.36.3"}`,
				"/api":     `{"kind": "APIVersions", "versions": ["v1"]}`,
				"/apis":    `{"kind": "APIGroupList", "apiVersion": "v1", "groups": []}`,
				"/api/v1":  `{"kind": "APIResourceList", "groupVersion": "v1", "resources": [{"name": "pods", "kind": "Pod", "namespaced": true, "verbs": ["list", "create"]}]}`,
			}[r.URL.Path]
			if answer == "" {
				w.WriteHeader(http.StatusNotFound)
			}
			_, _ = w.Write([]byte(answer))
		}))
		t.Cleanup(server.Close)
		for _, command := range []string{"save", "restore"} {
			if command == "restore" && hangs != "/api" {
				continue // it sends no other request before its first write
			}
			b := newBench(t)
			dir := t.TempDir()
			file, config := filepath.Join(dir, "a.yaml"), filepath.Join(b.home, "config")
			writeFile(t, config, "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{name: c, context: {cluster: c}}]\nclusters: [{name: c, cluster: {server: \""+server.URL+"\"}}]\n")
			want := "Interrupted: " + file + " was not written."
			if command == "restore" {
				const version = "apiVersion: rehearse-k8s.github.io/v1alpha1\n"
				writeFile(t, file, version+"kind: Snapshot\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: a}\n---\n"+version+"kind: SnapshotEnd\n")
				want = "Interrupted: 0 of 1 objects are restored; "
			}
			code := b.begin("snapshot", command, file, "--kubeconfig", config)
			<-asked
			b.signal <- os.Interrupt
			if got := b.line(t); !strings.HasPrefix(got, want) {
				t.Errorf("%s, %s hangs: %s", command, hangs, got)
			}
			if c := <-code; c != console.ExitInterrupted {
				t.Errorf("%s, %s hangs: exit code %d", command, hangs, c)
			}
			if files, _ := os.ReadDir(dir); command == "save" && len(files) > 0 {
				t.Errorf("%s hangs: files %v", hangs, files)
			}
		}
	}
}
