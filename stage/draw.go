package stage

import (
	"math"

	"k8s.io/apimachinery/pkg/types"
)

// purpose keeps the draws of one stage of one object apart.
type purpose uint64

const (
	drawChoice purpose = iota + 1
	drawDelay
	drawOther
	drawExpression
	drawTemplate
)

// Draw is the same for whoever else needs randomness about one object: a
// uniform number in [0, 1) keyed by (seed, UID, actor, n) and by nothing else.
func Draw(seed uint64, uid types.UID, actor string, n uint64) float64 {
	return draw(seed, uid, actor, n, drawOther)
}

// draw is a uniform number in [0, 1) that depends on its arguments and on
// nothing else: not on how many draws came before, not on other objects. Taking
// one stage or one object away leaves all other draws as they were.
func draw(seed uint64, uid types.UID, stage string, played uint64, why purpose) float64 {
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

// score turns a draw into a place in a weighted race: the stage with the least
// score is chosen, and each wins with probability weight / sum of weights. A
// stage that leaves the race changes the winner only if it was the winner.
func score(u, weight float64) float64 {
	return -math.Log1p(-u) / weight
}
