package snapshot

import (
	"bufio"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"
)

// maxDocument is the length of the longest document that is read. An API server stores objects of a few MB at most.
const maxDocument = 32 << 20

// Reader reads a file object by object, and then the changes of a recording. All errors except io.EOF and those of the underlying
// reader are *FormatError.
type Reader struct {
	in         *bufio.Reader
	lines      bool // JSONLines
	header     Header
	first      map[string]any // the first document of a file without a header, as KWOK writes it, else nil
	patched    bool           // changes follow the objects of a file without a header
	line       int            // lines read
	start      int            // line of the current document
	documents  int            // documents read
	objects    int
	changes    int
	after      time.Duration  // of the last change
	last       bool           // the stream ends with the current document
	unended    bool           // the last line of the stream has no end
	next       map[string]any // a document that was read and not returned
	objectsEnd bool           // all objects have been returned
	ended      bool
}

// NewReader reads the header of a file. It detects compression and the format from the content.
func NewReader(r io.Reader) (*Reader, error) {
	in, err := uncompressed(r)
	if err != nil {
		return nil, err
	}
	out := &Reader{in: in}
	first, err := in.Peek(1)
	if len(first) == 0 {
		if err == io.EOF {
			return nil, &FormatError{Message: "not a snapshot: it is empty"}
		}
		return nil, unreadable(err, truncated(0))
	}
	out.lines = first[0] == '{'
	doc, err := out.document()
	if err == io.EOF {
		return nil, &FormatError{Message: "not a snapshot: it has no document"}
	}
	if err != nil {
		return nil, err
	}
	if mayBegin(doc) {
		out.first, out.next = doc, doc
		return out, nil
	}
	out.header, err = headerOf(doc, kind)
	return out, err
}

// uncompressed returns the content of a file that may be compressed.
func uncompressed(r io.Reader) (*bufio.Reader, error) {
	in := bufio.NewReaderSize(r, 1<<16)
	if magic, _ := in.Peek(2); !bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		return in, nil
	}
	zip, err := gzip.NewReader(in)
	if err != nil {
		return nil, unreadable(err, truncated(0))
	}
	return bufio.NewReaderSize(zip, 1<<16), nil
}

// Header returns what the first document says about the file. It is empty for a file of KWOK.
func (r *Reader) Header() Header { return r.header }

// IsKWOK reports whether the file is a snapshot or a recording of KWOK: objects, and perhaps changes, without a header and an end. If
// it is cut off between two documents, or between two lines of the last one, no reader can notice that. The times of a recording are relative; see ResolveTimes.
func (r *Reader) IsKWOK() bool { return r.first != nil }

// IsRecording reports whether changes follow the objects. It is known after the last object.
func (r *Reader) IsRecording() bool { return r.header.Recording || r.patched }

// Objects returns the number of objects read.
func (r *Reader) Objects() int { return r.objects }

// Changes returns the number of changes read.
func (r *Reader) Changes() int { return r.changes }

// Next returns the next object. After the last one the error is io.EOF, but only if no object is missing. NextChange then returns the
// changes of a recording.
func (r *Reader) Next() (*unstructured.Unstructured, error) {
	if r.objectsEnd {
		return nil, io.EOF
	}
	doc, err := r.document()
	switch {
	case err == io.EOF && r.first != nil: // KWOK does not mark the end
		r.objectsEnd, r.ended = true, true
		return nil, io.EOF
	case err == io.EOF:
		return nil, r.truncated()
	case err != nil:
		return nil, err
	case isChange(doc) && r.first != nil: // KWOK writes nothing between the objects and the changes
		r.objectsEnd, r.patched, r.next = true, true, doc
		return nil, io.EOF
	}
	obj := &unstructured.Unstructured{Object: doc}
	if obj.GetAPIVersion() == APIVersion && obj.GetKind() == endKind {
		return nil, r.end(doc)
	}
	reason := invalid(obj)
	switch {
	case reason != "" && r.first != nil && r.objects == 0 && obj.GetName() == "":
		return nil, withoutHeader(r.first)
	case reason != "" && r.last, r.first != nil && r.last && r.unended:
		r.documents-- // this document is not complete
		return nil, r.truncated()
	}
	if reason != "" {
		return nil, &FormatError{Message: fmt.Sprintf("line %d: %s", r.start, reason)}
	}
	r.objects++
	return obj, nil
}

// end checks the last document. A user who removed objects from a file may remove their number too.
func (r *Reader) end(doc map[string]any) error {
	if n, ok := doc["objects"]; ok && n != int64(r.objects) {
		return &FormatError{Message: fmt.Sprintf("line %d: the file has %d objects, and its last document says %v; if you edited the file, edit 'objects' too", r.start, r.objects, n)}
	}
	if r.objectsEnd = true; r.header.Recording {
		return io.EOF
	}
	return r.complete("snapshot")
}

// complete returns io.EOF if no other document follows.
func (r *Reader) complete(what string) error {
	_, err := r.document()
	if err == nil {
		return &FormatError{Message: fmt.Sprintf("line %d: a document follows the end of the %s", r.start, what)}
	}
	if err == io.EOF {
		r.ended = true
	}
	return err
}

// invalid returns why a document is not an object that was read from an API server, empty if it is.
func invalid(obj *unstructured.Unstructured) string {
	if obj.GetAPIVersion() == "" || obj.GetKind() == "" || obj.GetName() == "" {
		return "the document is not an object: it needs apiVersion, kind and metadata.name"
	}
	for _, field := range []string{"labels", "annotations"} {
		if _, _, err := unstructured.NestedStringMap(obj.Object, "metadata", field); err != nil {
			return fmt.Sprintf("metadata.%s must be a map of strings", field)
		}
	}
	for _, field := range []string{"ownerReferences", "finalizers"} {
		if _, _, err := unstructured.NestedSlice(obj.Object, "metadata", field); err != nil {
			return fmt.Sprintf("metadata.%s must be a list", field)
		}
	}
	return ""
}

// truncated reports a file that ends before its last document.
func (r *Reader) truncated() error {
	switch {
	case r.first != nil && r.unended:
		return &FormatError{Message: fmt.Sprintf("document %d: the file is truncated: it ends within a line of this document; if the line is complete, end it with a newline", r.documents+1)}
	case r.first != nil:
		return &FormatError{Message: fmt.Sprintf("document %d: the file is truncated: it ends within this document", r.documents+1)}
	case r.objectsEnd && r.header.Recording:
		return &FormatError{Message: fmt.Sprintf("the recording is truncated: it ends after document %d with %d changes, without its last document (kind %s)", r.documents, r.changes, recordingEndKind)}
	}
	return truncated(r.objects)
}

func truncated(objects int) error {
	return &FormatError{Message: fmt.Sprintf("the snapshot is truncated: it ends after %d objects, without its last document (kind %s)", objects, endKind)}
}

// unreadable is an error of the underlying reader; that of a compressed stream which is cut off means the same as a missing
// end.
func unreadable(err, truncated error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return truncated
	}
	var corrupt flate.CorruptInputError
	if errors.Is(err, gzip.ErrChecksum) || errors.Is(err, gzip.ErrHeader) || errors.As(err, &corrupt) {
		return &FormatError{Message: "the compressed data is corrupt"}
	}
	return err
}

// document returns the next document that is not empty, or io.EOF.
func (r *Reader) document() (map[string]any, error) {
	if doc := r.next; doc != nil {
		r.next = nil
		return doc, nil
	}
	for {
		data, last, err := r.raw()
		if err != nil {
			return nil, err
		}
		r.last = last
		doc, err := Decode(data)
		switch {
		case err != nil && r.documents == 0 && !bytes.Contains(data, []byte("apiVersion")): // which the first document begins with
			return nil, &FormatError{Message: fmt.Sprintf("not a snapshot: it must begin with an object in YAML, or in one line of JSON: %v", err)}
		case err != nil && last: // a file that is cut off usually ends in the middle of a document
			return nil, r.truncated()
		case err != nil:
			return nil, &FormatError{Message: fmt.Sprintf("line %d: %v", r.start, err)}
		case doc != nil:
			r.documents++
			return doc, nil
		case last:
			return nil, io.EOF
		}
	}
}

// Decode parses one document, in YAML or JSON. The result is nil for an empty one.
func Decode(data []byte) (doc map[string]any, err error) {
	text := bytes.TrimSpace(data)
	if len(text) == 0 {
		return nil, nil
	}
	if text[0] != '{' { // the last newline of a literal block belongs to its value
		if data, err = yaml.YAMLToJSONStrict(data); err != nil {
			return nil, err
		}
	}
	var v any
	if err := json.Unmarshal(data, &v); err != nil {
		return nil, err
	}
	doc, ok := v.(map[string]any)
	if !ok && v != nil {
		return nil, errors.New("the document is not an object")
	}
	return doc, nil
}

// raw returns the bytes of the next document, and whether the stream ends with it.
func (r *Reader) raw() (data []byte, last bool, err error) {
	r.start = r.line + 1
	for {
		line, err := r.readLine(maxDocument - len(data))
		if err != nil && err != io.EOF {
			return nil, false, err
		}
		if len(line) > 0 {
			r.line++
		}
		switch {
		case r.lines, !isSeparator(line):
			data = append(data, line...)
		case len(bytes.TrimSpace(data)) > 0:
			return data, err == io.EOF, nil
		default: // the separator before the first document
			data, r.start = data[:0], r.line+1
		}
		if err == io.EOF {
			if len(data) == 0 {
				return nil, true, io.EOF
			}
			return data, true, nil
		}
		if r.lines && len(bytes.TrimSpace(data)) > 0 {
			return data, false, nil
		}
	}
}

// isSeparator reports whether a line separates two YAML documents. The content of a document on the same line is unsupported,
// except for a comment.
func isSeparator(line []byte) bool {
	rest, ok := bytes.CutPrefix(line, []byte("---"))
	rest = bytes.TrimSpace(rest)
	return ok && (len(rest) == 0 || rest[0] == '#')
}

// readLine returns a line with its end, of at most limit bytes. The last line may have no end; then the error is io.EOF.
func (r *Reader) readLine(limit int) (line []byte, err error) {
	for {
		part, err := r.in.ReadSlice('\n')
		line = append(line, part...)
		if len(line) > limit {
			return nil, &FormatError{Message: fmt.Sprintf("line %d: the document is longer than %d MiB", r.start, maxDocument>>20)}
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil && err != io.EOF:
			return nil, unreadable(err, r.truncated())
		}
		r.unended = err == io.EOF && len(line) > 0
		return line, err
	}
}
