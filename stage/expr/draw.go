package expr

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/rehearse-k8s/rehearse/internal/splitmix"
)

// Purpose distinguishes the draws of one stage for one object.
type Purpose uint64

const (
	ForChoice Purpose = iota + 1
	ForDelay
	ForOther
	ForExpression
	ForTemplate
)

// Draw returns a uniform number in [0, 1) that depends only on its arguments, not on earlier draws or on
// other objects. Removing a stage or an object does not change the other draws.
func Draw(seed uint64, uid types.UID, stage string, played uint64, why Purpose) float64 {
	const (
		offset = 14695981039346656037
		prime  = 1099511628211
	)
	h := uint64(offset)
	h = (h ^ splitmix.Next(seed)) * prime
	for i := range len(uid) {
		h = (h ^ uint64(uid[i])) * prime
	}
	h = (h ^ 0xff) * prime
	for i := range len(stage) {
		h = (h ^ uint64(stage[i])) * prime
	}
	h = splitmix.Next(h ^ splitmix.Next(played+1) ^ splitmix.Next(uint64(why)<<32))
	return float64(h>>11) / (1 << 53)
}
