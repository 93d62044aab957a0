package wire

import (
	"encoding/binary"
	"fmt"
)

// MaxFrame is the maximum size of a frame in bytes. It is far above the limit of etcd.
const MaxFrame = 64 << 20

const lengthSize = 4 // bytes of the big-endian length prefix of a protobuf frame

// Splitter splits a watch stream into frames, for any fragmentation of its bytes. It is not safe
// for concurrent use.
type Splitter struct {
	encoding encoding
	buf      []byte // the incomplete frame
	frames   [][]byte
	err      error

	// The position in a JSON frame at which buf ends.
	depth          int
	quoted, escape bool
}

// NewSplitter returns a splitter for a stream of this Content-Type.
func NewSplitter(contentType string) (*Splitter, error) {
	encoding, err := encodingOf(contentType)
	if err != nil {
		return nil, err
	}
	return &Splitter{encoding: encoding}, nil
}

// Write appends the next bytes of the stream. After an error, the following bytes cannot be read,
// and every further Write returns the error; Next still returns the frames before it.
func (s *Splitter) Write(p []byte) (int, error) {
	if s.err != nil {
		return 0, s.err
	}
	n := len(p)
	for len(p) > 0 && s.err == nil {
		switch s.encoding {
		case protobufEncoding:
			p = s.protobuf(p)
		case cborEncoding:
			p = s.cbor(p)
		default:
			p = s.json(p)
		}
	}
	return n - len(p), s.err
}

// Next returns the oldest frame that it has not yet returned, with its delimiters: the
// concatenation of all frames is the stream. A JSON frame ends with exactly one newline. The caller
// owns the frame.
func (s *Splitter) Next() (frame []byte, ok bool) {
	if len(s.frames) == 0 {
		return nil, false
	}
	frame = s.frames[0]
	s.frames[0] = nil
	s.frames = s.frames[1:]
	return frame, true
}

// Unfinished returns the number of bytes of an incomplete frame. At the end of a stream, it shows
// whether the stream ended in the middle of a frame.
func (s *Splitter) Unfinished() int { return len(s.buf) }

// json appends bytes up to the end of a frame.
func (s *Splitter) json(p []byte) (rest []byte) {
	if len(s.buf) == 0 {
		for len(p) > 0 && (p[0] == '\n' || p[0] == ' ' || p[0] == '\r' || p[0] == '\t') {
			p = p[1:]
		}
		if len(p) == 0 {
			return nil
		}
		if p[0] != '{' {
			s.err = fmt.Errorf("wire: watch frame begins with %q: want {; the stream does not consist of JSON frames", p[0])
			return p
		}
	}
	end, whole := s.endOfValue(p)
	if len(s.buf)+end > MaxFrame {
		s.err = tooLong(fmt.Sprintf("more than %d", MaxFrame))
		return p
	}
	s.buf = append(s.buf, p[:end]...)
	if whole {
		s.emit('\n')
	}
	return p[end:]
}

// endOfValue finds the end of the object that began at depth 0.
func (s *Splitter) endOfValue(p []byte) (end int, whole bool) {
	for i, c := range p {
		switch {
		case s.escape:
			s.escape = false
		case s.quoted:
			s.escape = c == '\\'
			s.quoted = c != '"'
		case c == '"':
			s.quoted = true
		case c == '{' || c == '[':
			s.depth++
		case c == '}' || c == ']':
			if s.depth--; s.depth == 0 {
				return i + 1, true
			}
		}
	}
	return len(p), false
}

// protobuf appends bytes up to the end of a frame, or of its length prefix.
func (s *Splitter) protobuf(p []byte) (rest []byte) {
	if missing := lengthSize - len(s.buf); missing > 0 {
		n := min(missing, len(p))
		s.buf = append(s.buf, p[:n]...)
		p = p[n:]
		if len(s.buf) < lengthSize {
			return nil
		}
	}
	size := int64(binary.BigEndian.Uint32(s.buf))
	if size > MaxFrame {
		s.err = tooLong(fmt.Sprint(size))
		return p
	}
	n := min(int(size)+lengthSize-len(s.buf), len(p))
	s.buf = append(s.buf, p[:n]...)
	if int64(len(s.buf)) == size+lengthSize {
		s.emit()
	}
	return p[n:]
}

func (s *Splitter) emit(tail ...byte) {
	frame := make([]byte, 0, len(s.buf)+len(tail))
	s.frames = append(s.frames, append(append(frame, s.buf...), tail...))
	if cap(s.buf) > 1<<20 {
		s.buf = nil // do not keep the memory of one large frame until the stream ends
	}
	s.buf = s.buf[:0]
}

func tooLong(size string) error {
	return fmt.Errorf("wire: watch frame of %s bytes: the limit is %d; the stream does not have its content type, or an object is too large", size, MaxFrame)
}
