package stages

import (
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/rehearse-k8s/rehearse/internal/splitmix"
)

// mostShards bounds the work of finding the shard of a node.
const mostShards = 1000

// Shard is one of Count parts of the nodes, each with its pods. The zero value is the whole.
//
// The shard of a node depends only on its name, by rendezvous hashing: every shard computes a number for the
// node, and the highest one has it. So shards need not communicate, each node is in exactly one, and when
// Count changes from n to n+1 only one node in n+1 moves, to the new shard.
type Shard struct{ Index, Count int }

// ParseShard parses "INDEX/COUNT", with the index starting at 0.
func ParseShard(text string) (Shard, error) {
	index, count, _ := strings.Cut(text, "/")
	i, err := strconv.Atoi(index)
	n, err2 := strconv.Atoi(count)
	if err != nil || err2 != nil || n < 1 || n > mostShards || i < 0 || i >= n {
		return Shard{}, fmt.Errorf("shard %q is not INDEX/COUNT, as in 0/3, with an index below the count and a count of 1 to %d", text, mostShards)
	}
	return Shard{Index: i, Count: n}, nil
}

// String returns the form that ParseShard parses.
func (s Shard) String() string { return fmt.Sprintf("%d/%d", s.Index, max(s.Count, 1)) }

// Owns reports whether the node of this name is in the shard.
func (s Shard) Owns(node string) bool {
	if s.Count <= 1 {
		return true
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(node))
	name := h.Sum64()
	best, most := 0, uint64(0)
	for i := range s.Count {
		if drawn := splitmix.Next(name ^ splitmix.Next(uint64(i)+1)); i == 0 || drawn > most {
			best, most = i, drawn
		}
	}
	return best == s.Index
}

// part returns the shard's own part of a range that all nodes use. Without it two shards could assign the same
// address at the same time.
func (s Shard) part(p pool) pool {
	if s.Count <= 1 {
		return p
	}
	begin := p.count * uint64(s.Index) / uint64(s.Count)
	end := p.count * uint64(s.Index+1) / uint64(s.Count)
	p.first, p.count = p.first+begin, end-begin
	return p
}

// manages reports whether the engine runs stages on a node.
func (o StageOptions) manages(n *corev1.Node) bool {
	return o.Manage.Matches(n) && o.Shard.Owns(n.Name)
}
