package wire

import (
	"encoding/binary"
	"fmt"
)

// MaxFrame is the largest frame in bytes: far above what etcd takes.
const MaxFrame = 64 << 20

const lengthSize = 4 // of a protobuf frame, big-endian, before it

// Splitter takes a watch stream apart into frames, however its bytes arrive. It is
// not safe for use by several goroutines.
type Splitter struct {
	encoding encoding
	buf      []byte // of the frame that is not yet whole
	frames   [][]byte
	err      error

	// Where in a JSON frame buf ends.
	depth          int
	quoted, escape bool
}

// NewSplitter makes a splitter for a stream of this Content-Type.
func NewSplitter(contentType string) (*Splitter, error) {
	encoding, err := encodingOf(contentType)
	if err != nil {
		return nil, err
	}
	return &Splitter{encoding: encoding}, nil
}

// Write takes the next bytes of the stream. After an error the stream makes no
// sense any more, and every further Write returns it; whole frames from before can
// still be had.
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

// Next returns the oldest frame not yet returned, with its delimiters: writing the
// frames to a client one after another is writing the stream. A JSON frame ends
// with exactly one newline. The frame is the caller's.
func (s *Splitter) Next() (frame []byte, ok bool) {
	if len(s.frames) == 0 {
		return nil, false
	}
	frame = s.frames[0]
	s.frames[0] = nil
	s.frames = s.frames[1:]
	return frame, true
}

// Unfinished is the number of bytes of a frame whose end has not arrived. At the
// end of a stream it says whether the stream was cut in the middle of one.
func (s *Splitter) Unfinished() int { return len(s.buf) }

// json takes bytes up to the end of a frame.
func (s *Splitter) json(p []byte) (rest []byte) {
	if len(s.buf) == 0 {
		for len(p) > 0 && (p[0] == '\n' || p[0] == ' ' || p[0] == '\r' || p[0] == '\t') {
			p = p[1:]
		}
		if len(p) == 0 {
			return nil
		}
		if p[0] != '{' {
			s.err = fmt.Errorf("wire: a watch frame begins with %q, not with {: the stream is not JSON frames", p[0])
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

// endOfValue finds where the object ends that began at depth 0.
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

// protobuf takes bytes up to the end of a frame, or of the length before it.
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
		s.buf = nil // one large frame shall not be kept for the life of the stream
	}
	s.buf = s.buf[:0]
}

func tooLong(size string) error {
	return fmt.Errorf("wire: a watch frame of %s bytes, and the limit is %d: the stream is not what its content type says, or an object is too large", size, MaxFrame)
}
