package cluster

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rehearse-k8s/rehearse/internal/cli/console"
)

// testApp is an app in an empty home directory that prints nothing.
func testApp(t *testing.T) *app {
	t.Helper()
	home := t.TempDir()
	c := console.New(console.Streams{In: strings.NewReader(""), Out: io.Discard, Err: io.Discard})
	c.Getenv = func(k string) string { return map[string]string{"HOME": home}[k] }
	return &app{Console: c}
}

func TestChildArgs(t *testing.T) {
	a := testApp(t)
	cmd := a.upCommand()
	if err := cmd.ParseFlags([]string{"--detach", "--nodes", "5", "-v2", `--stages=a,"b,c"`, "--etcd-servers", "http://x"}); err != nil {
		t.Fatal(err)
	}
	want := "up --etcd-servers=http://x --nodes=5 --stages=a,\"b,c\" --verbosity=2 --name=rehearse"
	if got := strings.Join(childArgs(cmd), " "); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestNamesCluster(t *testing.T) {
	cases := map[string]bool{
		"get pods":                        false,
		"get pods --context x":            true,
		"--context=x get pods":            true,
		"get pods --kubeconfig=f":         true,
		"get pods -s https://x":           true,
		"get pods -shttps://x":            true,
		"get pods --server=x":             true,
		"get pods --cluster x":            true,
		"exec p -- curl --context x":      false,
		"get pods --selector=a":           false,
		"create secret generic s":         false,
		"logs -f --since=1h p":            false,
		"get pods --show-labels":          false,
		"label pod p context=x -n system": false,
	}
	for args, want := range cases {
		if got := namesCluster(strings.Fields(args)); got != want {
			t.Errorf("%s: %v", args, got)
		}
	}
}

func writeFile(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}
