package scenario_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rehearse-k8s/rehearse/scenario"
)

// FuzzRead: whatever a file holds, it is read or every reason is one line with the
// file's name; nothing panics.
func FuzzRead(f *testing.F) {
	for _, pattern := range []string{"testdata/*.yaml", "testdata/bad/*.yaml", "testdata/bad/objects/*.yaml"} {
		names, err := filepath.Glob(pattern)
		if err != nil {
			f.Fatal(err)
		}
		for _, name := range names {
			data, err := os.ReadFile(name)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := scenario.Read("fuzz.yaml", data, func(name string) ([]byte, error) {
			if strings.HasPrefix(name, "files") {
				return data, nil
			}
			return nil, fs.ErrNotExist
		})
		var wrong scenario.Errors
		switch {
		case err == nil:
			s.Invariants()
			_ = s.SetCommand([]string{"x"})
		case !errors.As(err, &wrong) || len(wrong) == 0:
			t.Fatalf("%T: %v", err, err)
		}
		for _, one := range wrong {
			if text := one.Error(); strings.ContainsAny(text, "\n\r") || one.File == "" {
				t.Errorf("%q", text)
			}
		}
	})
}
