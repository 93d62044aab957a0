package stages

import (
	"fmt"
	"math"
	"net/netip"
	"testing"

	"pgregory.net/rapid"
)

func TestParseShard(t *testing.T) {
	for _, good := range []string{"0/1", "0/3", "2/3", "999/1000"} {
		if s, err := ParseShard(good); err != nil || s.String() != good {
			t.Errorf("%s: %v %v", good, s, err)
		}
	}
	for _, bad := range []string{"", "1", "/", "3/3", "-1/3", "0/0", "0/-1", "a/b", "1/2/3", "0/1001", "0/3 ", "0.5/2"} {
		if s, err := ParseShard(bad); err == nil {
			t.Errorf("%q was parsed as %v", bad, s)
		}
	}
}

// TestShardsStay checks that nodes have the same shards in later versions: a cluster may run two versions at once.
func TestShardsStay(t *testing.T) {
	for n, want := range []int{0, 3, 0, 3, 1, 2, 0, 3} {
		if node := fmt.Sprintf("node-%d", n); !(Shard{Index: want, Count: 4}).Owns(node) {
			t.Errorf("%s is not in shard %d of 4", node, want)
		}
	}
}

// TestEachNodeIsInOneShard checks that each node is in exactly one shard, whatever its name, and that the zero
// value contains all nodes.
func TestEachNodeIsInOneShard(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		node := rapid.String().Draw(t, "node")
		count := rapid.IntRange(1, 40).Draw(t, "count")
		owners := 0
		for i := range count {
			if (Shard{Index: i, Count: count}).Owns(node) {
				owners++
			}
		}
		if owners != 1 {
			t.Fatalf("%d of %d shards have %q", owners, count, node)
		}
		if !(Shard{}).Owns(node) {
			t.Fatalf("the zero value does not have %q", node)
		}
	})
}

// TestOneMoreShardMovesOnlyItsOwnNodes checks that an additional shard takes its nodes from the others and
// moves no other node.
func TestOneMoreShardMovesOnlyItsOwnNodes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		node := rapid.String().Draw(t, "node")
		count := rapid.IntRange(1, 40).Draw(t, "count")
		for i := range count {
			before, after := Shard{i, count}.Owns(node), Shard{i, count + 1}.Owns(node)
			if after && !before {
				t.Fatalf("%q moved to the old shard %d", node, i)
			}
		}
	})
}

// TestShardsAreEven checks that usual node names are spread evenly: within five standard deviations.
func TestShardsAreEven(t *testing.T) {
	const nodes = 20000
	for _, format := range []string{"node-%d", "ip-10-0-%d.ec2.internal", "%06d"} {
		for _, count := range []int{2, 3, 7, 16} {
			for i := range count {
				own := 0
				for n := range nodes {
					if (Shard{i, count}).Owns(fmt.Sprintf(format, n)) {
						own++
					}
				}
				p := 1 / float64(count)
				if off := math.Abs(float64(own) - nodes*p); off > 5*math.Sqrt(nodes*p*(1-p)) {
					t.Errorf("%s: shard %d/%d has %d of %d nodes", format, i, count, own, nodes)
				}
			}
		}
	}
}

// TestShardsShareNoAddress checks that the parts of a range are disjoint and cover it.
func TestShardsShareNoAddress(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		whole := newPool(netip.PrefixFrom(netip.MustParseAddr("10.0.0.0"), rapid.IntRange(1, 32).Draw(t, "bits")))
		count := rapid.IntRange(1, 40).Draw(t, "count")
		next := whole.first
		for i := range count {
			p := Shard{i, count}.part(whole)
			if p.first != next {
				t.Fatalf("part %d begins at %d, want %d", i, p.first, next)
			}
			next += p.count
		}
		if next != whole.first+whole.count {
			t.Fatalf("the parts end at %d, the range at %d", next, whole.first+whole.count)
		}
	})
}
