package snapshot

import (
	"fmt"
	"io"
)

// NextChange returns the next change of a recording, after Next has returned io.EOF. After the last change the error is io.EOF, but
// only if the file is complete. A snapshot has no changes.
func (r *Reader) NextChange() (Change, error) {
	switch {
	case !r.objectsEnd:
		return Change{}, &FormatError{Message: "the objects of the file were not read"}
	case r.ended:
		return Change{}, io.EOF
	}
	doc, err := r.document()
	switch {
	case err == io.EOF && r.first != nil: // KWOK does not mark the end
		r.ended = true
		return Change{}, io.EOF
	case err == io.EOF:
		return Change{}, r.truncated()
	case err != nil:
		return Change{}, err
	case doc["apiVersion"] == APIVersion && doc["kind"] == recordingEndKind:
		return Change{}, r.endChanges(doc)
	}
	c, reason := changeOf(doc)
	c.Document = r.documents
	switch {
	case !isChange(doc):
		reason = fmt.Sprintf("kind %v of %v follows the changes", doc["kind"], doc["apiVersion"])
	case reason != "":
	case c.number > 0 && c.number != r.changes+1:
		reason = fmt.Sprintf("the recording has a gap: this is change %d, and change %d must follow change %d; if you edited the file, remove the annotations %s", c.number, r.changes+1, r.changes, NumberAnnotation)
	case c.After < r.after:
		reason = fmt.Sprintf("the time of the change is %s after the start, and the change before it is %s after the start", c.After, r.after)
	}
	switch {
	case r.last && (reason != "" && r.header.Recording || r.unended && r.first != nil):
		r.documents-- // this document is not complete
		return Change{}, r.truncated()
	case reason != "":
		return Change{}, &FormatError{Message: fmt.Sprintf("document %d: %s", r.documents, reason)}
	}
	r.after = c.After
	r.changes++
	return c, nil
}

// endChanges checks the last document of a recording.
func (r *Reader) endChanges(doc map[string]any) error {
	if n, ok := doc["changes"]; ok && n != int64(r.changes) {
		return &FormatError{Message: fmt.Sprintf("document %d: the file has %d changes, and its last document says %v; if you edited the file, edit 'changes' too", r.documents, r.changes, n)}
	}
	return r.complete("recording")
}
