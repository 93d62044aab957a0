package apiserver_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/rehearse-k8s/rehearse/internal/apiserver"
	"github.com/rehearse-k8s/rehearse/internal/store"
)

// TestSelfHooks: a normal server has the hooks of these names and writes about itself; a server of runs does
// not.
func TestSelfHooks(t *testing.T) {
	runs := startRuns(t)
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

// startRuns starts a server of runs, which stops at the end of the test.
func startRuns(t *testing.T) *apiserver.Server {
	t.Helper()
	s, err := apiserver.Start(t.Context(), apiserver.Options{Dir: t.TempDir(), Backend: apiserver.Memory{Worlds: store.New(store.Options{})}, Runs: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	if err := s.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestOwnWatchesStay: a watch of one second through the socket of a server of runs, as its own clients send it, is still open when two such watches
// of another server have ended, one after the other.
func TestOwnWatchesStay(t *testing.T) {
	watchSecond := func(s *apiserver.Server) <-chan watch.Event {
		c, err := kubernetes.NewForConfig(outside(t, s, "admin", "system:masters"))
		if err != nil {
			t.Fatal(err)
		}
		w, err := c.CoreV1().ConfigMaps("default").Watch(t.Context(), metav1.ListOptions{TimeoutSeconds: ptr.To(int64(1))})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(w.Stop)
		return w.ResultChan()
	}
	stays := watchSecond(startRuns(t))
	for range 2 {
		for range watchSecond(shared) { // until it ends
		}
	}
	for {
		select {
		case _, open := <-stays:
			if !open {
				t.Fatal("the watch has ended")
			}
		default:
			return
		}
	}
}
