package fault

import (
	"encoding/binary"
	"hash/fnv"

	"github.com/rehearse-k8s/rehearse/internal/splitmix"
)

// Draw returns 64 random bits that depend only on the seed and the key, not on earlier draws. So
// the removal of one fault does not change the others, which shrinking requires.
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
	return splitmix.Mix(f.Sum64())
}

// Pick returns a number in [0, n) that depends only on the seed and the key. n must be positive.
func Pick(n int, seed uint64, key ...string) int {
	return int(Draw(seed, key...) % uint64(n))
}
