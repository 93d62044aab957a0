package snapshot

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"io"

	"k8s.io/apimachinery/pkg/util/json"
)

// A file of format Store has the keys and values of an API server's store, as they are in etcd. After its first line, a
// document of kind StoreSnapshot, each pair is the length of its key, the key, the length of its value, and the value. A key of
// length 0 ends the file; the number of pairs and the SHA-256 of everything before it follow. Lengths and numbers are unsigned
// varints (encoding/binary).

// StorePath is the path at which an API server of this program sends the content of its store in this format.
const StorePath = "/rehearse/store"

const (
	storeKind  = "StoreSnapshot"
	longestKey = 4 << 10 // no key of an API server is as long
)

// StoreWriter writes a file of format Store.
type StoreWriter struct {
	out   *bufio.Writer
	zip   *gzip.Writer // nil without compression
	sum   hash.Hash
	pairs uint64
}

// NewStoreWriter writes the first line of a file. The caller closes the underlying writer after Close.
func NewStoreWriter(w io.Writer, compressed bool, h Header) (*StoreWriter, error) {
	out := &StoreWriter{sum: sha256.New()}
	if compressed {
		out.zip, _ = gzip.NewWriterLevel(w, gzip.BestSpeed) // the level is valid
		w = out.zip
	}
	out.out = bufio.NewWriterSize(w, 1<<16)
	doc := h.document()
	doc["kind"] = storeKind
	first, err := AppendJSON(nil, doc)
	if err != nil {
		return nil, err
	}
	return out, out.write(first)
}

// Write writes a pair.
func (w *StoreWriter) Write(key string, value []byte) error {
	if key == "" || len(key) > longestKey || len(value) > maxDocument {
		return fmt.Errorf("key %q with a value of %d bytes: must have 1 to %d bytes, and its value at most %d", key, len(value), longestKey, maxDocument)
	}
	w.pairs++
	lengths := binary.AppendUvarint(make([]byte, 0, 2*binary.MaxVarintLen64+len(key)), uint64(len(key)))
	lengths = binary.AppendUvarint(append(lengths, key...), uint64(len(value)))
	if err := w.write(lengths); err != nil {
		return err
	}
	return w.write(value)
}

// Close writes the end, without which a file counts as truncated.
func (w *StoreWriter) Close() error {
	err := w.write(binary.AppendUvarint([]byte{0}, w.pairs))
	if err == nil {
		_, err = w.out.Write(w.sum.Sum(nil))
	}
	if err == nil {
		err = w.out.Flush()
	}
	if err == nil && w.zip != nil {
		err = w.zip.Close()
	}
	return err
}

func (w *StoreWriter) write(data []byte) error {
	w.sum.Write(data)
	_, err := w.out.Write(data)
	return err
}

// StoreReader reads a file of format Store pair by pair. All errors except io.EOF and those of the underlying reader are
// *FormatError.
type StoreReader struct {
	in     *bufio.Reader
	sum    hash.Hash
	header Header
	pairs  uint64
	buffer []byte
}

// IsStore reports whether a file has format Store. The file may be compressed.
func IsStore(r io.Reader) bool {
	in, err := uncompressed(r)
	if err != nil {
		return false
	}
	doc, _, err := firstLine(in)
	return err == nil && doc["kind"] == storeKind
}

// NewStoreReader reads the first line of a file. It detects compression from the content.
func NewStoreReader(r io.Reader) (*StoreReader, error) {
	in, err := uncompressed(r)
	if err != nil {
		return nil, err
	}
	doc, line, err := firstLine(in)
	if err != nil {
		return nil, err
	}
	if doc["kind"] != storeKind {
		return nil, &FormatError{Message: fmt.Sprintf("not the snapshot of a store: its first line must be a document of kind %s", storeKind)}
	}
	h, err := headerOf(doc, storeKind)
	if err != nil {
		return nil, err
	}
	out := &StoreReader{in: in, sum: sha256.New(), header: h}
	out.sum.Write(line)
	return out, nil
}

// Header returns what the first line says about the file.
func (r *StoreReader) Header() Header { return r.header }

// Pairs returns the number of pairs read.
func (r *StoreReader) Pairs() int { return int(r.pairs) }

// Next returns the next pair. The value is valid until the next call. After the last pair the error is io.EOF, but only if the file is
// complete and unchanged.
func (r *StoreReader) Next() (key string, value []byte, err error) {
	name, err := r.bytes(longestKey)
	if err != nil {
		return "", nil, err
	}
	if len(name) == 0 {
		return "", nil, r.end()
	}
	key = string(name)
	if value, err = r.bytes(maxDocument); err != nil {
		return "", nil, err
	}
	r.pairs++
	return key, value, nil
}

// bytes returns a length and as many bytes as it says.
func (r *StoreReader) bytes(limit uint64) ([]byte, error) {
	n, err := r.number()
	if err != nil {
		return nil, err
	}
	if n > limit {
		return nil, corruptStore(r.pairs)
	}
	if uint64(cap(r.buffer)) < n {
		r.buffer = make([]byte, n)
	}
	out := r.buffer[:n]
	if _, err := io.ReadFull(r.in, out); err != nil {
		return nil, r.incomplete(err)
	}
	r.sum.Write(out)
	return out, nil
}

func (r *StoreReader) number() (uint64, error) {
	var read [binary.MaxVarintLen64]byte
	for n := range read {
		b, err := r.in.ReadByte()
		if err != nil {
			return 0, r.incomplete(err)
		}
		if read[n] = b; b < 0x80 {
			r.sum.Write(read[:n+1])
			if value, size := binary.Uvarint(read[:n+1]); size > 0 {
				return value, nil
			}
			break
		}
	}
	return 0, corruptStore(r.pairs)
}

// end checks what follows the last pair.
func (r *StoreReader) end() error {
	pairs, err := r.number()
	if err != nil {
		return err
	}
	want := r.sum.Sum(nil)
	got := make([]byte, len(want))
	if _, err := io.ReadFull(r.in, got); err != nil {
		return r.incomplete(err)
	}
	if pairs != r.pairs || !bytes.Equal(got, want) {
		return corruptStore(r.pairs)
	}
	switch _, err := r.in.ReadByte(); err {
	case io.EOF:
		return io.EOF
	case nil:
		return &FormatError{Message: "the snapshot is corrupt: data follows its end"}
	default:
		return r.incomplete(err)
	}
}

func (r *StoreReader) incomplete(err error) error {
	missing := &FormatError{Message: fmt.Sprintf("the snapshot is truncated: it ends after %d keys", r.pairs)}
	if err == io.EOF {
		return missing
	}
	return unreadable(err, missing)
}

func corruptStore(pairs uint64) error {
	return &FormatError{Message: fmt.Sprintf("the snapshot is corrupt, after %d keys", pairs)}
}

// firstLine reads the document in the first line of a file, which has format Store or JSONLines.
func firstLine(in *bufio.Reader) (doc map[string]any, line []byte, err error) {
	line, err = in.ReadSlice('\n')
	if err != nil || json.Unmarshal(line, &doc) != nil {
		return nil, nil, &FormatError{Message: "not the snapshot of a store: its first line must be a document in JSON"}
	}
	return doc, bytes.Clone(line), nil
}
