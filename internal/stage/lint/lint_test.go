package lint

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rehearse-k8s/rehearse/stage"
)

var rewriteLint = flag.Bool("rewrite", false, "write the golden files again")

func lintedText(name string, data []byte) string {
	var out strings.Builder
	for _, f := range Files(stage.File{Name: name, Data: data}).Findings {
		out.WriteString(f.String() + "\n")
	}
	return out.String()
}

func TestBuiltinStagesLintClean(t *testing.T) {
	for _, name := range stage.BuiltinNames() {
		data, err := stage.BuiltinFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range Files(stage.File{Name: name, Data: data}).Findings {
			if f.Severity != Info {
				t.Error(f)
			}
		}
	}
}

// TestGoldenLint holds what is said of files full of mistakes.
func TestGoldenLint(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("testdata", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := lintedText(filepath.Base(file), data)
			golden := strings.TrimSuffix(file, ".yaml") + ".txt"
			if *rewriteLint {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if again := lintedText(filepath.Base(file), data); again != got {
				t.Error("a second time it says something else")
			}
		})
	}
}

// FuzzLint: whatever the bytes, lint says something or nothing, and ends.
func FuzzLint(f *testing.F) {
	for _, dir := range []string{"testdata/*.yaml", "../../../stage/testdata/stages/*.yaml", "../../../stage/testdata/every-field.yaml", "../../../stage/builtin/*.yaml"} {
		files, err := filepath.Glob(dir)
		if err != nil || len(files) == 0 {
			f.Fatal(dir, err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data)
		}
	}
	f.Add([]byte("\xff\xfe"))
	f.Add([]byte("a: &a [*a]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		_, _, bad := stage.LoadGood(stage.File{Name: "f", Data: data})
		errors := 0
		for _, finding := range Files(stage.File{Name: "f", Data: data}).Findings {
			if finding.Severity == Error {
				errors++
			}
		}
		if len(bad) > 0 && errors == 0 {
			t.Errorf("rejected when loaded, and lint finds no error: %v", bad[0])
		}
	})
}
