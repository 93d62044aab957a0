package wire

import (
	"bytes"
	"fmt"
)

const (
	fnvOffset uint64 = 14695981039346656037
	fnvPrime  uint64 = 1099511628211
	uuidSize         = 36
)

// Digest is 16 hexadecimal digits that are the same for bodies that differ only
// in the UUIDs in them: each stands for the order in which it first appeared in
// the body. Leader election and some controllers draw UUIDs outside of anybody's
// control.
func Digest(body []byte) string {
	h := fnvOffset
	var seen order
	done := 0 // hashed so far
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
		n := seen.of([uuidSize]byte(body[start:]))
		h = add(h, []byte{0, 'u', byte(n), byte(n >> 8), byte(n >> 16), byte(n >> 24)})
		done = start + uuidSize
		at = done
	}
	return fmt.Sprintf("%016x", add(h, body[done:]))
}

func add(h uint64, b []byte) uint64 {
	for _, c := range b {
		h = (h ^ uint64(c)) * fnvPrime
	}
	return h
}

// isUUID tells whether a UUID begins here: 8-4-4-4-12 hexadecimal digits.
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

// order numbers UUIDs by first appearance. Most bodies have one or two.
type order struct {
	few  [4][uuidSize]byte
	n    int
	many map[[uuidSize]byte]int
}

func (o *order) of(id [uuidSize]byte) int {
	for i := range min(o.n, len(o.few)) {
		if o.few[i] == id {
			return i
		}
	}
	if i, ok := o.many[id]; ok {
		return i
	}
	if o.n < len(o.few) {
		o.few[o.n] = id
	} else {
		if o.many == nil {
			o.many = map[[uuidSize]byte]int{}
		}
		o.many[id] = o.n
	}
	o.n++
	return o.n - 1
}
