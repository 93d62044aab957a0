package store

import (
	"sort"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime"
)

// version is the value of a key from one revision on. It does not change once it is in its chain,
// except for the decoded object that readers may add.
type version struct {
	rev     int64  // the revision that wrote it
	created int64  // the revision that created the key
	writes  int64  // how often the key was written since its creation, including this write
	dead    bool   // the key was deleted; no value
	value   []byte // as stored, after the transformer

	decoded atomic.Pointer[decoded]
}

// decoded is the object that a value decodes to in one Storage. Another Storage may decode the same
// value to another version of the kind, so it also records the Storage.
type decoded struct {
	by  *objects
	obj runtime.Object
}

// chain is the history of one key, oldest first. It is never empty while it is in the tree. A dead
// version stays until compaction, so that a read at an older revision distinguishes "deleted" from
// "not yet created".
type chain struct {
	key      string
	versions []*version
}

func (c *chain) newest() *version { return c.versions[len(c.versions)-1] }

// live returns the current version, or nil if the key does not exist now.
func (c *chain) live() *version {
	if v := c.newest(); !v.dead {
		return v
	}
	return nil
}

// at returns the version that was current at rev, or nil.
func (c *chain) at(rev int64) *version {
	if v := c.newest(); v.rev <= rev {
		return c.live()
	}
	i := sort.Search(len(c.versions), func(i int) bool { return c.versions[i].rev > rev })
	if i == 0 || c.versions[i-1].dead {
		return nil
	}
	return c.versions[i-1]
}

// compact drops the versions that no read at rev or later can see, and reports whether the chain is
// empty. It does not move the other versions, so dropping the versions of a busy key one by one
// takes linear time.
func (c *chain) compact(rev int64) (empty bool) {
	for len(c.versions) > 0 && c.unseen(rev) {
		c.versions[0] = nil
		c.versions = c.versions[1:]
	}
	return len(c.versions) == 0
}

// unseen reports whether no read at rev or later sees the oldest version: it was replaced by then,
// or it is a deletion.
func (c *chain) unseen(rev int64) bool {
	if len(c.versions) > 1 && c.versions[1].rev <= rev {
		return true
	}
	return c.versions[0].dead && c.versions[0].rev <= rev
}
