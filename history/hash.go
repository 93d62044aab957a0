package history

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"strconv"
)

// Hash is the running hash of a run (FNV-1a, 64 bits).
type Hash uint64

const seedHash Hash = 14695981039346656037

// String returns 16 hexadecimal digits.
func (h Hash) String() string { return fmt.Sprintf("%016x", uint64(h)) }

// MarshalText implements encoding.TextMarshaler.
func (h Hash) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (h *Hash) UnmarshalText(text []byte) error {
	n, err := strconv.ParseUint(string(text), 16, 64)
	if err != nil || len(text) != 16 {
		return fmt.Errorf("history: hash %q is not 16 hexadecimal digits", text)
	}
	*h = Hash(n)
	return nil
}

// next returns the hash after one more step. It excludes the number, which follows from the order;
// the note, which explains the step to readers; Causes, which is derived; Versioned, which the digest
// implies; Older and Unrecorded, which the search alone needs; and Changes, which not every record of a run has.
func (h Hash) next(s *Step) Hash {
	f := fnv.New64a()
	number := func(n uint64) {
		var b [8]byte
		binary.LittleEndian.PutUint64(b[:], n)
		f.Write(b[:])
	}
	text := func(s string) {
		number(uint64(len(s)))
		f.Write([]byte(s))
	}
	number(uint64(h))
	number(uint64(s.At))
	for _, t := range [...]string{
		string(s.Kind), s.Actor, s.Verb, s.Resource, s.Namespace, s.Name, s.UID, s.Subresource,
		s.Query, s.Type, s.Reply, s.Digest, s.Fault,
	} {
		text(t)
	}
	for _, n := range [...]int64{int64(s.Stream), int64(s.Code), s.Revision, s.Before, s.Truth} {
		number(uint64(n))
	}
	if s.Guarded {
		number(1)
	}
	return Hash(f.Sum64())
}
