package wire

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/bits"
)

const uuidSize = 36

// Digest returns 16 hexadecimal digits that are equal for bodies that differ only in the UUIDs in
// them. Leader election and some controllers generate random UUIDs, and others (upstream's Job
// controller, in uncountedTerminatedPods) write UUIDs in the order of a Go map.
func Digest(body []byte) string {
	h := fold(uint64(len(body)), 0)
	done := 0 // the number of hashed bytes
	for at := 0; ; {
		dash := bytes.IndexByte(body[at:], '-')
		if dash < 0 {
			break
		}
		start := at + dash - 8
		if start < done || !isUUID(body[start:]) {
			at += dash + 1
			continue
		}
		h = add(h, body[done:start])
		h = fold(h, 1<<63)
		done = start + uuidSize
		at = done
	}
	return fmt.Sprintf("%016x", add(h, body[done:]))
}

// add hashes eight bytes at a time. A run hashes every frame and body, and FNV, with a
// multiplication per byte, took half of the time for reading them.
func add(h uint64, b []byte) uint64 {
	for ; len(b) >= 8; b = b[8:] {
		h = fold(h, binary.LittleEndian.Uint64(b))
	}
	var last [8]byte
	copy(last[:], b)
	return fold(fold(h, binary.LittleEndian.Uint64(last[:])), uint64(len(b)))
}

// fold multiplies to 128 bits and combines the halves, so that every bit of the word
// influences every bit of the hash. The constants are the first digits of
// the golden ratio and of the square root of 2, made odd.
func fold(h, word uint64) uint64 {
	hi, lo := bits.Mul64(h^0x9e3779b97f4a7c15, word^0x6a09e667f3bcc909)
	return hi ^ lo
}

// isUUID reports whether b begins with a UUID: 8-4-4-4-12 hexadecimal digits.
func isUUID(b []byte) bool {
	if len(b) < uuidSize || b[8] != '-' || b[13] != '-' || b[18] != '-' || b[23] != '-' {
		return false
	}
	for i, c := range b[:uuidSize] {
		switch {
		case '0' <= c && c <= '9', 'a' <= c && c <= 'f', 'A' <= c && c <= 'F':
		case i == 8 || i == 13 || i == 18 || i == 23:
		default:
			return false
		}
	}
	return true
}
