package docs

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rehearse-k8s/rehearse/internal/cli"
)

// TestWriteAStage is a reader who follows the page: writes the files, runs the
// commands, and sees what the page shows.
func TestWriteAStage(t *testing.T) {
	blocks := blocksOf(t, filepath.Join("howto", "write-a-stage.md"))
	t.Chdir(t.TempDir())
	commands := 0
	for _, b := range blocks {
		language, file, _ := strings.Cut(b.info, " ")
		switch language {
		case "yaml":
			must(t, os.WriteFile(file, []byte(b.text), 0o644))
		case "console":
			lines := strings.Split(strings.TrimSpace(b.text), "\n")
			var out bytes.Buffer
			args := strings.Fields(strings.TrimPrefix(lines[0], "$ rehearse "))
			if code := cli.Main(context.Background(), args, cli.Streams{In: strings.NewReader(""), Out: &out, Err: &out}); code != 0 {
				t.Fatalf("%s: exit code %d: %s", lines[0], code, out.String())
			}
			commands++
			for _, line := range lines[1:] {
				for _, part := range strings.Split(line, "…") {
					if part = strings.TrimSpace(part); !strings.Contains(out.String(), part) {
						t.Fatalf("%s does not show %q:\n%s", lines[0], part, out.String())
					}
				}
			}
		}
	}
	if commands != 3 {
		t.Errorf("%d commands were run", commands)
	}
}
