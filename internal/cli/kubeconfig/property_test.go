package kubeconfig

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"pgregory.net/rapid"
)

// anyConfig generates a kubeconfig as client-go would write it.
func anyConfig(t *rapid.T) *clientcmdapi.Config {
	c := clientcmdapi.NewConfig()
	word := rapid.StringMatching(`[a-zA-Z0-9:/@._ #'"\\-]{1,20}`)
	for range rapid.IntRange(0, 4).Draw(t, "clusters") {
		c.Clusters[word.Draw(t, "cluster")] = &clientcmdapi.Cluster{
			Server:                   "https://" + rapid.StringMatching(`[a-z]{1,9}`).Draw(t, "server"),
			CertificateAuthorityData: rapid.SliceOf(rapid.Byte()).Draw(t, "ca"),
		}
	}
	for range rapid.IntRange(0, 4).Draw(t, "users") {
		c.AuthInfos[word.Draw(t, "user")] = &clientcmdapi.AuthInfo{Token: rapid.StringMatching(`[ -~äß漢]{0,30}`).Draw(t, "token")}
	}
	for range rapid.IntRange(0, 4).Draw(t, "contexts") {
		name := word.Draw(t, "context")
		c.Contexts[name] = &clientcmdapi.Context{Cluster: word.Draw(t, "its cluster"), Namespace: word.Draw(t, "namespace")}
		if rapid.Bool().Draw(t, "is current") {
			c.CurrentContext = name
		}
	}
	return c
}

// TestAnyHistoryEndsWhereItBegan merges and removes our clusters in any order, some of them twice. At the
// end, and without our entries at every step, the file has its original contents.
func TestAnyHistoryEndsWhereItBegan(t *testing.T) {
	dir := t.TempDir()
	n := 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		path := filepath.Join(dir, fmt.Sprintf("config-%d", n))
		if err := clientcmd.WriteToFile(*anyConfig(t), path); err != nil {
			t.Fatal(err)
		}
		before := load(t, path)
		target := one(path)
		live := map[string]bool{}
		for range rapid.IntRange(1, 8).Draw(t, "steps") {
			name := rapid.SampledFrom([]string{"rehearse-a", "rehearse-b", "rehearse-c"}).Draw(t, "name")
			var err error
			if rapid.Bool().Draw(t, "merge") {
				err = target.Merge(name, entries(name, "https://"+name))
				live[name] = true
			} else {
				err = target.Remove(name, "https://"+name)
				delete(live, name)
			}
			if err != nil {
				t.Fatal(err)
			}
			now := load(t, path)
			if len(now.Clusters) != len(before.Clusters)+len(live) {
				t.Fatalf("%d clusters with %v alive", len(now.Clusters), live)
			}
			if len(live) > 0 && !live[now.CurrentContext] {
				t.Fatalf("current context %q with %v alive", now.CurrentContext, live)
			}
		}
		for name := range live {
			if err := target.Remove(name, "https://"+name); err != nil {
				t.Fatal(err)
			}
		}
		if d := cmp.Diff(before, load(t, path)); d != "" {
			t.Fatal(d)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	})
}

func load(t *rapid.T, path string) *clientcmdapi.Config {
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	c, err := clientcmd.Load(data)
	if err != nil {
		t.Fatal(err)
	}
	return c
}
