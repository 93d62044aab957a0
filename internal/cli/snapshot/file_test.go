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
	_, err := replaceFile(path, true, nil, func(w io.Writer) error {
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
	n, err := replaceFile(path, true, nil, func(w io.Writer) error {
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
	if n, err := replaceFile("-", false, &stdout, func(w io.Writer) error { _, err := io.WriteString(w, "text"); return err }); err != nil || n != 4 || stdout.String() != "text" {
		t.Errorf("%v: %d bytes: %s", err, n, &stdout)
	}
}

// TestReplaceFileCreatedMeanwhile: without overwrite, a file that another program created meanwhile stays as it is, and what was written is kept.
func TestReplaceFileCreatedMeanwhile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.yaml")
	writing := func(meanwhile func()) func(io.Writer) error {
		return func(w io.Writer) error {
			meanwhile()
			_, err := io.WriteString(w, "mine")
			return err
		}
	}
	content := func(file string) string {
		data, _ := os.ReadFile(file)
		return string(data)
	}
	if n, err := replaceFile(path, false, nil, writing(func() {})); err != nil || n != 4 || content(path) != "mine" {
		t.Fatalf("%v: %d bytes: %q", err, n, content(path))
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	_, err := replaceFile(path, false, nil, writing(func() {
		if err := os.WriteFile(path, []byte("theirs"), 0o600); err != nil {
			t.Fatal(err)
		}
	}))
	var exists *existsError
	if !isExists(err) || !errors.As(err, &exists) || content(path) != "theirs" || content(exists.temporary) != "mine" {
		t.Errorf("%v: %q", err, content(path))
	}
}

// TestReplaceFileLink: of a symbolic link, the target is replaced, and a link without a target is rejected.
func TestReplaceFileLink(t *testing.T) {
	dir := t.TempDir()
	target, link := filepath.Join(dir, "target.yaml"), filepath.Join(dir, "link.yaml")
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
	if err := checkFree(link, true); err == nil {
		t.Error("a link without a target is accepted")
	}
	if err := os.WriteFile(target, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := replaceFile(link, true, nil, func(w io.Writer) error { _, err := io.WriteString(w, "new"); return err })
	data, _ := os.ReadFile(target)
	if info, e := os.Lstat(link); err != nil || e != nil || info.Mode()&os.ModeSymlink == 0 || string(data) != "new" {
		t.Errorf("%v, %v: %s", err, e, data)
	}
}
