package expr

import "k8s.io/apimachinery/pkg/types"

// Purpose keeps the draws of one stage of one object apart.
type Purpose uint64

const (
	ForChoice Purpose = iota + 1
	ForDelay
	ForOther
	ForExpression
	ForTemplate
)

// Draw is a uniform number in [0, 1) that depends on its arguments and on
// nothing else: not on how many draws came before, not on other objects. Taking
// one stage or one object away leaves all other draws as they were.
func Draw(seed uint64, uid types.UID, stage string, played uint64, why Purpose) float64 {
	const (
		offset = 14695981039346656037
		prime  = 1099511628211
	)
	h := uint64(offset)
	h = (h ^ mix(seed)) * prime
	for i := range len(uid) {
		h = (h ^ uint64(uid[i])) * prime
	}
	h = (h ^ 0xff) * prime
	for i := range len(stage) {
		h = (h ^ uint64(stage[i])) * prime
	}
	h = mix(h ^ mix(played+1) ^ mix(uint64(why)<<32))
	return float64(h>>11) / (1 << 53)
}

// mix is the finalizer of splitmix64.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9
	x = (x ^ (x >> 27)) * 0x94d049bb133111eb
	return x ^ (x >> 31)
}
