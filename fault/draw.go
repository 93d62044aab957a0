package fault

import (
	"encoding/binary"
	"hash/fnv"
)

// Draw is keyed randomness: the same seed and key give the same 64 bits whatever
// was drawn before. So a fault that is left out leaves the others where they
// were, which is what makes shrinking work.
func Draw(seed uint64, key ...string) uint64 {
	f := fnv.New64a()
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], seed)
	f.Write(b[:])
	for _, k := range key {
		binary.LittleEndian.PutUint64(b[:], uint64(len(k)))
		f.Write(b[:])
		f.Write([]byte(k))
	}
	return mix(f.Sum64())
}

// mix is the finalizer of splitmix64 (Steele, Lea, Flood: Fast splittable
// pseudorandom number generators, 2014): FNV alone leaves neighbours alike.
func mix(z uint64) uint64 {
	z ^= z >> 30
	z *= 0xbf58476d1ce4e5b9
	z ^= z >> 27
	z *= 0x94d049bb133111eb
	return z ^ z>>31
}

// Pick draws a number in [0, n). n must be above 0.
func Pick(n int, seed uint64, key ...string) int {
	return int(Draw(seed, key...) % uint64(n))
}
