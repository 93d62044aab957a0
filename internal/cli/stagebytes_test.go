package cli

import (
	"bytes"
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rehearse-k8s/rehearse/internal/cli/console"
)

// TestStageBadBytes: files with invalid bytes cause one line on stderr or a finding, and never a crash.
func TestStageBadBytes(t *testing.T) {
	const stage = "apiVersion: kwok.x-k8s.io/v1alpha1\nkind: Stage\nmetadata: {name: s}\nspec: {resourceRef: {kind: Pod}, selector: {}, steps: [{delete: true}]}\n"
	aliases := "a: &a [x,x,x,x,x,x,x,x,x]\n"
	for _, c := range []string{"ba", "cb", "dc", "ed", "fe", "gf", "hg"} {
		aliases += c[:1] + ": &" + c[:1] + " [" + strings.Repeat("*"+c[1:]+",", 9) + "]\n"
	}
	for name, c := range map[string]struct {
		data       string
		lint, play int
		out, err   string // a finding of lint
	}{
		"not UTF-8":          {stage + "# \xff\n", console.ExitFailed, console.ExitUsage, "f.yaml:5: error: is not UTF-8 text\n", ""},
		"a picture":          {"\x89PNG\r\n\x1a\n\x00\x00", console.ExitFailed, console.ExitUsage, "f.yaml:1: error: is not UTF-8 text\n", ""},
		"too large":          {strings.Repeat("# nothing\n", (16<<20)/10+1), console.ExitUsage, console.ExitUsage, "", "f.yaml: is larger than 16 MiB"},
		"a large document":   {stage + "# " + strings.Repeat("x", 4<<20), console.ExitFailed, console.ExitUsage, "f.yaml:1: error: is over 3145728 bytes\n", ""},
		"deep":               {stage + "extra: " + strings.Repeat("[", 20000), console.ExitFailed, console.ExitUsage, "", "1 error"},
		"aliases of aliases": {"apiVersion: kwok.x-k8s.io/v1alpha1\nkind: Stage\n" + aliases, console.ExitFailed, console.ExitUsage, "", "error"},
		"empty":              {"", console.ExitFailed, console.ExitUsage, "f.yaml: error: no Stage in this file\n", ""},
		"zero bytes":         {"a: \x00\x00", console.ExitFailed, console.ExitUsage, "f.yaml:", ""},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "f.yaml")
			writeFile(t, file, c.data)
			out, errs, code := runCaptured("stage", "lint", file)
			out = strings.ReplaceAll(out, file, "f.yaml")
			errs = strings.ReplaceAll(errs, file, "f.yaml")
			if code != c.lint || !strings.HasPrefix(out, c.out) || !strings.Contains(errs, c.err) || strings.Count(errs, "\n") != 1 {
				t.Errorf("lint: exit code %d, stdout %.300q, stderr %.300q", code, out, errs)
			}
			for _, command := range []string{"play", "explain"} {
				if out, errs, code := runCaptured("stage", command, file); code != c.play || out != "" || strings.Count(errs, "\n") != 1 {
					t.Errorf("%s: exit code %d, stdout %.300q, stderr %.300q", command, code, out, errs)
				}
			}
		})
	}
}

func runCaptured(args ...string) (out, errs string, code int) {
	var o, e bytes.Buffer
	a := newApp(Streams{In: strings.NewReader(""), Out: &o, Err: &e})
	code = a.run(context.Background(), args)
	return o.String(), e.String(), code
}
