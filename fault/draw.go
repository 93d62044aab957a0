package fault

import (
	"encoding/binary"
	"hash/fnv"
)

// Draw returns 64 random bits that depend on the seed and the key alone, not on earlier
// draws. So removing a fault does not change the others, which shrinking depends on.
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
// pseudorandom number generators, 2014): the hashes of FNV of
// similar keys are similar.
func mix(z uint64) uint64 {
	z ^= z >> 30
	z *= 0xbf58476d1ce4e5b9
	z ^= z >> 27
	z *= 0x94d049bb133111eb
	return z ^ z>>31
}

// Pick draws a number in [0, n). n must be positive.
func Pick(n int, seed uint64, key ...string) int {
	return int(Draw(seed, key...) % uint64(n))
}
