package snapshot

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// separator is the line between two YAML documents.
const separator = "---\n"

// Writer writes a file object by object, and then the changes of a recording.
type Writer struct {
	format       Format
	recording    bool
	out          *bufio.Writer
	zip          *gzip.Writer // nil without compression
	buffer       []byte
	started      bool
	objectsEnded bool
	objects      int
	changes      int
}

// NewWriter writes the header of a file. The caller closes the underlying writer after Close.
func NewWriter(w io.Writer, format Format, compressed bool, h Header) (*Writer, error) {
	out := &Writer{format: format, recording: h.Recording}
	if compressed {
		out.zip, _ = gzip.NewWriterLevel(w, gzip.BestSpeed) // the level is valid
		w = out.zip
	}
	out.out = bufio.NewWriterSize(w, 1<<16)
	return out, out.document(h.document())
}

// Write writes an object.
func (w *Writer) Write(obj *unstructured.Unstructured) error {
	w.objects++
	return w.document(obj.Object)
}

// Objects returns the number of objects written.
func (w *Writer) Objects() int { return w.objects }

// WriteChange writes a change, after all objects. The times of changes must not go back.
func (w *Writer) WriteChange(c Change) error {
	if err := w.endObjects(); err != nil {
		return err
	}
	w.changes++
	return w.document(c.document(w.changes))
}

// Changes returns the number of changes written.
func (w *Writer) Changes() int { return w.changes }

func (w *Writer) endObjects() error {
	if w.objectsEnded {
		return nil
	}
	w.objectsEnded = true
	return w.document(map[string]any{"apiVersion": APIVersion, "kind": endKind, "objects": int64(w.objects)})
}

// Close writes the last document, without which a file counts as truncated.
func (w *Writer) Close() error {
	err := w.endObjects()
	if err == nil && w.recording {
		err = w.document(map[string]any{"apiVersion": APIVersion, "kind": recordingEndKind, "changes": int64(w.changes)})
	}
	if err == nil {
		err = w.out.Flush()
	}
	if err == nil && w.zip != nil {
		err = w.zip.Close()
	}
	return err
}

func (w *Writer) document(doc map[string]any) error {
	b := w.buffer[:0]
	if w.format == YAML && w.started {
		b = append(b, separator...)
	}
	w.started = true
	ok := false
	if w.format == YAML {
		b, ok = appendYAML(b, doc)
	}
	if !ok {
		var err error
		if b, err = AppendJSON(b, doc); err != nil {
			return err
		}
	}
	w.buffer = b
	_, err := w.out.Write(b)
	return err
}

// AppendJSON appends a document as one line of JSON.
func AppendJSON(b []byte, doc map[string]any) ([]byte, error) {
	buffer := bytes.NewBuffer(b)
	encoder := json.NewEncoder(buffer) // it writes the newline
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(doc)
	return buffer.Bytes(), err
}
