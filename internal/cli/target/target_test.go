package target

import (
	"os"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/rehearse-k8s/rehearse/internal/cli/statedir"
)

// home returns an environment with an empty state directory, and the directory.
func home(t *testing.T, cluster string) (func(string) string, statedir.Root) {
	t.Helper()
	dir := t.TempDir()
	getenv := func(k string) string { return map[string]string{"HOME": dir, "REHEARSE_NAME": cluster}[k] }
	root, err := statedir.DefaultRoot(getenv)
	if err != nil {
		t.Fatal(err)
	}
	return getenv, root
}

// run creates the files of a cluster that this process seems to run.
func run(t *testing.T, root statedir.Root, name, status string) {
	t.Helper()
	dir, _, err := root.Claim(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dir.Release(false) })
	r := statedir.Self(name, time.Now())
	r.Status, r.URL = status, "https://127.0.0.1:1234"
	if err := dir.Save(r); err != nil {
		t.Fatal(err)
	}
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: r.URL, CertificateAuthorityData: []byte("authority of " + name)}
	config.Contexts["c"] = &clientcmdapi.Context{Cluster: "c"}
	config.CurrentContext = "c"
	data, err := clientcmd.Write(*config)
	if err != nil {
		t.Fatal(err)
	}
	if err := dir.WriteKubeconfig(data); err != nil {
		t.Fatal(err)
	}
}

func TestDefault(t *testing.T) {
	for name, c := range map[string]struct {
		running         []string
		starting        string
		env             string
		want, reasonHas string
	}{
		"none":                   {reasonHas: "no rehearse cluster is running"},
		"one":                    {running: []string{"a"}, want: "a"},
		"one, and one starts":    {running: []string{"a"}, starting: "b", want: "a"},
		"two":                    {running: []string{"a", "b"}, reasonHas: "several clusters are running (a, b)"},
		"two, one unnamed":       {running: []string{"a", "rehearse"}, want: "rehearse"},
		"named by REHEARSE_NAME": {running: []string{"a", "b"}, env: "b", want: "b"},
		"another is named":       {running: []string{"a"}, env: "b", reasonHas: `cluster "b" (from REHEARSE_NAME) is not running`},
	} {
		t.Run(name, func(t *testing.T) {
			getenv, root := home(t, c.env)
			for _, n := range c.running {
				run(t, root, n, statedir.Running)
			}
			if c.starting != "" {
				run(t, root, c.starting, statedir.Starting)
			}
			got, reason, err := Default(root, getenv)
			if err != nil || got != c.want || !strings.Contains(reason, c.reasonHas) || (reason == "") != (c.reasonHas == "") {
				t.Errorf("cluster %q, reason %q, error %v", got, reason, err)
			}
		})
	}
}

func TestChoose(t *testing.T) {
	getenv, root := home(t, "")
	run(t, root, "a", statedir.Running)
	run(t, root, "b", statedir.Starting)
	for name, want := range map[string]string{"": "", "a": "", "b": `cluster "b" is not running`, "c": `cluster "c" is not running`, "A b": "--name"} {
		got, err := Choose(root, name, getenv)
		switch {
		case want == "" && (err != nil || got != "a"):
			t.Errorf("%q: %q, %v", name, got, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%q: error %v, want %q", name, err, want)
		}
	}
}

// TestIsStartedHere: the address alone does not identify a cluster, because ports are used again.
func TestIsStartedHere(t *testing.T) {
	getenv, root := home(t, "")
	run(t, root, "a", statedir.Running)
	file := t.TempDir() + "/ca.crt"
	if err := os.WriteFile(file, []byte("authority of a"), 0o600); err != nil {
		t.Fatal(err)
	}
	const url = "https://127.0.0.1:1234"
	for name, c := range map[string]struct {
		config rest.Config
		want   bool
	}{
		"same":                 {rest.Config{Host: url, TLSClientConfig: rest.TLSClientConfig{CAData: []byte("authority of a")}}, true},
		"authority in a file":  {rest.Config{Host: url, TLSClientConfig: rest.TLSClientConfig{CAFile: file}}, true},
		"another address":      {rest.Config{Host: "https://127.0.0.1:1", TLSClientConfig: rest.TLSClientConfig{CAData: []byte("authority of a")}}, false},
		"another authority":    {rest.Config{Host: url, TLSClientConfig: rest.TLSClientConfig{CAData: []byte("authority of b")}}, false},
		"no authority":         {rest.Config{Host: url}, false},
		"unreadable authority": {rest.Config{Host: url, TLSClientConfig: rest.TLSClientConfig{CAFile: file + ".missing"}}, false},
	} {
		if got := IsStartedHere(&c.config, getenv); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestStartRecord(t *testing.T) {
	getenv, root := home(t, "")
	run(t, root, "a", statedir.Running)
	if r := StartRecord("a", "https://127.0.0.1:1234", getenv); r == nil || r.Name != "a" {
		t.Errorf("record %+v", r)
	}
	for _, c := range [][2]string{{"a", "https://127.0.0.1:1"}, {"b", "https://127.0.0.1:1234"}} {
		if r := StartRecord(c[0], c[1], getenv); r != nil {
			t.Errorf("%v: record %+v", c, r)
		}
	}
}

func TestComplete(t *testing.T) {
	getenv, root := home(t, "")
	run(t, root, "a", statedir.Running)
	run(t, root, "b", statedir.Starting)
	if got, _ := Complete(getenv)(nil, []string{"a"}, ""); len(got) != 1 || got[0] != "b" {
		t.Errorf("completions %v", got)
	}
}
