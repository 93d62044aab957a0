//go:build unix

package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/proxy"
)

// TestWalkThroughProxy runs the script TestClusterScripts/walk with a kubectl behind the proxy, which records
// every request and has no faults: the results are the same.
func TestWalkThroughProxy(t *testing.T) {
	const begin = "exec rehearse up --detach --nodes 3\n"
	walk, err := os.ReadFile("testdata/cluster/walk.txtar")
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Count(walk, []byte(begin)) != 1 {
		t.Fatalf("the walk does not begin with %q", begin)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "walk.txtar")
	if err := os.WriteFile(file, bytes.Replace(walk, []byte(begin), []byte(begin+"proxied rehearse\n"), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	params := scripts(dir)
	params.UpdateScripts = false
	var run *proxy.Run
	params.Cmds["proxied"] = func(ts *testscript.TestScript, _ bool, args []string) {
		run = proxied(ts, args[0])
	}
	t.Run("scripts", func(t *testing.T) { testscript.Run(t, params) })
	if run == nil {
		t.Fatal("nothing went through the proxy")
	}
	verbs := map[string]int{}
	for _, s := range run.End().Steps {
		verbs[s.Verb]++
	}
	for _, verb := range []string{"get", "list", "watch", "create", "patch", "delete"} {
		if verbs[verb] < 3 {
			t.Errorf("%d requests of verb %s were recorded", verbs[verb], verb)
		}
	}
}

// proxied puts a proxy in front of the cluster for kubectl.
func proxied(ts *testscript.TestScript, name string) *proxy.Run {
	file := scriptRoot(ts).KubeconfigPath(name)
	config, err := clientcmd.BuildConfigFromFlags("", file)
	ts.Check(err)
	p, err := proxy.New(config)
	ts.Check(err)
	listener, err := p.Listen("kubectl", config)
	ts.Check(err)
	ts.Defer(func() { _ = listener.Close() })
	run, err := p.Begin(history.Header{}, nil, proxy.Hooks{})
	ts.Check(err)
	kubeconfig, err := listener.Kubeconfig("")
	ts.Check(err)
	ts.Check(os.WriteFile(file, kubeconfig, 0o600))
	return run
}
