package snapshot

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// TestReplaceFile: a file of the name is replaced in one step, and only after write has succeeded.
func TestReplaceFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.yaml")
	if err := os.WriteFile(path, []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	content := func() string {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	failure := errors.New("interrupted")
	_, err := replaceFile(path, nil, func(w io.Writer) error {
		if _, err := io.WriteString(w, "half"); err != nil {
			return err
		}
		if content() != "old" {
			t.Error("the file is replaced before it is complete")
		}
		return failure
	})
	if !errors.Is(err, failure) || content() != "old" {
		t.Errorf("%v: %s", err, content())
	}
	n, err := replaceFile(path, nil, func(w io.Writer) error {
		_, err := io.WriteString(w, "new text")
		return err
	})
	info, _ := os.Stat(path)
	if err != nil || n != 8 || content() != "new text" || info.Mode() != 0o600 {
		t.Errorf("%v: %d bytes, mode %s: %s", err, n, info.Mode(), content())
	}
	if files, _ := os.ReadDir(filepath.Dir(path)); len(files) != 1 {
		t.Errorf("temporary files are left: %v", files)
	}
	var stdout bytes.Buffer
	if n, err := replaceFile("-", &stdout, func(w io.Writer) error { _, err := io.WriteString(w, "text"); return err }); err != nil || n != 4 || stdout.String() != "text" {
		t.Errorf("%v: %d bytes: %s", err, n, &stdout)
	}
}
