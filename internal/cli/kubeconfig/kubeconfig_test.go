package kubeconfig

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// handmade is a kubeconfig that a user has edited: comments, unknown fields, unusual order.
const handmade = `# work clusters
apiVersion: v1
kind: Config
current-context: prod # careful
users:
- name: admin
  user:
    exec: # rotates every hour
      apiVersion: client.authentication.k8s.io/v1
      command: get-token
      args: ["--cluster", prod]
      interactiveMode: Never
clusters:
# the one that pays the bills
- name: prod
  cluster:
    server: https://prod.example:6443
    some-vendor-field: {keep: me}
contexts:
- name: prod
  context: {cluster: prod, user: admin, namespace: shop}
preferences: {}
`

// entries returns the config of one of our clusters, as package cluster generates it.
func entries(name, server string) *clientcmdapi.Config {
	c := clientcmdapi.NewConfig()
	c.Clusters[name] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: []byte("ca")}
	c.AuthInfos[name] = &clientcmdapi.AuthInfo{ClientCertificateData: []byte("cert"), ClientKeyData: []byte("key")}
	c.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	c.CurrentContext = name
	return c
}

func one(path string) Target { return Target{Files: []string{path}, Path: path} }

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// current returns the current context that kubectl would use with these files.
func current(t *testing.T, files ...string) string {
	t.Helper()
	rules := &clientcmd.ClientConfigLoadingRules{Precedence: files}
	c, err := rules.Load()
	must(t, err)
	return c.CurrentContext
}

// leftovers returns files that a write must not leave behind.
func leftovers(t *testing.T, dir string) {
	t.Helper()
	list, err := os.ReadDir(dir)
	must(t, err)
	for _, e := range list {
		if strings.Contains(e.Name(), ".lock") || strings.HasPrefix(e.Name(), ".") {
			t.Errorf("%s was left behind", e.Name())
		}
	}
}

func TestMergeThenRemoveGivesTheSameBytes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config")
	write(t, path, handmade)
	// Our encoder's layout is kubectl's; after it has written the hand-made file once, the layout is stable.
	d, _, err := readDocument(path)
	must(t, err)
	normal, err := d.encode()
	must(t, err)
	write(t, path, string(normal))

	must(t, one(path).Merge("rehearse-a", entries("rehearse-a", "https://127.0.0.1:1")))
	if got := current(t, path); got != "rehearse-a" {
		t.Errorf("current context is %q", got)
	}
	merged := read(t, path)
	for _, s := range []string{"# work clusters", "# rotates every hour", "# the one that pays the bills", "some-vendor-field"} {
		if !strings.Contains(merged, s) {
			t.Errorf("%q was lost:\n%s", s, merged)
		}
	}
	must(t, one(path).Remove("rehearse-a", "https://127.0.0.1:1"))
	if d := cmp.Diff(string(normal), read(t, path)); d != "" {
		t.Error(d)
	}
	leftovers(t, filepath.Dir(path))
}

func TestOddFiles(t *testing.T) {
	cases := map[string]string{
		"empty file":       "",
		"only comments":    "# nothing yet\n",
		"JSON":             `{"apiVersion":"v1","kind":"Config","clusters":[{"name":"x","cluster":{"server":"https://x"}}],"users":[],"contexts":null}`,
		"null lists":       "apiVersion: v1\nkind: Config\nclusters: null\ncontexts: null\nusers: null\ncurrent-context: \"\"\n",
		"empty flow lists": "apiVersion: v1\nkind: Config\nclusters: []\ncontexts: []\nusers: []\n",
		"no current":       "apiVersion: v1\nkind: Config\nclusters:\n- {name: x, cluster: {server: https://x}}\n",
	}
	for name, content := range cases {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "config")
			write(t, path, content)
			before, err := clientcmd.LoadFromFile(path)
			must(t, err)
			must(t, one(path).Check("rehearse-a"))
			if read(t, path) != content {
				t.Error("Check changed the file")
			}
			must(t, one(path).Merge("rehearse-a", entries("rehearse-a", "https://127.0.0.1:1")))
			got, err := clientcmd.LoadFromFile(path)
			must(t, err)
			if got.CurrentContext != "rehearse-a" || got.Clusters["rehearse-a"].Server != "https://127.0.0.1:1" ||
				string(got.AuthInfos["rehearse-a"].ClientKeyData) != "key" {
				t.Errorf("not merged: %+v", got)
			}
			must(t, one(path).Remove("rehearse-a", "https://127.0.0.1:1"))
			after, err := clientcmd.LoadFromFile(path)
			must(t, err)
			if d := cmp.Diff(before, after); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestCorruptFilesAreRejectedAndUnchanged(t *testing.T) {
	cases := map[string]string{
		"not YAML":         "clusters: [\n",
		"a list":           "- a\n- b\n",
		"lists of strings": "apiVersion: v1\nkind: Config\nclusters: nonsense\n",
		"duplicate keys":   "apiVersion: v1\nkind: Config\nkind: Config\n",
		"two documents":    "apiVersion: v1\nkind: Config\n---\napiVersion: v1\nkind: Config\n",
		"other kind":       "apiVersion: v1\nkind: Pod\n",
		"binary":           "\x00\x01\x02",
		"alias as a list":  "apiVersion: v1\nkind: Config\npreferences:\n  extensions: &e []\nclusters: *e\n",
	}
	for name, content := range cases {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "config")
			write(t, path, content)
			for what, err := range map[string]error{
				"Check":  one(path).Check("rehearse-a"),
				"Merge":  one(path).Merge("rehearse-a", entries("rehearse-a", "https://x")),
				"Remove": one(path).Remove("rehearse-a", ""),
			} {
				if err == nil || !strings.Contains(err.Error(), path) || strings.Contains(err.Error(), "\n") {
					t.Errorf("%s: want one line that names the file, got %q", what, err)
				}
			}
			if read(t, path) != content {
				t.Error("the file was changed")
			}
			leftovers(t, filepath.Dir(path))
		})
	}
}

func TestUnmarkedEntriesOfTheSameNameAreRejected(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config")
	write(t, path, "apiVersion: v1\nkind: Config\nusers:\n- {name: rehearse-a, user: {token: mine}}\n")
	before := read(t, path)
	if err := one(path).Check("rehearse-a"); err == nil || !strings.Contains(err.Error(), "--name") {
		t.Errorf("want an error that names the way out, got %v", err)
	}
	if err := one(path).Merge("rehearse-a", entries("rehearse-a", "https://x")); err == nil {
		t.Error("merged over an unmarked user")
	}
	must(t, one(path).Remove("rehearse-a", ""))
	if read(t, path) != before {
		t.Error("an unmarked entry was removed")
	}
}

func TestRemoveLeavesALaterClusterOfTheSameName(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config")
	must(t, one(path).Merge("rehearse-a", entries("rehearse-a", "https://127.0.0.1:2")))
	before := read(t, path)
	must(t, one(path).Remove("rehearse-a", "https://127.0.0.1:1"))
	if read(t, path) != before {
		t.Error("the entries of another server were removed")
	}
}

func TestStaleEntriesAreReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config")
	write(t, path, handmade)
	must(t, one(path).Merge("rehearse-a", entries("rehearse-a", "https://127.0.0.1:1")))
	must(t, one(path).Merge("rehearse-a", entries("rehearse-a", "https://127.0.0.1:2"))) // after a kill -9
	must(t, one(path).Remove("rehearse-a", "https://127.0.0.1:2"))
	if got := current(t, path); got != "prod" {
		t.Errorf("the context before the killed cluster was forgotten: %q", got)
	}
}

func TestUserMovedOn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config")
	write(t, path, handmade)
	must(t, one(path).Merge("rehearse-a", entries("rehearse-a", "https://x")))
	write(t, path, strings.Replace(read(t, path), "current-context: rehearse-a", "current-context: other", 1))
	must(t, one(path).Remove("rehearse-a", "https://x"))
	if got := current(t, path); got != "other" {
		t.Errorf("current context %q: the user's own choice must stay", got)
	}
}

func TestTwoClustersInEveryOrder(t *testing.T) {
	for _, order := range [][]string{{"rehearse-a", "rehearse-b"}, {"rehearse-b", "rehearse-a"}} {
		for _, existed := range []bool{true, false} {
			path := filepath.Join(t.TempDir(), "config")
			if existed {
				write(t, path, handmade)
			}
			must(t, one(path).Merge("rehearse-a", entries("rehearse-a", "https://a")))
			must(t, one(path).Merge("rehearse-b", entries("rehearse-b", "https://b")))
			must(t, one(path).Remove(order[0], ""))
			if got := current(t, path); got != order[1] {
				t.Errorf("%v: after the first removal %q", order, got)
			}
			must(t, one(path).Remove(order[1], ""))
			if !existed {
				if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
					t.Errorf("%v: the file that the first cluster created is still there", order)
				}
				continue
			}
			if got := current(t, path); got != "prod" {
				t.Errorf("%v: at the end %q", order, got)
			}
		}
	}
}

func TestCreatedFileStaysWhenOthersUseIt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sub", "config")
	must(t, one(path).Merge("rehearse-a", entries("rehearse-a", "https://a")))
	info, err := os.Stat(path)
	must(t, err)
	if info.Mode().Perm() != 0o600 {
		t.Errorf("a new kubeconfig has mode %o", info.Mode().Perm())
	}
	c, err := clientcmd.LoadFromFile(path)
	must(t, err)
	c.Clusters["mine"] = &clientcmdapi.Cluster{Server: "https://mine"}
	must(t, clientcmd.WriteToFile(*c, path)) // as kubectl config does: our marks must be preserved
	must(t, one(path).Remove("rehearse-a", "https://a"))
	c, err = clientcmd.LoadFromFile(path)
	must(t, err)
	if len(c.Clusters) != 1 || c.Clusters["mine"] == nil || c.CurrentContext != "" || len(c.AuthInfos) != 0 {
		t.Errorf("left: %+v", c)
	}
}
