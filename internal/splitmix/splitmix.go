// Package splitmix has the mixing functions of SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number
// generators, 2014). Keyed draws use them: a draw hashes its key, and mixes the hash, because FNV hashes of similar
// keys are similar.
//
// It is not a random number generator: it has no state, and it does not hash keys. Recorded seeds and the division
// of nodes into shards depend on its exact results, so these must not change.
//
// Floor: F0. Imports nothing.
package splitmix

// gamma is the increment of SplitMix64: the golden ratio times 2^64, rounded to an odd number.
const gamma = 0x9e3779b97f4a7c15

// Next returns the output of a SplitMix64 generator in state x.
func Next(x uint64) uint64 { return Mix(x + gamma) }

// Mix is the finalizer of SplitMix64. It is a bijection, and maps 0 to 0.
func Mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
