//go:build unix

package rehearsal

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rehearse-k8s/rehearse/api/rehearse/v1alpha1"
)

// equal fails the test if two values differ.
func equal(t testing.TB, what string, want, got any) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("%s (-want +got):\n%s", what, d)
	}
}

// printed runs a command of a client to its end and returns the lines that it printed, and its exit.
func printed(t *testing.T, c *v1alpha1.Client, words map[string]string, dir string, command ...string) (lines []string, exit error) {
	t.Helper()
	var mu sync.Mutex
	p, err := launch(c, command, words, dir, func(l string) {
		mu.Lock()
		defer mu.Unlock()
		lines = append(lines, l)
	})
	if err != nil {
		t.Fatal(err)
	}
	<-p.exited
	if p.wasKilled() {
		t.Error("the process counts as killed")
	}
	return lines, p.err
}

// TestLaunchEnvironment: a process gets its kubeconfig, a temporary directory and its own variables, whose words are
// replaced; a port is the same wherever it is named.
func TestLaunchEnvironment(t *testing.T) {
	dir, work := t.TempDir(), t.TempDir()
	c := &v1alpha1.Client{Name: "a", Dir: work, Env: []v1alpha1.EnvVar{{Name: "CACHE", Value: "{{dir}}/cache"}, {Name: "METRICS", Value: ":{{port:m}}"}, {Name: "EMPTY"}}}
	words := map[string]string{"kubeconfig": "/k", "dir": dir, "namespace": "default", "name": "a+"}
	lines, err := printed(t, c, words, dir, "sh", "-c", `echo "$KUBECONFIG|$TMPDIR|$CACHE|$EMPTY|$PWD"; echo "$METRICS :{{port:m}}"; echo {{namespace}} {{ name }}`)
	if err != nil || len(lines) != 3 {
		t.Fatalf("%v %q", err, lines)
	}
	if resolved, err := filepath.EvalSymlinks(work); err == nil {
		work = resolved
	}
	equal(t, "environment", "/k|"+dir+"|"+dir+"/cache||"+work, lines[0])
	ports := strings.Fields(lines[1])
	if len(ports) != 2 || ports[0] != ports[1] || len(ports[0]) < 3 {
		t.Errorf("ports %q", ports)
	}
	equal(t, "words", "default a+", lines[2])
}

// TestLaunchErrors: a process that cannot be started is an error that names the client and the program.
func TestLaunchErrors(t *testing.T) {
	noProgram := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(noProgram, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		client  v1alpha1.Client
		command []string
		want    string
	}{
		"no such file":        {v1alpha1.Client{Name: "a"}, []string{"/no/such/program"}, `client a: program "/no/such/program" not found`},
		"not in the path":     {v1alpha1.Client{Name: "a"}, []string{"no-such-program-anywhere"}, `client a: program "no-such-program-anywhere" not found`},
		"not executable":      {v1alpha1.Client{Name: "a"}, []string{noProgram}, "client a: fork/exec " + noProgram + ": permission denied"},
		"unknown word":        {v1alpha1.Client{Name: "a"}, []string{"true", "{{home}}"}, "{{home}} is not a known word"},
		"unknown word in env": {v1alpha1.Client{Name: "a", Env: []v1alpha1.EnvVar{{Name: "A", Value: "{{x"}}}, []string{"true"}, "{{ without }}"},
		"no such directory":   {v1alpha1.Client{Name: "a", Dir: "/no/such/directory"}, []string{"true"}, "client a: "},
	} {
		_, err := launch(&c.client, c.command, nil, t.TempDir(), func(string) {})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// TestExits: how a process ended is known, and what it printed on both streams.
func TestExits(t *testing.T) {
	for script, want := range map[string]string{
		"exit 0":              "exit status 0 []",
		"echo a; echo b >&2":  "exit status 0 [a b]",
		"echo a; exit 3":      "exit status 3 [a]",
		"printf 'no newline'": "exit status 0 [no newline]",
		"echo; echo ' x '":    "exit status 0 [  x ]",
		"kill -9 $$":          "signal: killed []",
	} {
		lines, err := printed(t, &v1alpha1.Client{Name: "a"}, nil, t.TempDir(), "sh", "-c", script)
		equal(t, script, want, fmt.Sprintf("%s %v", exitReason(err), lines))
	}
}

// TestLongLine: a line that is too long does not block the process.
func TestLongLine(t *testing.T) {
	lines, err := printed(t, &v1alpha1.Client{Name: "a"}, nil, t.TempDir(), "sh", "-c", `echo first; head -c 3000000 /dev/zero | tr '\0' x; echo; exit 4`)
	if exitReason(err) != "exit status 4" || len(lines) != 1 || lines[0] != "first" {
		t.Errorf("%v, %d lines", err, len(lines))
	}
}

// TestKillTwice: a process that has exited may be killed, and one may be killed twice.
func TestKillTwice(t *testing.T) {
	p, err := launch(&v1alpha1.Client{Name: "a"}, []string{"sh", "-c", "exit 0"}, nil, t.TempDir(), func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	<-p.exited
	p.kill()
	p.kill()
	if !p.wasKilled() {
		t.Error("kill is not recorded")
	}
}

// TestOutputTail: only the last lines are kept.
func TestOutputTail(t *testing.T) {
	o := &output{}
	equal(t, "nothing", []string(nil), o.tail(5))
	for n := range 100 {
		o.add(fmt.Sprint(n))
	}
	equal(t, "two", []string{"98", "99"}, o.tail(2))
	all := o.tail(1000)
	if len(all) != tailLines || all[0] != "60" {
		t.Errorf("%d lines from %s", len(all), all[0])
	}
	all[0] = "changed"
	equal(t, "after a change by the caller", "60", o.tail(1000)[0])
}

// TestClientError: the error shows what the client printed last, and is one that callers recognize.
func TestClientError(t *testing.T) {
	c := &client{actor: "web", command: []string{"./web", "--flag"}, output: &output{}}
	equal(t, "nothing printed", "client web (./web) exits immediately. It printed nothing", c.clientError("exits immediately").Error())
	for n := range 9 {
		c.output.add(fmt.Sprintf("line %d", n))
	}
	err := c.clientError("exits immediately")
	equal(t, "five lines", "client web (./web) exits immediately. Its last output:\n    line 4\n    line 5\n    line 6\n    line 7\n    line 8", err.Error())
	var client *ClientError
	if !errors.As(err, &client) {
		t.Errorf("%T", err)
	}
}

// TestIdentity: the certificate of a client has the user and the groups of the scenario, and clients of one user share
// it.
func TestIdentity(t *testing.T) {
	for _, c := range []struct {
		as     *v1alpha1.Identity
		user   string
		groups []string
	}{
		{nil, "rehearse:client", []string{"system:masters"}},
		{&v1alpha1.Identity{User: "jane", Groups: []string{"a", "b"}}, "jane", []string{"a", "b"}},
		{&v1alpha1.Identity{User: "jane"}, "jane", nil},
		{&v1alpha1.Identity{ServiceAccount: "default/operator"}, "system:serviceaccount:default:operator", nil},
	} {
		config, err := identityOf(&v1alpha1.Client{Name: "x", As: c.as})
		if err != nil {
			t.Fatal(err)
		}
		block, rest := pem.Decode(config.CertData)
		if block == nil || len(rest) > 0 {
			t.Fatalf("certificate %q", config.CertData)
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "user", c.user, certificate.Subject.CommonName)
		if !slices.Equal(certificate.Subject.Organization, c.groups) {
			t.Errorf("%s: groups %q, want %q", c.user, certificate.Subject.Organization, c.groups)
		}
		if !slices.Contains(certificate.ExtKeyUsage, x509.ExtKeyUsageClientAuth) || len(config.KeyData) == 0 {
			t.Errorf("%s: usage %v", c.user, certificate.ExtKeyUsage)
		}
		again, err := identityOf(&v1alpha1.Client{Name: "y", As: c.as})
		if err != nil || again != config {
			t.Errorf("%s: another client of the user has another identity (%v)", c.user, err)
		}
	}
	one, _ := identityOf(&v1alpha1.Client{As: &v1alpha1.Identity{User: "jane"}})
	two, _ := identityOf(&v1alpha1.Client{As: &v1alpha1.Identity{User: "jane", Groups: []string{"a", "b"}}})
	if one == two {
		t.Error("users with different groups share an identity")
	}
}

// TestKubeconfigFile: only the user may read the file, which contains a key.
func TestKubeconfigFile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "client")
	file, err := writeKubeconfig(dir, []byte("content"))
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]os.FileMode{dir: 0o700, file: 0o600} {
		is, err := os.Stat(path)
		if err != nil || is.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", path, is.Mode(), err)
		}
	}
	data, err := os.ReadFile(file)
	equal(t, "content", "content", string(data))
	if err != nil || file != filepath.Join(dir, "kubeconfig") {
		t.Errorf("%s: %v", file, err)
	}
	if _, err := writeKubeconfig(file, nil); err == nil {
		t.Error("a directory that is a file gives no error")
	}
}
