package wire

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
)

var errCBOR = errors.New("wire: the message is not well-formed CBOR")

// cborMagic is the prefix of every object in CBOR: the tag of self-described CBOR (RFC 8949, 3.4.6),
// which the API server always writes.
var cborMagic = []byte{0xd9, 0xd9, 0xf7}

// jsonOfCBOR converts CBOR to JSON. Few clients use CBOR; for them the whole object is
// decoded.
func jsonOfCBOR(body []byte) ([]byte, error) {
	var v any
	if err := direct.Unmarshal(body, &v); err != nil {
		return nil, fmt.Errorf("%w: %w", errCBOR, err)
	}
	return json.Marshal(v)
}

func cborEvent(frame []byte) (typ string, o object, err error) {
	text, err := jsonOfCBOR(frame)
	if err != nil {
		return "", o, err
	}
	return jsonEvent(text)
}

func readCBOR(body []byte) (o object, err error) {
	text, err := jsonOfCBOR(body)
	if err != nil {
		return o, err
	}
	return readJSON(text)
}

// cbor appends bytes up to the end of a frame, which is one data item of a sequence (RFC 8742).
func (s *Splitter) cbor(p []byte) (rest []byte) {
	s.buf = append(s.buf, p...)
	size, err := cborItem(s.buf, 0)
	switch {
	case errors.Is(err, errUnfinished):
		if len(s.buf) > MaxFrame {
			s.err = tooLong(fmt.Sprintf("more than %d", MaxFrame))
		}
		return nil
	case err != nil:
		s.err = fmt.Errorf("%w: the stream does not consist of CBOR frames", err)
		return p
	case size > MaxFrame:
		s.err = tooLong(fmt.Sprint(size))
		return p
	}
	rest = bytes.Clone(s.buf[size:])
	s.buf = s.buf[:size]
	s.emit()
	return rest
}

// errUnfinished is returned if the bytes end inside an item.
var errUnfinished = errors.New("wire: the CBOR item has not ended")

// maxDepth is the maximum depth of nested items.
const maxDepth = 256

// cborItem returns the length in bytes of the data item at the start of b (RFC 8949, 3).
func cborItem(b []byte, depth int) (size int, err error) {
	if depth > maxDepth {
		return 0, fmt.Errorf("%w: it is nested more than %d deep", errCBOR, maxDepth)
	}
	major, value, head, indefinite, err := cborHead(b)
	if err != nil {
		return 0, err
	}
	size = head
	items := func(n uint64, until bool) error {
		for i := uint64(0); until || i < n; i++ {
			if size >= len(b) {
				return errUnfinished
			}
			if until && b[size] == 0xff {
				size++
				return nil
			}
			inner, err := cborItem(b[size:], depth+1)
			if err != nil {
				return err
			}
			size += inner
		}
		return nil
	}
	switch major {
	case 0, 1, 7: // numbers and simple values consist of the head
		return size, nil
	case 2, 3: // strings
		if indefinite {
			err = items(0, true)
			return size, err
		}
		if value > uint64(MaxFrame) {
			return 0, tooLong(fmt.Sprint(value))
		}
		if uint64(len(b)-size) < value {
			return 0, errUnfinished
		}
		return size + int(value), nil
	case 4, 5: // arrays, maps
		if major == 5 {
			if value > math.MaxUint64/2 {
				return 0, errCBOR
			}
			value *= 2
		}
		err = items(value, indefinite)
		return size, err
	default: // a tag and its item
		err = items(1, false)
		return size, err
	}
}

// cborHead reads the first byte of an item and the number that follows it.
func cborHead(b []byte) (major byte, value uint64, size int, indefinite bool, err error) {
	if len(b) == 0 {
		return 0, 0, 0, false, errUnfinished
	}
	major, info := b[0]>>5, b[0]&0x1f
	switch {
	case info < 24:
		return major, uint64(info), 1, false, nil
	case info <= 27:
		n := 1 << (info - 24)
		if len(b) < 1+n {
			return 0, 0, 0, false, errUnfinished
		}
		var wide [8]byte
		copy(wide[8-n:], b[1:1+n])
		return major, binary.BigEndian.Uint64(wide[:]), 1 + n, false, nil
	case info == 31 && major >= 2 && major <= 5:
		return major, 0, 1, true, nil
	}
	return 0, 0, 0, false, fmt.Errorf("%w: no item begins with byte 0x%02x", errCBOR, b[0])
}
