package docs

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rehearse-k8s/rehearse/internal/cli"
	"github.com/rehearse-k8s/rehearse/scenario"
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

// TestRehearseAController: the scenario that the page shows can be read, and the files that it
// speaks of are there.
func TestRehearseAController(t *testing.T) {
	read := 0
	for _, b := range blocksOf(t, filepath.Join("howto", "rehearse-a-controller.md")) {
		for _, word := range strings.Fields(b.text) {
			if strings.HasPrefix(word, "examples/") || strings.HasPrefix(word, "./") {
				if _, err := os.Stat(filepath.Join("..", word)); err != nil {
					t.Error(err)
				}
			}
		}
		if b.info != "yaml" {
			continue
		}
		_, err := scenario.Read("scenario.yaml", []byte(b.text), func(file string) ([]byte, error) {
			if file == "web.yaml" {
				return []byte("apiVersion: example.com/v1\nkind: Web\nmetadata: {name: web, namespace: default}\n"), nil
			}
			return []byte(`apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: webs.example.com}
spec:
  group: example.com
  names: {kind: Web, plural: webs}
  scope: Namespaced
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
`), nil
		})
		must(t, err)
		read++
	}
	if read != 1 {
		t.Errorf("%d scenarios were read", read)
	}
}
