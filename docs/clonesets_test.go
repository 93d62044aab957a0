package docs

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestCloneSetsWalk is a reader who follows the page in a shell of their own, with the
// program that is built of this tree.
func TestCloneSetsWalk(t *testing.T) {
	dir := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(dir, "bin", "rehearse"), "../cmd/rehearse")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	environment := append(os.Environ(), "HOME="+dir, "XDG_STATE_HOME="+dir, "KUBECONFIG="+filepath.Join(dir, "kubeconfig"), "REHEARSE_NAME=walk",
		"PATH="+filepath.Join(dir, "bin")+string(os.PathListSeparator)+os.Getenv("PATH"))
	shell := func(command string) (string, error) {
		cmd := exec.Command("bash", "-o", "pipefail", "-c", command) // not with the test's context: it is ended with `down`
		cmd.Dir, cmd.Env = dir, environment
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	t.Cleanup(func() { _, _ = shell("rehearse down walk") })
	commands := 0
	for _, b := range blocksOf(t, filepath.Join("howto", "clonesets.md")) {
		language, file, _ := strings.Cut(b.info, " ")
		switch language {
		case "yaml":
			must(t, os.WriteFile(filepath.Join(dir, file), []byte(b.text), 0o600))
		case "console":
			var out, command string
			for _, line := range strings.Split(strings.TrimSpace(b.text), "\n") {
				if next, ok := strings.CutPrefix(line, "$ "); ok {
					var err error
					command = next
					if out, err = shell(command); err != nil {
						t.Fatalf("%s: %v:\n%s", command, err, out)
					}
					commands++
					continue
				}
				if !shows(out, line) {
					t.Fatalf("%s does not show %q:\n%s", command, line, out)
				}
			}
		}
	}
	if commands < 20 {
		t.Errorf("%d commands were run", commands)
	}
}

// shows reports whether a line of an output has the parts of a line of the page, in order.
func shows(out, line string) bool {
	for is := range strings.SplitSeq(out, "\n") {
		ok := true
		for _, part := range strings.Split(line, "…") {
			var found bool
			_, is, found = strings.Cut(is, strings.TrimSpace(part))
			ok = ok && found
		}
		if ok {
			return true
		}
	}
	return false
}
