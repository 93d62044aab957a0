package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"unicode/utf8"
)

var errJSON = errors.New("wire: the text is not well-formed JSON")

// scan reads a JSON text and skips unneeded values without decoding them. For well-formed text it
// agrees with encoding/json; for other text it may or may not return an error.
type scan struct {
	b []byte
	i int
}

// space skips white space and returns the byte that follows, 0 at the end.
func (s *scan) space() byte {
	for s.i < len(s.b) {
		switch c := s.b[s.i]; c {
		case ' ', '\n', '\t', '\r':
			s.i++
		default:
			return c
		}
	}
	return 0
}

// text reads a string. If the value is not a string, it is skipped and ok is false.
func (s *scan) text() (value []byte, ok bool, err error) {
	if s.space() != '"' {
		return nil, false, s.skip()
	}
	start := s.i
	if err := s.skipText(); err != nil {
		return nil, false, err
	}
	raw := s.b[start+1 : s.i-1]
	if bytes.IndexByte(raw, '\\') < 0 && utf8.Valid(raw) {
		return raw, true, nil
	}
	var decoded string
	if json.Unmarshal(s.b[start:s.i], &decoded) != nil {
		return nil, false, errJSON
	}
	return []byte(decoded), true, nil
}

// skipText skips a string that begins here.
func (s *scan) skipText() error {
	for i := s.i + 1; ; i++ {
		n := bytes.IndexByte(s.b[i:], '"')
		if n < 0 {
			return errJSON
		}
		i += n
		escapes := 0
		for s.b[i-1-escapes] == '\\' {
			escapes++
		}
		if escapes%2 == 0 {
			s.i = i + 1
			return nil
		}
	}
}

// skip skips one value.
func (s *scan) skip() error {
	switch s.space() {
	case '"':
		return s.skipText()
	case '{', '[':
	default:
		start := s.i
		for s.i < len(s.b) && !endsScalar(s.b[s.i]) {
			s.i++
		}
		if s.i == start {
			return errJSON
		}
		return nil
	}
	for depth := 0; s.i < len(s.b); {
		switch s.b[s.i] {
		case '"':
			if err := s.skipText(); err != nil {
				return err
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		}
		s.i++
		if depth == 0 {
			return nil
		}
	}
	return errJSON
}

func endsScalar(c byte) bool {
	switch c {
	case ',', '}', ']', ' ', '\n', '\t', '\r', ':', '"', '{', '[':
		return true
	}
	return false
}

// value skips one value and returns it.
func (s *scan) value() ([]byte, error) {
	s.space()
	start := s.i
	err := s.skip()
	return s.b[start:s.i], err
}

// object calls field for each key, until field returns false; field must read or skip the value. A
// value that is not an object is skipped.
func (s *scan) object(field func(key []byte) (more bool, err error)) error {
	if s.space() != '{' {
		return s.skip()
	}
	s.i++
	if s.space() == '}' {
		s.i++
		return nil
	}
	for {
		if s.space() != '"' {
			return errJSON
		}
		key, _, err := s.text()
		if err != nil {
			return err
		}
		if s.space() != ':' {
			return errJSON
		}
		s.i++
		more, err := field(key)
		if err != nil || !more {
			return err
		}
		switch s.space() {
		case ',':
			s.i++
		case '}':
			s.i++
			return nil
		default:
			return errJSON
		}
	}
}

// first calls element for the first element of an array and skips the others. A value that is not
// an array, and an empty array, are skipped.
func (s *scan) first(element func() error) error {
	start := s.i
	if s.space() == '[' {
		s.i++
		if s.space() != ']' {
			if err := element(); err != nil {
				return err
			}
		}
		s.i = start
	}
	return s.skip()
}
