package snapshot

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"
)

// write returns a file with these objects.
func write(t interface{ Fatal(...any) }, f Format, compressed bool, objects ...map[string]any) []byte {
	var b bytes.Buffer
	w, err := NewWriter(&b, f, compressed, Header{Created: "2026-01-02T03:04:05Z", Only: []string{"pods"}})
	for _, o := range objects {
		if err == nil {
			err = w.Write(&unstructured.Unstructured{Object: o})
		}
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// read returns the objects of a file.
func read(data []byte) (h Header, objects []map[string]any, err error) {
	r, err := NewReader(bytes.NewReader(data))
	if err != nil {
		return h, nil, err
	}
	for {
		obj, err := r.Next()
		if err == io.EOF {
			return r.Header(), objects, nil
		}
		if err != nil {
			return h, objects, err
		}
		objects = append(objects, obj.Object)
	}
}

func named(name string, more map[string]any) map[string]any {
	out := map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name, "namespace": "default"}}
	for k, v := range more {
		if _, ok := out[k]; !ok {
			out[k] = v
		}
	}
	return out
}

func genFile(t *rapid.T) (f Format, compressed bool, objects []map[string]any) {
	for i := range rapid.IntRange(0, 4).Draw(t, "objects") {
		objects = append(objects, named(fmt.Sprint("o", i), genMap(2).Draw(t, "more")))
	}
	return rapid.SampledFrom([]Format{YAML, JSONLines}).Draw(t, "format"), rapid.Bool().Draw(t, "compressed"), objects
}

// TestFileProperty: a reader returns what was written, in every format.
func TestFileProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f, compressed, objects := genFile(t)
		h, got, err := read(write(t, f, compressed, objects...))
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(objects, got); d != "" {
			t.Fatal(d)
		}
		if d := cmp.Diff(Header{Created: "2026-01-02T03:04:05Z", Only: []string{"pods"}}, h); d != "" {
			t.Fatal(d)
		}
	})
}

// TestTruncatedProperty: no beginning of a file is read as a complete file with fewer objects.
func TestTruncatedProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f, compressed, objects := genFile(t)
		data := write(t, f, compressed, objects...)
		cut := rapid.IntRange(0, len(data)-2).Draw(t, "cut") // without the last newline, an uncompressed file is complete
		_, got, err := read(data[:cut])
		var bad *FormatError
		if !errors.As(err, &bad) && (err != nil || len(got) < len(objects)) {
			t.Fatalf("cut at %d of %d: %v\n%s", cut, len(data), err, data[:cut])
		}
	})
}

func TestFormatErrors(t *testing.T) {
	head := "apiVersion: " + APIVersion + "\nkind: Snapshot\n"
	end := "---\napiVersion: " + APIVersion + "\nkind: SnapshotEnd\nobjects: 1\n"
	object := "---\napiVersion: v1\nkind: Pod\nmetadata: {name: a}\n"
	corrupt := write(t, YAML, true, named("a", map[string]any{"data": map[string]any{"a": strings.Repeat("text", 999)}}))
	corrupt[len(corrupt)-8] ^= 0xff // the checksum
	for name, c := range map[string]struct{ data, want string }{
		"complete":           {head + object + end, ""},
		"without a number":   {head + object + strings.Replace(end, "objects: 1\n", "", 1), ""},
		"comments":           {"# by hand\n---\n" + head + "--- # first\n" + object + "---\n# none\n" + end + "---\n", ""},
		"empty":              {"", "not a snapshot: it is empty"},
		"blank":              {"\n\n", "not a snapshot: it has no document"},
		"another file":       {"apiVersion: v1\nkind: Pod\n", `not a snapshot: its first document must be kind Snapshot of ` + APIVersion + ` or an object with a name, and is kind Pod of "v1"`},
		"text":               {"hello: [\n", "not a snapshot: it must begin with an object in YAML, or in one line of JSON: "},
		"a page":             {"<!DOCTYPE html>\n<html>\n", "not a snapshot: it must begin with an object in YAML, or in one line of JSON: the document is not an object"},
		"binary":             {"\x7fELF\x02\x01\x01\x00\x00", "not a snapshot: it must begin with an object in YAML, or in one line of JSON: "},
		"lines of JSON":      {"{\n  \"kind\": \"List\"\n}\n", "not a snapshot: it must begin with an object in YAML, or in one line of JSON: "},
		"cut header":         {"apiVersion: [", "the snapshot is truncated: it ends after 0 objects"},
		"newer":              {"apiVersion: rehearse-k8s.github.io/v2\nkind: Snapshot\n", "the format of the snapshot is rehearse-k8s.github.io/v2, and this program reads " + APIVersion + ": use a newer rehearse"},
		"no end":             {head + object, "the snapshot is truncated: it ends after 1 objects, without its last document (kind SnapshotEnd)"},
		"cut":                {head + object + "---\napiVersion: v1\nkind: P", "truncated: it ends after 1 objects"},
		"fewer objects":      {head + end, "line 4: the file has 0 objects, and its last document says 1"},
		"after the end":      {head + object + end + object, "line 12: a document follows the end of the snapshot"},
		"bad YAML":           {head + "---\na: [\n" + object + end, "line 4: "},
		"duplicate key":      {head + "---\na: 1\na: 2\n" + object + end, `line 4: `},
		"not an object":      {head + "---\n- a\n" + object + end, "line 4: the document is not an object"},
		"no name":            {head + "---\napiVersion: v1\nkind: Pod\n" + end, "line 4: the document is not an object: it needs apiVersion, kind and metadata.name"},
		"labels":             {head + "---\napiVersion: v1\nkind: Pod\nmetadata: {name: a, labels: {b: 1}}\n" + end, "line 4: metadata.labels must be a map of strings"},
		"owners":             {head + "---\napiVersion: v1\nkind: Pod\nmetadata: {name: a, ownerReferences: 1}\n" + end, "line 4: metadata.ownerReferences must be a list"},
		"corrupt gzip":       {string(corrupt), "the compressed data is corrupt"},
		"a gzip header only": {string(corrupt[:5]), "truncated"},
	} {
		_, _, err := read([]byte(c.data))
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: error %v, want %q", name, err, c.want)
		}
	}
}

// TestLongDocument: a file without line ends does not fill the memory.
func TestLongDocument(t *testing.T) {
	var b bytes.Buffer
	zip := gzip.NewWriter(&b)
	_, _ = io.CopyN(zip, endless{}, maxDocument+1)
	_ = zip.Close()
	_, err := NewReader(&b)
	if err == nil || !strings.Contains(err.Error(), "line 1: the document is longer than 32 MiB") {
		t.Error(err)
	}
}

type endless struct{}

func (endless) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = 'a'
	}
	return len(b), nil
}

func TestFormatOf(t *testing.T) {
	for name, want := range map[string]struct {
		f Format
		c bool
	}{"a.yaml": {YAML, false}, "a": {YAML, false}, "-": {YAML, false}, "a.yaml.gz": {YAML, true}, "a.jsonl": {JSONLines, false}, "a.jsonl.gz": {JSONLines, true}, "a.gz": {YAML, true}} {
		if f, c := FormatOf(name); f != want.f || c != want.c {
			t.Errorf("%s: %v %v", name, f, c)
		}
	}
}

// FuzzReader: every input is a snapshot or a FormatError, and what is read can be written and read again.
func FuzzReader(f *testing.F) {
	for _, format := range []Format{YAML, JSONLines} {
		f.Add(write(f, format, false, named("a", map[string]any{"data": map[string]any{"b": "c\nd\n"}}), named("b", nil)))
		f.Add(write(f, format, true, named("a", nil)))
	}
	f.Add([]byte("---\n---\n{}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		_, objects, err := read(data)
		var bad *FormatError
		if err != nil {
			if !errors.As(err, &bad) {
				t.Fatalf("%T: %v", err, err)
			}
			return
		}
		_, again, err := read(write(t, YAML, false, objects...))
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(objects, again); d != "" {
			t.Fatal(d)
		}
	})
}
