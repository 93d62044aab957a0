package snapshot_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/rehearse-k8s/rehearse/internal/snapshot"
)

type pair struct {
	key   string
	value []byte
}

func storeFile(t rapid.TB, compressed bool, pairs []pair) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := snapshot.NewStoreWriter(&out, compressed, snapshot.Header{Created: "2026-01-02T03:04:05Z", KubernetesVersion: "v1.36.3"})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pairs {
		if err := w.Write(p.key, p.value); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// readStore returns the pairs of a file, and the error that ends it: nil for a complete file.
func readStore(file []byte) (h snapshot.Header, pairs []pair, err error) {
	r, err := snapshot.NewStoreReader(bytes.NewReader(file))
	if err != nil {
		return h, nil, err
	}
	for {
		key, value, err := r.Next()
		switch {
		case err == io.EOF && r.Pairs() != len(pairs):
			return h, nil, fmt.Errorf("%d pairs, and %d were returned", r.Pairs(), len(pairs))
		case err == io.EOF:
			return r.Header(), pairs, nil
		case err != nil:
			return r.Header(), pairs, err
		}
		pairs = append(pairs, pair{key, bytes.Clone(value)})
	}
}

// TestStoreFile: what is written is read.
func TestStoreFile(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var pairs []pair
		for range rapid.IntRange(0, 20).Draw(t, "pairs") {
			pairs = append(pairs, pair{rapid.StringN(1, 50, 200).Draw(t, "key"), rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "value")})
		}
		file := storeFile(t, rapid.Bool().Draw(t, "compressed"), pairs)
		if !snapshot.IsStore(bytes.NewReader(file)) {
			t.Error("IsStore is false")
		}
		h, got, err := readStore(file)
		if err != nil || h.KubernetesVersion != "v1.36.3" || fmt.Sprint(got) != fmt.Sprint(pairs) {
			t.Errorf("read %v, %v, %v, want %v", h, got, err, pairs)
		}
	})
}

// TestDamagedStoreFile: no file that is cut off or changed anywhere is complete, and all errors describe the file.
func TestDamagedStoreFile(t *testing.T) {
	pairs := []pair{{"/registry/a", []byte("one")}, {"/registry/b", bytes.Repeat([]byte("two"), 60)}}
	for _, compressed := range []bool{false, true} {
		file := storeFile(t, compressed, pairs)
		for end := range len(file) {
			if _, _, err := readStore(file[:end]); !isFormatError(err) {
				t.Errorf("compressed %t, cut off after %d of %d bytes: %v", compressed, end, len(file), err)
			}
		}
		if _, _, err := readStore(append(bytes.Clone(file), 'x')); !isFormatError(err) {
			t.Errorf("compressed %t, with another byte: %v", compressed, err)
		}
	}
	file := storeFile(t, false, pairs)
	for at := range len(file) {
		changed := bytes.Clone(file)
		changed[at] ^= 0x81
		if _, _, err := readStore(changed); !isFormatError(err) {
			t.Errorf("byte %d of %d changed: %v", at, len(file), err)
		}
	}
}

func isFormatError(err error) bool {
	var bad *snapshot.FormatError
	return errors.As(err, &bad)
}

// TestOtherFilesAndStores: each format is recognized, and read by its own reader only.
func TestOtherFilesAndStores(t *testing.T) {
	store := storeFile(t, false, []pair{{"/registry/a", []byte("1")}})
	if _, err := snapshot.NewReader(bytes.NewReader(store)); err == nil || !strings.Contains(err.Error(), "rehearse up --from FILE") {
		t.Errorf("a store is read as objects: %v", err)
	}
	newer := bytes.Replace(store, []byte("v1alpha1"), []byte("v9alpha1"), 1)
	if _, _, err := readStore(newer); err == nil || !strings.Contains(err.Error(), "use a newer rehearse") {
		t.Errorf("a newer file: %v", err)
	}
	var zipped bytes.Buffer
	zip := gzip.NewWriter(&zipped)
	_, _ = zip.Write([]byte(`{"kind":"Snapshot","apiVersion":"rehearse-k8s.github.io/v1alpha1"}` + "\n"))
	_ = zip.Close()
	for name, file := range map[string]string{
		"empty": "", "text": "a: b\n", "objects": `{"kind":"Snapshot","apiVersion":"rehearse-k8s.github.io/v1alpha1"}` + "\n", "compressed objects": zipped.String(),
		"a long line": strings.Repeat("x", 1<<17), "gzip without content": "\x1f\x8b", "null": "null\n",
	} {
		if snapshot.IsStore(strings.NewReader(file)) {
			t.Errorf("%s: IsStore is true", name)
		}
		if _, _, err := readStore([]byte(file)); !isFormatError(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, want := range map[string]snapshot.Format{"a.store": snapshot.Store, "a.store.gz": snapshot.Store, "a.jsonl.gz": snapshot.JSONLines, "store": snapshot.YAML} {
		if got, _ := snapshot.FormatOf(name); got != want {
			t.Errorf("FormatOf(%s) = %v, want %v", name, got, want)
		}
	}
}

// FuzzStoreReader: no file panics, and what is read as complete is written as the same pairs.
func FuzzStoreReader(f *testing.F) {
	f.Add(storeFile(f, false, []pair{{"/registry/a", []byte("1")}, {"/registry/b", nil}}))
	f.Add(storeFile(f, true, nil))
	f.Fuzz(func(t *testing.T, file []byte) {
		_, pairs, err := readStore(file)
		if err != nil {
			return
		}
		if _, again, err := readStore(storeFile(t, false, pairs)); err != nil || fmt.Sprint(again) != fmt.Sprint(pairs) {
			t.Errorf("%v, %v; want %v", again, err, pairs)
		}
	})
}
