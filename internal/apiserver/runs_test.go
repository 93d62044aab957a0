package apiserver_test

import (
	"strings"
	"testing"

	"github.com/rehearse-k8s/rehearse/internal/apiserver"
	"github.com/rehearse-k8s/rehearse/internal/store"
)

// TestSelfHooks: a normal server has the hooks of these names and writes about itself; a server of runs does
// not.
func TestSelfHooks(t *testing.T) {
	runs, err := apiserver.Start(t.Context(), apiserver.Options{Dir: t.TempDir(), Backend: apiserver.Memory{Worlds: store.New(store.Options{})}, Runs: true})
	if err != nil {
		t.Fatal(err)
	}
	defer runs.Stop()
	if err := runs.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	hooks := func(s *apiserver.Server) string {
		text, err := client(t, s).Discovery().RESTClient().Get().AbsPath("/readyz").Param("verbose", "true").DoRaw(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	all, ofRuns := hooks(shared), hooks(runs)
	for _, name := range apiserver.SelfHooks {
		line := "poststarthook/" + name + " ok"
		if !strings.Contains(all, line) {
			t.Errorf("no server has the hook %s (any more)", name)
		}
		if strings.Contains(ofRuns, line) {
			t.Errorf("a server of runs has the hook %s", name)
		}
	}
}
